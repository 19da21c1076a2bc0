"""What a block holds, as plain values.

Owns: one type of content for each schema. Must not know: how any of them is stored or reads.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.memory.schemas.types import FieldValue, Scalar


class TextState(Struct, frozen=True):
    """Free text."""

    text: str


class MapState(Struct, frozen=True):
    """Values by field name; a field that is not set is not there."""

    values: Mapping[str, FieldValue]


class Record(Struct, frozen=True):
    """An item with fields, as pairs of name and value in the order of the schema, so that it can be compared."""

    values: tuple[tuple[str, Scalar], ...]


Item: TypeAlias = str | Record


class ListState(Struct, frozen=True):
    """Items in their order."""

    items: tuple[Item, ...]


class LogEntry(Struct, frozen=True):
    """One entry: when in seconds since 1970-01-01 UTC, who wrote it, and what it says."""

    at: int
    by: str
    body: Item


class LogState(Struct, frozen=True):
    """The newest entries, oldest first, and how many older ones there are."""

    entries: tuple[LogEntry, ...]
    older: int = 0


class Node(Struct, frozen=True):
    """One entry of an outline. `id` is empty for one that is not stored yet."""

    id: str
    text: str
    children: "tuple[Node, ...]" = ()


class TreeState(Struct, frozen=True):
    """The entries at the top."""

    nodes: tuple[Node, ...]


PlainState: TypeAlias = TextState | MapState | ListState | LogState | TreeState


class CompositeState(Struct, frozen=True):
    """The content of each section, in the order of the schema."""

    sections: Mapping[str, PlainState]


State: TypeAlias = TextState | MapState | ListState | LogState | TreeState | CompositeState
