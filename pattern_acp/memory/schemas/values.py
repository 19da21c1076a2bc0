"""Single values: how each kind of field reads as text, and what is accepted.

Owns: the text form of values and their checks. Must not know: schemas as a whole.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.memory.schemas.types import FieldKind, FieldSpec, FieldValue, Scalar

LONGEST_VALUE = 4_000
"""Characters of one field or item: longer text belongs into a text block or section."""

_YES = frozenset({"yes", "true", "on", "1"})
_NO = frozenset({"no", "false", "off", "0"})


class ContentError(ValueError):
    """A content that a schema does not take. `field` is empty where none is at fault."""

    def __init__(self, field: str, problem: str) -> None:
        """`problem` completes "the field must …" when there is a field, otherwise it is a clause of its own."""
        super().__init__(f"the field `{field}` {problem}" if field else problem)
        self.field = field
        self.problem = problem


def clean(text: str) -> str:
    """`text` without the white space that a text form cannot keep: around it, and at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def show_value(value: Scalar, kind: FieldKind) -> str:
    """A value as it reads."""
    if kind is FieldKind.TIMESTAMP and isinstance(value, int | float):
        return show_time(int(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else show_number(value)


def show_number(number: int | float) -> str:
    """A number as it reads: without a fraction where it has none."""
    return str(int(number)) if float(number).is_integer() else repr(number)


def show_time(seconds: int) -> str:
    """A moment as `2026-11-27 14:05:33`, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def read_value(field: FieldSpec, text: str) -> Scalar:
    """The value of a field that is not a list, from its text.

    Raises:
        ContentError: names the field and says what it must be.
    """
    match field.kind:
        case FieldKind.NUMBER | FieldKind.COUNTER:
            return _in_bounds(field, _number(field, text))
        case FieldKind.BOOLEAN:
            return _boolean(field, text)
        case FieldKind.TIMESTAMP:
            return read_time(field.name, text)
        case FieldKind.TEXT | FieldKind.LIST:
            return read_text(field.name, text)


def read_text(field: str, text: str) -> str:
    """A text value; cleaned, so that it reads back as it was.

    Raises:
        ContentError: it is empty or too long.
    """
    cleaned = clean(text)
    if not cleaned:
        raise ContentError(field, "must not be empty" if field else "an item must not be empty")
    if len(cleaned) > LONGEST_VALUE:
        problem = f"must have at most {LONGEST_VALUE} characters, not {len(cleaned)}"
        raise ContentError(field, problem if field else f"an item {problem}")
    return cleaned


def read_time(field: str, text: str) -> int:
    """Seconds since 1970-01-01 of a date, or a date and time; UTC unless it names an offset.

    Raises:
        ContentError: it is neither.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return int(moment.timestamp())
    except (ValueError, OverflowError):
        raise ContentError(field, "must be a date or time such as 2026-11-27 or 2026-11-27 14:05") from None


def default_value(field: FieldSpec) -> FieldValue | None:
    """The value that a new block gives the field, checked like one that was written; None for none.

    Raises:
        ContentError: the schema's default is not one that the field takes.
    """
    default = field.default
    if default is None:
        return None
    if field.kind is FieldKind.LIST:
        items = default if isinstance(default, tuple) else (str(default),)
        return tuple(read_text(field.name, item) for item in items)
    if isinstance(default, tuple):
        raise ContentError(field.name, f"must be one {field.kind}, not a list")
    shown = default if isinstance(default, str) else show_value(default, FieldKind.NUMBER)
    return read_value(field, shown)


def _number(field: FieldSpec, text: str) -> int | float:
    try:
        number = float(text.strip().replace("_", ""))
    except ValueError:
        raise ContentError(field.name, "must be a number") from None
    if not math.isfinite(number) or abs(number) >= 2**53:
        # Loro turns larger integers into other ones without a word (reference: memory, section 1.3).
        raise ContentError(field.name, "must be a number below 2^53")
    return int(number) if number.is_integer() else number


def _in_bounds(field: FieldSpec, number: int | float) -> int | float:
    check_bounds(field, number)
    return number


def check_bounds(field: FieldSpec, number: int | float) -> None:
    """Refuse a number outside the field's bounds.

    Raises:
        ContentError: names the bound.
    """
    if field.minimum is not None and number < field.minimum:
        raise ContentError(field.name, f"must be at least {show_number(field.minimum)}")
    if field.maximum is not None and number > field.maximum:
        raise ContentError(field.name, f"must be at most {show_number(field.maximum)}")


def _boolean(field: FieldSpec, text: str) -> bool:
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise ContentError(field.name, "must be yes or no")
    return word in _YES


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
