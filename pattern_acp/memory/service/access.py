"""Memory as tools, commands and requests use it.

Owns: the port, and the values that pass it: blocks, edits, changes, searches and hits. Must not know: how anything is
stored, found or shown.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pattern_acp.domain.access import WriteMemory
from pattern_acp.domain.ids import ToolCallId

if TYPE_CHECKING:
    from pattern_acp.memory.schemas.types import BlockSchema

ARCHIVE = "archive"
"""The label that stands for the archive."""

REVERTING = frozenset({"undo", "redo", "rollback"})
"""Operations of memory_write that take back what was written."""

STATUS_OPERATIONS = frozenset({"resolve", "reopen"})
"""Operations that say whether an archival entry holds."""


class OperationRule(Struct, frozen=True):
    """What an operation needs, and which further arguments it takes, besides `label` and `reason`."""

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


OPERATIONS: Mapping[str, OperationRule] = {
    "append": OperationRule(("text",), ("field", "check")),
    "replace": OperationRule(("old_text",), ("text", "field", "check")),
    "insert_after": OperationRule(("old_text", "text"), ("field", "check")),
    "rewrite": OperationRule((), ("text", "field")),
    "set": OperationRule((), ("text", "field")),
    "add": OperationRule(("text",), ("field", "to", "check")),
    "move": OperationRule(("old_text",), ("to", "field")),
    "remove": OperationRule(("old_text",), ("field",)),
    "create": OperationRule((), ("text", "template", "description", "scope")),
    "archive": OperationRule(("old_text",), ("check",)),
    "verify": OperationRule(("old_text",), ("check", "field")),
}
"""Every operation of blocks, in the order that the model reads them."""


class MemoryBlockView(Struct, frozen=True):
    """A block as tools and context see it."""

    label: str
    scope: str
    description: str
    text: str
    limit: int
    updated_at_ms: int
    permission: str = "read_write"
    form: str = ""
    """What it holds besides free text, in a sentence; empty for free text."""
    notes: tuple[str, ...] = ()
    """What the model should know of it now: double changes to mend, facts that are stale."""
    in_context: bool = True
    """Whether it belongs into every request now; others are only named."""
    write_denied: str = ""
    """Why the agent may not write it at all, in a sentence, as in an isolated project; empty where it may."""
    shared_from: str = ""
    """Whose it is, when it is attached and not this persona's or project's own."""
    block_id: str = ""
    version: int = 0
    """Number of the newest write."""
    schema: "BlockSchema | None" = None
    """What it can hold; None for free text."""


class MemoryEdit(Struct, frozen=True):
    """One edit; `OPERATIONS` lists what each operation of a block needs.

    The label `archive` stands for the archive, whose entries are named in `old_text` by id.
    """

    label: str
    operation: str
    text: str
    old_text: str = ""
    reason: str = ""
    field: str = ""
    """The section, field, or `section.field` that is meant."""
    to: str = ""
    """Where to: behind which item, below which entry."""
    check: str = ""
    """A command that finds out whether the fact still holds."""
    template: str = ""
    description: str = ""
    scope: str = ""
    """Of a block to create: `persona`, `project` or `shared`; empty for the template's."""
    base: str | None = None
    """The text that a rewrite was worked out from; what others changed since is kept."""
    kind: str = ""
    """What makes an archival entry a trap, constraint or decision, with `paths`, `severity` and `until`."""
    paths: tuple[str, ...] = ()
    severity: str = ""
    until: str = ""
    """A day like 2026-12-31, the last on which the entry applies, or `never`."""

    @property
    def has_conditions(self) -> bool:
        """True if the entry is, or stays, more than a plain fact."""
        return (self.kind, self.paths, self.severity, self.until) != ("", (), "", "")


class MemoryChange(Struct, frozen=True):
    """A committed edit: the block's text before and after."""

    label: str
    before: str
    after: str
    notes: tuple[str, ...] = ()
    """What the writer should know, such as a double change that is to be mended."""


class MemoryProposal(Struct, frozen=True):
    """What edits would change, in their order, and what policy decides on."""

    changes: tuple[MemoryChange, ...]
    accesses: tuple[WriteMemory, ...]


NO_GOOD_MATCH = "Nothing in memory has much in common with this, so it may not be known; the nearest there is:"
"""What stands before hits that are guesses (`MemoryHit.is_guess`)."""


class MemoryHit(Struct, frozen=True):
    """One thing found: where it is from, its text (excerpt) and when it was written."""

    source: str
    text: str
    at_ms: int
    score: float = 0.0
    why: str = ""
    """Why it was found, in a few words."""
    words: tuple[str, ...] = ()
    """Words of the query that it has too, in some form."""
    meaning: float | None = None
    """How alike it is to the query in meaning, up to 1; None where that is not known."""
    place: str = ""
    """Where it is from in words for the person, without ids; empty where `source` has none."""
    entry: int = 0
    """What `MemoryAccess.recalled` counts it by; 0 where nothing is counted."""
    is_guess: bool = False
    """Nothing that was found has much in common with the query; this is the nearest there is."""
    others: int = 0
    """Older ones with the same text that it stands for."""


class MemoryFilter(Struct, frozen=True):
    """What a search is limited to; everything is optional. Times are milliseconds since 1970-01-01 UTC."""

    scope: str = ""
    kinds: tuple[str, ...] = ()
    """Of `memory.filters.EntryKind`; none: all but what was superseded."""
    session: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    hurried: bool = False
    """Rather by words alone than to wait for an embedder that has to be loaded first."""


EVERYTHING = MemoryFilter()
"""A search without limits."""


class MemoryAccess(Protocol):
    """Memory as this session may use it; every write is journaled in the same transaction."""

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """All blocks of this session's persona and project, in a stable order."""
        ...

    def unreadable(self) -> Mapping[str, str]:
        """The damaged blocks that `blocks` left out when it was asked last: their labels, each with a sentence."""
        ...

    def touch(self, label: str) -> None:
        """Note that the session looked at a block, which is in context from now on."""
        ...

    def recalled(self, entries: Sequence[int]) -> None:
        """Note that these things were shown to the model or the person; they are counted when the turn ends."""
        ...

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """What the edit would change.

        Raises:
            BlockError: with a sentence for the model.
        """
        ...

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """Apply and record the edit in one transaction; visible to every process afterwards.

        Raises:
            BlockError: nothing was changed, and why.
        """
        ...

    async def preview_all(self, edits: Sequence[MemoryEdit]) -> MemoryProposal:
        """What the edits would change, one after the other, and who has to consent.

        Raises:
            BlockError: with a sentence for the model.
        """
        ...

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """Apply and record all edits in one transaction, or none of them; `consented` when the person was asked.

        Raises:
            BlockError: nothing was changed, and why.
        """
        ...

    async def search(self, query: str, limit: int, narrowing: MemoryFilter = EVERYTHING) -> tuple[MemoryHit, ...]:
        """Best hits over blocks, archival entries and past messages, best first; any input is safe."""
        ...
