"""How tools reach the code map of a session's folders.

Owns: the port, and what an answer carries beside what was asked. Must not know: how an index is built or kept. Nothing
of `codemap` is imported when a session starts.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress, Judgement
    from pattern_acp.db.transaction import Transaction
    from pattern_acp.workspace.git import ChangedFile

FoundT = TypeVar("FoundT")


MOST_DEPTH = 5


class CodeOperation(StrEnum):
    """What can be asked of the code map."""

    FIND = "find"
    OUTLINE = "outline"
    BRIEF = "brief"
    CALLERS = "callers"
    IMPORTERS = "importers"
    IMPACT = "impact"
    DEFINITION = "definition"
    REFERENCES = "references"
    RENAME = "rename"


class CodeMapArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of code_map."""

    operation: CodeOperation
    query: Annotated[str, Meta(description="Name, Class.method, path, path:line:name or topic.")] = ""
    kinds: Annotated[tuple[str, ...], Meta(description="class, function, file...")] = ()
    under: Annotated[str, Meta(description="Folder.")] = ""
    depth: Annotated[int, Meta(ge=1, le=MOST_DEPTH)] = 2
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None
    new_name: str = ""


class CodeState(Struct, frozen=True):
    """How far an answer of the index can be trusted."""

    judgement: "Judgement"
    building: bool = False
    """Whether the index is being built or brought up to date meanwhile."""


class CodeAccess(Protocol):
    """The code maps of this process, one a folder."""

    async def ask(
        self,
        root: str,
        question: "Callable[[Transaction], FoundT]",
        *,
        on_progress: "Callable[[IndexProgress], Awaitable[None]]",
    ) -> tuple[FoundT | None, CodeState]:
        """What the index of the absolute folder `root` says to a question; None where there is no index to ask.

        A first question waits a few seconds for the index to be built; the building goes on in the background.
        `on_progress` is called while it waits. Then the answer is what the index can say.

        Raises:
            WorkspaceError: the index can be neither read nor made anew, and why.
        """
        ...

    def note_changed(self, paths: Sequence[str]) -> None:
        """Files were written by the agent itself; their part of the index is renewed at once. Returns at once."""
        ...

    def note_command_ended(self) -> None:
        """A command ended, which may have changed anything. Returns at once."""
        ...

    async def changed_files(self, root: str) -> "tuple[ChangedFile, ...]":
        """What differs from the last commit below `root`.

        Raises:
            WorkspaceError: git cannot say.
        """
        ...
