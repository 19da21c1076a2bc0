"""The schemas a block can have, as they are stored with it.

Owns: the shape of a schema and its JSON. Must not know: contents. The kind of a block's schema never changes; a schema
comes from a template file, so what is wrong in one is said with the place in the file.
"""

import re
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import Struct

Scalar: TypeAlias = str | int | float | bool
"""One value. Timestamps are whole seconds since 1970-01-01 UTC."""

FieldValue: TypeAlias = Scalar | tuple[str, ...]
"""The value of a field; a tuple for a list."""

MOST_FIELDS = 40
"""Fields or sections of one schema: more than a model, or a user, can tell apart."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")

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
    """Items in an order: texts, or records where `fields` are given."""

    fields: tuple[FieldSpec, ...] = ()
    max_items: int | None = None


class LogSchema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="log"):
    """Entries that are only ever added, each with its time and author. All are kept, the last `shown` are shown."""

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
    """The schema of a stored JSON.

    Raises:
        SchemaError: it is none that this version knows.
    """
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
