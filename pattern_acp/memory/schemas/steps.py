"""Steps that change a document, in terms that any CRDT has.

Owns: the types of steps and the names of the root containers. Must not know: Loro, what a step is for. Every container
is a root, named by section and purpose, so that two peers who make one at the same time make the same one. Places are
those at the time of the step: steps are done in their order.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.memory.schemas.types import Item, LogEntry, Node, Scalar


class SetLines(Struct, frozen=True):
    """Make a text read `text`; lines that stay keep their authors."""

    root: str
    text: str


class SetValue(Struct, frozen=True):
    """Set a key of a map, or take it away (None)."""

    root: str
    key: str
    value: Scalar | None


class Count(Struct, frozen=True):
    """Add to a counter."""

    root: str
    amount: float


class InsertItem(Struct, frozen=True):
    """Put an item into a list."""

    root: str
    at: int
    item: Item


class SetItem(Struct, frozen=True):
    """Change the item at a place, which keeps its identity."""

    root: str
    at: int
    item: Item


class MoveStep(Struct, frozen=True):
    """Move an item; `to` is its place afterwards."""

    root: str
    at: int
    to: int


class RemoveStep(Struct, frozen=True):
    """Take an item out of a list."""

    root: str
    at: int


class InsertEntry(Struct, frozen=True):
    """Put an entry into a log; `from_end` entries come after it."""

    root: str
    from_end: int
    entry: LogEntry


class RemoveEntry(Struct, frozen=True):
    """Take an entry out of a log again, as undo does; `from_end` entries come after it."""

    root: str
    from_end: int


class AddNode(Struct, frozen=True):
    """Put a node with all below it into a tree, `parent` being a node's id, or empty for the top."""

    root: str
    parent: str
    at: int
    node: Node


class MoveNode(Struct, frozen=True):
    """Move a node with all below it; `at` is its place among its new siblings."""

    root: str
    id: str
    parent: str
    at: int


class RemoveNode(Struct, frozen=True):
    """Take a node and all below it out of a tree."""

    root: str
    id: str


Step: TypeAlias = (
    SetLines
    | SetValue
    | Count
    | InsertItem
    | SetItem
    | MoveStep
    | RemoveStep
    | InsertEntry
    | RemoveEntry
    | AddNode
    | MoveNode
    | RemoveNode
)


class Roots(Struct, frozen=True):
    """Names of the root containers of a block (`section` empty) or of one of its sections.

    Loro refuses names with a slash or a NUL; names of fields and sections hold neither.
    """

    section: str = ""

    @property
    def text(self) -> str:
        """A text."""
        return self._named("text")

    @property
    def fields(self) -> str:
        """The map of a map's plain fields."""
        return self._named("fields")

    @property
    def items(self) -> str:
        """The items of a list."""
        return self._named("items")

    @property
    def entries(self) -> str:
        """The entries of a log."""
        return self._named("entries")

    @property
    def tree(self) -> str:
        """A tree."""
        return self._named("tree")

    def list_field(self, name: str) -> str:
        """The items of a map's list field."""
        return self._named(f"list:{name}")

    def counter(self, name: str) -> str:
        """A map's counter field."""
        return self._named(f"counter:{name}")

    def _named(self, purpose: str) -> str:
        return f"{self.section}.{purpose}" if self.section else purpose
