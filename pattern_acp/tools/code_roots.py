"""One folder of a session, as questions about code see it.

Owns: how its files are named and which may be shown, how many lines an answer has, and what is said when a question
names nothing. Must not know: any question.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from pattern_acp.codemap.targets import Targets
from pattern_acp.db.transaction import Transaction
from pattern_acp.tools.base import ToolContext
from pattern_acp.tools.code_map import CodeMapArguments, CodeOperation
from pattern_acp.tools.code_texts import Line, Naming
from pattern_acp.workspace.git_changes import ChangedFile
from pattern_acp.workspace.paths import display_path

_LIMITS = {CodeOperation.FIND: 20, CodeOperation.OUTLINE: 60, CodeOperation.CALLERS: 50}
_USUAL_LIMIT = 40


class CodeRoot(Struct, frozen=True):
    """One root of the session as questions see it."""

    path: str
    """Absolute and resolved."""
    known_as: str
    """As the session was given it; "" when that was no other."""
    context: ToolContext
    changes: tuple[ChangedFile, ...] = ()
    judged: dict[str, bool] = field(default_factory=dict[str, bool])
    """What policy said of files so far: one question may ask about a file many times."""

    def may_show(self, relative: str) -> bool:
        """Whether policy lets the agent read the file without a question."""
        if relative not in self.judged:
            self.judged[relative] = self.context.may_read(str(Path(self.path, relative)))
        return self.judged[relative]

    def locate(self, relative: str) -> str:
        """The absolute path as the editor knows it: behind the links by which the session's folder was given."""
        return str(Path(self.known_as or self.path, relative))

    def show(self, relative: str) -> str:
        """The path as it is shown."""
        return display_path(self.locate(relative), self.context.cwd)

    def relative(self, absolute: str) -> str:
        """The path in the index of an absolute one inside this root; "" for the root itself."""
        below = display_path(absolute, self.path)
        return "" if below == "." else below

    @property
    def naming(self) -> Naming:
        """How files of this root are shown."""
        return Naming(self.show, self.locate)


Question: TypeAlias = Callable[[Transaction, CodeMapArguments, CodeRoot, Naming], list[Line]]
"""Answers from the index of one root; no lines when that has nothing to say."""


def limit_of(asked: CodeMapArguments) -> int:
    """How many things of one kind an answer shows."""
    return asked.limit or _LIMITS.get(asked.operation, _USUAL_LIMIT)


def near_lines(targets: Targets) -> list[Line]:
    """What may have been meant by a name that the index does not have; nothing when nothing is like it."""
    near = " or ".join(targets.near)
    return [Line(f"The index knows nothing called so; did you mean {near}?")] if near else []
