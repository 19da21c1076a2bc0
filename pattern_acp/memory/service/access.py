"""Memory as tools, commands and requests use it.

Owns: the port, and the values that pass it: blocks, edits, changes, searches and hits. Must not know: how anything is
stored, found or shown.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pattern_acp.domain.access import DataSource, WriteMemory
from pattern_acp.domain.clock import ToolCallId

if TYPE_CHECKING:
    from pattern_acp.memory.schemas.types import BlockSchema

ARCHIVE = "archive"
"""The label that stands for the archive."""

REVERTING = frozenset({"undo", "redo", "rollback"})
"""Operations of memory_write that take back what was written."""

STATUS_OPERATIONS = frozenset({"resolve", "reopen"})
"""Operations that say whether an archival entry holds."""


class OperationRule(Struct, frozen=True):
    """The needs of an operation, and the further arguments that it takes, besides `label` and `reason`."""

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    """Those of `takes` of which it needs one."""
    usual: tuple[str, ...] = ()
    """Those of `takes` that nearly every call has."""

    @property
    def signature(self) -> str:
        """The arguments as a model reads them behind the operation, such as `(old_text, text)`; empty for none."""
        names = ", ".join((*self.needs, *self.usual))
        return f"({names})" if names else ""


OPERATIONS: Mapping[str, OperationRule] = {
    "append": OperationRule(("text",), ("field", "check")),
    "replace": OperationRule(("old_text",), ("text", "field", "check"), usual=("text",)),
    "insert_after": OperationRule(("old_text", "text"), ("field", "check")),
    "rewrite": OperationRule((), ("text", "field"), usual=("text",)),
    "set": OperationRule((), ("text", "field"), either=("field", "text"), usual=("field", "text")),
    "add": OperationRule(("text",), ("field", "to", "check")),
    "move": OperationRule(("old_text",), ("to", "field")),
    "remove": OperationRule(("old_text",), ("field",)),
    "create": OperationRule(
        (), ("text", "template", "description", "scope"), either=("description", "template"), usual=("description",)
    ),
    "archive": OperationRule(("old_text",), ("check",)),
    "verify": OperationRule(("old_text",), ("check", "field")),
}
"""Every operation of blocks, in the order that the model reads them."""

EVERY_OPERATION: Mapping[str, OperationRule] = {
    **OPERATIONS,
    "resolve": OperationRule(("old_text", "reason")),
    "reopen": OperationRule(("old_text",)),
    "undo": OperationRule((), ("version",)),
    "redo": OperationRule((), ("version",)),
    "rollback": OperationRule(("version",)),
}
"""Every operation of memory_write: those of blocks, of the archive's notes, and those that take a write back."""

OF_ARCHIVE = ("append", "add", "replace", "verify", "resolve", "reopen")
"""The operations of the archive."""


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
    """Its content besides free text, in a sentence; empty for free text."""
    notes: tuple[str, ...] = ()
    """Facts for the model about its present state: double changes to repair, stale facts."""
    in_context: bool = True
    """True if it belongs in every request now; others are only named."""
    write_denied: str = ""
    """Why the agent may not write it at all, in a sentence, as in an isolated project; empty where it may."""
    shared_from: str = ""
    """Whose it is, when it is attached and not this persona's or project's own."""
    block_id: str = ""
    version: int = 0
    """Number of the newest write."""
    schema: "BlockSchema | None" = None
    """Its schema; None for free text."""


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
    """The target of a move: the item that it goes behind, or the entry that it goes below."""
    check: str = ""
    """A command that finds out whether the fact still holds."""
    template: str = ""
    description: str = ""
    scope: str = ""
    """The scope of a block to create: `persona`, `project` or `shared`; empty for the template's."""
    base: str | None = None
    """The text on which a rewrite is based; later changes by others survive it."""
    kind: str = ""
    """The kind of an archival entry that is a trap, constraint or decision, with `paths`, `severity` and `until`."""
    paths: tuple[str, ...] = ()
    severity: str = ""
    until: str = ""
    """A day like 2026-12-31, the last on which the entry applies, or `never`."""
    read: tuple[DataSource, ...] = ()
    """Data of others that the turn of the write had read, of the project last."""

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
    """Notes for the writer, such as a double change to repair."""


class MemoryProposal(Struct, frozen=True):
    """The changes that edits would make, in their order, and the accesses that policy decides on."""

    changes: tuple[MemoryChange, ...]
    accesses: tuple[WriteMemory, ...]


NO_GOOD_MATCH = "Nothing in memory has much in common with this, so it may not be known; the nearest there is:"
"""The sentence before hits that are guesses (`MemoryHit.is_guess`)."""


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
    """Its similarity in meaning to the query, up to 1; None if unknown."""
    place: str = ""
    """Its origin in words for the user, without ids; empty if `source` has none."""
    entry: int = 0
    """The entry that `MemoryAccess.recalled` counts; 0 if nothing is counted."""
    is_guess: bool = False
    """Nothing that was found has much in common with the query; this is the nearest there is."""
    others: int = 0
    """The number of older hits with the same text that it represents."""
    as_of: int = 0
    """Number of the newest event when a search for a prompt read it; 0 for other searches."""


class MemoryFilter(Struct, frozen=True):
    """The limits of a search; all are optional. Times are milliseconds since 1970-01-01 UTC."""

    scope: str = ""
    kinds: tuple[str, ...] = ()
    """Values of `memory.search_terms.EntryKind`; none: all but superseded ones."""
    session: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    hurried: bool = False
    """Rather by words alone than to wait for an embedder that has to be loaded first."""
    for_prompt: bool = False
    """Nothing of this session; and not what repeats the query, but what answered it then."""


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
        """Note that these things were shown to the model or the user; they are counted when the turn ends."""
        ...

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """Return the change that the edit would make.

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
        """Return the changes of the edits, one after the other, and who has to consent.

        Raises:
            BlockError: with a sentence for the model.
        """
        ...

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """Apply and record all edits in one transaction, or none of them; `consented` if the user was asked.

        Raises:
            BlockError: nothing was changed, and why.
        """
        ...

    async def search(self, query: str, limit: int, narrowing: MemoryFilter = EVERYTHING) -> tuple[MemoryHit, ...]:
        """Best hits over blocks, archival entries and past messages, best first; any input is safe."""
        ...
