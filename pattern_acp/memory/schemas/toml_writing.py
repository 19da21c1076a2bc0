"""Typed contents as TOML, for the person's editor and for files.

Owns: which schemas have typed fields, and how their contents are written. Must not know: what is read back
(`toml_reading.py`), or where a file is. Fields are typed as TOML has them: texts in quotes, numbers, booleans, dates,
lists; what has no fields inside a composite (texts, outlines, logs) is one text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pattern_acp.memory.schemas.forms import show
from pattern_acp.memory.schemas.states import CompositeState, ListState, MapState, PlainState, Record, State
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    FieldKind,
    FieldSpec,
    FieldValue,
    ListSchema,
    MapSchema,
    PlainSchema,
    SectionSpec,
)
from pattern_acp.memory.schemas.values import show_number

ITEMS = "items"
"""The array of tables that holds the records of a list."""

_EMPTY = {
    FieldKind.TEXT: '""',
    FieldKind.NUMBER: "0",
    FieldKind.COUNTER: "0",
    FieldKind.BOOLEAN: "false",
    FieldKind.LIST: "[]",
    FieldKind.TIMESTAMP: "2026-11-27",
}
"""What an unset field is shown with, behind a comment sign."""


def has_typed_fields(schema: BlockSchema) -> bool:
    """Whether contents of this schema are written as TOML; others read well as Markdown."""
    if isinstance(schema, CompositeSchema):
        return any(has_typed_fields(section.schema) for section in schema.sections)
    return isinstance(schema, MapSchema) or (isinstance(schema, ListSchema) and bool(schema.fields))


def show_toml(schema: BlockSchema, state: State) -> str:
    """The content as TOML, each field below a comment that says what it is. `read_toml` gives the same content back.

    Only for schemas with typed fields.
    """
    match schema, state:
        case CompositeSchema(sections=sections), CompositeState(sections=contents):
            # Keys of the top come before tables, or they would belong to one.
            ordered = sorted(sections, key=lambda section: has_typed_fields(section.schema))
            return "\n\n".join(_section(section, contents[section.name]) for section in ordered) + "\n"
        case MapSchema(), MapState():
            return "\n".join(_fields(schema.fields, state.values)) + "\n"
        case ListSchema(), ListState():
            return "\n".join(_records(ITEMS, schema, state)) + "\n"
        case _:
            raise TypeError(f"{type(schema).__name__} has no typed fields.")


def _section(section: SectionSpec, part: PlainState) -> str:
    lines = _comment(section.description, _marks(read_only=section.read_only))
    match section.schema, part:
        case MapSchema() as schema, MapState():
            lines += [f"[{section.name}]", *_fields(schema.fields, part.values)]
        case ListSchema() as schema, ListState() if schema.fields:
            lines += _records(section.name, schema, part)
        case _:
            lines.append(f"{section.name} = {_plain(section.schema, part)}")
    return "\n".join(lines)


def _plain(schema: PlainSchema, part: PlainState) -> str:
    if isinstance(schema, ListSchema) and isinstance(part, ListState):
        return _array(item for item in part.items if isinstance(item, str))
    return _text(show(schema, part))


def _fields(fields: Sequence[FieldSpec], values: Mapping[str, FieldValue]) -> list[str]:
    lines: list[str] = []
    for field in fields:
        lines += _comment(field.description, _marks(required=field.required, read_only=field.read_only))
        value = values.get(field.name)
        lines.append(f"# {field.name} = {_EMPTY[field.kind]}" if value is None else _pair(field, value))
    return lines


def _records(name: str, schema: ListSchema, state: ListState) -> list[str]:
    lines: list[str] = ["# Each item begins with the line in double brackets. Its fields:"]
    for field in schema.fields:
        kind = f"{field.kind}, required" if field.required else field.kind
        lines.append(f"#   {field.name} ({kind}): {' '.join(field.description.split())}".rstrip(" :"))
    if not state.items:
        lines.append(f"# [[{name}]]")
    for item in state.items:
        values = dict(item.values) if isinstance(item, Record) else {}
        lines += ["", f"[[{name}]]"]
        lines += [_pair(field, values[field.name]) for field in schema.fields if field.name in values]
    return lines


def _pair(field: FieldSpec, value: FieldValue) -> str:
    return f"{field.name} = {_value(field.kind, value)}"


def _value(kind: FieldKind, value: FieldValue) -> str:
    if isinstance(value, tuple):
        return _array(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if kind is FieldKind.TIMESTAMP:
        return datetime.fromtimestamp(int(value), UTC).isoformat().replace("+00:00", "Z")
    return show_number(value)


def _array(items: Iterable[str]) -> str:
    lines = [f"  {_text(item)}," for item in items]
    return "\n".join(("[", *lines, "]")) if lines else "[]"


def _text(text: str) -> str:
    if "\n" not in text:
        return _quoted(text)
    # Each line is escaped as JSON escapes it, which TOML reads; two quotes in a row could end the text.
    lines = (_quoted(line)[1:-1].replace('\\"', '"').replace('""', '"\\"') for line in text.split("\n"))
    return '"""\n' + "\n".join(lines) + '\n"""'


def _quoted(text: str) -> str:
    # JSON leaves U+007F as it is, which TOML refuses.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _marks(*, required: bool = False, read_only: bool = False) -> str:
    named = [name for name, holds in (("required", required), ("read-only for the agent", read_only)) if holds]
    return f"({', '.join(named)})" if named else ""


def _comment(description: str, marks: str) -> list[str]:
    about = " ".join((*description.split(), *([marks] if marks else [])))
    return [f"# {about}"] if about else []
