"""What a block holds, as plain values.

Owns: one type of content for each schema. Must not know: how any of them is stored or reads.
"""

from collections.abc import Mapping
from typing import TypeAlias

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.schemas.types import FieldValue, Scalar


@dataclass(frozen=True, slots=True)
class TextState:
    """Free text."""

    text: str


@dataclass(frozen=True, slots=True)
class MapState:
    """Values by field name; a field that is not set is not there."""

    values: Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class Record:
    """An item with fields, as pairs of name and value in the order of the schema, so that it can be compared."""

    values: tuple[tuple[str, Scalar], ...]


Item: TypeAlias = str | Record


@dataclass(frozen=True, slots=True)
class ListState:
    """Items in their order."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry: when in seconds since 1970-01-01 UTC, who wrote it, and what it says."""

    at: int
    by: str
    body: Item


@dataclass(frozen=True, slots=True)
class LogState:
    """The newest entries, oldest first, and how many older ones there are."""

    entries: tuple[LogEntry, ...]
    older: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One entry of an outline. `id` is empty for one that is not stored yet."""

    id: str
    text: str
    children: "tuple[Node, ...]" = ()


@dataclass(frozen=True, slots=True)
class TreeState:
    """The entries at the top."""

    nodes: tuple[Node, ...]


PlainState: TypeAlias = TextState | MapState | ListState | LogState | TreeState


@dataclass(frozen=True, slots=True)
class CompositeState:
    """The content of each section, in the order of the schema."""

    sections: Mapping[str, PlainState]


State: TypeAlias = TextState | MapState | ListState | LogState | TreeState | CompositeState
