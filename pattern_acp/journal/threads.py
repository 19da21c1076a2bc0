"""What was done in a folder, session by session, for those who come back to it.

Owns: reading it. Must not know: how it is told.
"""

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.cwd import cwd_key

_QUERIES = load_queries("pattern_acp.journal")


class Thread(Struct, frozen=True):
    """A session: its title, when it was used last, how its last turn ended ('' for not), and open steps of its plan."""

    title: str
    updated_ms: int
    stop_reason: str
    open_steps: tuple[str, ...]


def threads_since(
    tx: Transaction, persona: str, cwd: str, after: int, *, exclude: SessionId, limit: int
) -> tuple[Thread, ...]:
    """The sessions of a persona in a folder that did something after an event, newest first."""
    asked = {"persona": persona, "cwd_key": cwd_key(cwd), "after": after, "exclude": exclude, "limit": limit}
    return tuple(
        Thread(
            columns.text(row[0]),
            columns.integer(row[1]),
            "" if row[2] is None else columns.text(row[2]),
            () if row[3] is None else tuple(columns.text(row[3]).split("\n")),
        )
        for row in tx.all(_QUERIES["sessions_since"], asked)
    )
