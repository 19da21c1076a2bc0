"""Filters of a search.

Owns: the filters and their form as parameters of statements. Must not know: scores, or who searches.
"""

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.db.connection import SqlValue

EntryKind: TypeAlias = Literal["block", "archival", "superseded", "user", "assistant", "task", "skill", "call"]
"""Source of a passage: a block, an archival entry (in force, or replaced by another), a message by its role, a step
of a plan or a task, a skill, or what a tool call did, which only leads to its turn."""

CURRENT_KINDS: tuple[EntryKind, ...] = ("block", "archival", "user", "assistant", "task", "skill")
"""Kinds that are searched by default: a superseded entry stays in history, out of search."""

ALL_KINDS: tuple[EntryKind, ...] = (*CURRENT_KINDS, "superseded")

FACT_KINDS = frozenset({"block", "archival", "superseded", "task", "skill"})
"""Kinds that were stored on purpose, as facts, not said in passing."""

TASK_ID = "task_"
"""Beginning of the id of a task: what kind `task` has as its source, where steps of a plan have a session."""

_LAST_MS = 1 << 62


class Filters(Struct, frozen=True):
    """The visible entries. Times are milliseconds since 1970-01-01 UTC, both ends included."""

    owners: tuple[str, ...]
    """Personas' names and project keys, whose entries may be found at all."""
    kinds: tuple[EntryKind, ...] = CURRENT_KINDS
    session: str = ""
    """Only what is from this source: messages of a session, or passages of a block."""
    exclude_session: str = ""
    """No messages of this session."""
    since_ms: int = 0
    until_ms: int = _LAST_MS

    @property
    def narrows(self) -> bool:
        """True when a time or a single session is asked for."""
        return bool(self.session) or self.since_ms > 0 or self.until_ms < _LAST_MS

    def params(self) -> Mapping[str, SqlValue]:
        """The parameters of a statement with the visible entries' conditions."""
        return {
            "owners": json.dumps(self.owners),
            "kinds": json.dumps(self.kinds),
            "session": self.session,
            "excluded": self.exclude_session,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
        }
