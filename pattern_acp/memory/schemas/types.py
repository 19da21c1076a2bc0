"""The schemas a block can have, as they are stored with it, and the values that their fields take.

Owns: the shape of a schema, its JSON, and the text form of values. Must not know: contents. The kind of a block's
schema never changes; a schema comes from a template file, so what is wrong in one is said with the place in the file.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

Scalar: TypeAlias = str | int | float | bool
"""One value. Timestamps are whole seconds since 1970-01-01 UTC."""

FieldValue: TypeAlias = Scalar | tuple[str, ...]
"""The value of a field; a tuple for a list."""

MOST_FIELDS = 40
"""Fields or sections of one schema: more than a model, or a user, can tell apart."""

_NAME = late_pattern(r"[a-z][a-z0-9_-]{0,39}")

NAME_RULE = "a letter, then at most 39 letters, digits, `-` or `_`, all in lower case"


class SchemaError(ValueError):
    """A schema contradicts itself; the sentence names the place."""


class FieldKind(StrEnum):
    """The type of a field's value."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    TIMESTAMP = "timestamp"
    COUNTER = "counter"


class FieldSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One field. `minimum` and `maximum` bound numbers and counters.

    A read-only field is written by the program and by the user, never by the agent.
    """

    name: str
    kind: FieldKind = FieldKind.TEXT
    description: str = ""
    required: bool = False
    default: str | int | float | bool | tuple[str, ...] | None = None
    read_only: bool = False
    minimum: float | None = None
    maximum: float | None = None


class TextSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="text"):
    """Free text, merged by lines."""


class MapSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="map"):
    """Named, typed fields."""

    fields: tuple[FieldSpec, ...]


class ListSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="list"):
    """Items in an order: texts, or records where `fields` are set."""

    fields: tuple[FieldSpec, ...] = ()
    max_items: int | None = None


class LogSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="log"):
    """Entries that are only ever added, each with its time and author. All are stored, the last `shown` are shown."""

    fields: tuple[FieldSpec, ...] = ()
    shown: int = 20


class TreeSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="tree"):
    """An outline of one-line entries, at most `max_depth` levels deep."""

    max_depth: int = 6


PlainSchema: TypeAlias = TextSchema | MapSchema | ListSchema | LogSchema | TreeSchema
"""Everything that a section can be."""


class SectionSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A named part of a composite block. If read-only, only the program and the user write it."""

    name: str
    schema: TextSchema | MapSchema | ListSchema | LogSchema | TreeSchema
    description: str = ""
    read_only: bool = False


class CompositeSchema(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="composite"
):
    """Named sections, each with a schema of its own."""

    sections: tuple[SectionSpec, ...]


BlockSchema: TypeAlias = TextSchema | MapSchema | ListSchema | LogSchema | TreeSchema | CompositeSchema

EVERY_ENTRY = 1_000_000_000
"""More entries than a log can have."""


def unfolded(schema: BlockSchema) -> BlockSchema:
    """The same schema with every entry of its logs shown."""
    if isinstance(schema, LogSchema):
        return msgspec.structs.replace(schema, shown=EVERY_ENTRY)
    if not isinstance(schema, CompositeSchema):
        return schema
    return CompositeSchema(
        tuple(
            msgspec.structs.replace(one, schema=msgspec.structs.replace(one.schema, shown=EVERY_ENTRY))
            if isinstance(one.schema, LogSchema)
            else one
            for one in schema.sections
        )
    )


TEXT = TextSchema()
"""The schema of blocks that say nothing of one."""

TEXT_JSON = '{"kind":"text"}'
"""`encode_schema(TEXT)`, which is the default of the column."""


def encode_schema(schema: BlockSchema) -> str:
    """The JSON that is stored."""
    return msgspec.json.encode(schema).decode("utf-8")


def decode_schema(stored: str) -> BlockSchema:
    """The schema of a stored JSON. Raises SchemaError where it is none that this version knows."""
    if stored == TEXT_JSON:
        return TEXT
    try:
        return msgspec.json.decode(stored, type=BlockSchema)
    except msgspec.DecodeError as error:
        raise SchemaError(f"it is no schema that this version knows ({error})") from error


def read_schema(raw: object) -> BlockSchema:
    """The schema of a table in a template file, checked.

    Raises:
        SchemaError: a key is unknown or wrong, or the schema contradicts itself.
    """
    try:
        schema = msgspec.convert(raw, BlockSchema)
    except msgspec.ValidationError as error:
        raise SchemaError(str(error)) from error
    check_schema(schema)
    return schema


def check_schema(schema: BlockSchema) -> None:
    """Refuse what no content could ever fit.

    Raises:
        SchemaError: names the place.
    """
    match schema:
        case CompositeSchema(sections=sections):
            _check_sections(sections)
        case MapSchema(fields=fields):
            _check_names([field.name for field in fields], "field")
            _check_fields(fields, record=False)
        case ListSchema(fields=fields, max_items=most):
            _check_record(fields)
            _check_range("max_items", 1 if most is None else most, 1_000)
        case LogSchema(fields=fields, shown=shown):
            _check_record(fields)
            _check_range("shown", shown, 200)
        case TreeSchema(max_depth=depth):
            _check_range("max_depth", depth, 20)
        case TextSchema():
            pass


def _check_sections(sections: tuple[SectionSpec, ...]) -> None:
    _check_names([section.name for section in sections], "section")
    for section in sections:
        check_schema(section.schema)


def _check_range(name: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise SchemaError(f"`{name}` must be from 1 to {most}")


def _check_record(fields: tuple[FieldSpec, ...]) -> None:
    if fields:
        _check_names([field.name for field in fields], "field")
        _check_fields(fields, record=True)


def _check_names(names: list[str], what: str) -> None:
    if not names:
        raise SchemaError(f"at least one {what} is needed")
    if len(names) > MOST_FIELDS:
        raise SchemaError(f"at most {MOST_FIELDS} {what}s are allowed")
    for name in names:
        if not _NAME.fullmatch(name):
            raise SchemaError(f"the {what} name {name!r} must be {NAME_RULE}")
        if names.count(name) > 1:
            raise SchemaError(f"the {what} {name!r} is there twice")


def _check_fields(fields: tuple[FieldSpec, ...], *, record: bool) -> None:
    for field in fields:
        if record and field.kind in {FieldKind.LIST, FieldKind.COUNTER}:
            raise SchemaError(f"the field {field.name!r} cannot be a {field.kind} inside a record")
        if field.kind not in {FieldKind.NUMBER, FieldKind.COUNTER} and (field.minimum, field.maximum) != (None, None):
            raise SchemaError(f"the field {field.name!r} has bounds but is no number")
        if field.minimum is not None and field.maximum is not None and field.minimum > field.maximum:
            raise SchemaError(f"the field {field.name!r} has a minimum above its maximum")


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
    """A text value; cleaned, so that it reads back as it was. Raises ContentError where it is empty or too long."""
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
