"""The text form of fields, items and outlines, and reading it back.

Owns: how structured content reads; what is written here is read back as the same values. Must not know: which schema it
is for. The form is that of a Markdown list with `name: value` lines, which people and models write without being told.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from pattern_acp.memory.schemas.types import FieldKind, FieldSpec, FieldValue, Scalar
from pattern_acp.memory.schemas.values import (
    ContentError,
    Item,
    Record,
    default_value,
    read_text,
    read_value,
    show_value,
)

_FIELD = re.compile(r"([a-z][a-z0-9_-]*):(?:\s(.*))?")
_BULLET = "- "
_INDENT = "  "
_BLOCK = "|"


def show_fields(fields: Sequence[FieldSpec], values: Mapping[str, FieldValue]) -> str:
    """The fields that are set, one or more lines each, in the order of the schema."""
    lines: list[str] = []
    for field in fields:
        value = values.get(field.name)
        if value is None:
            continue
        if isinstance(value, tuple):
            lines += (f"{field.name}:", *(line for item in value for line in _bullet(item)))
            continue
        shown = show_value(value, field.kind)
        if "\n" in shown or shown == _BLOCK:
            lines += (f"{field.name}: {_BLOCK}", *_indented(shown.split("\n")))
        else:
            lines.append(f"{field.name}: {shown}")
    return "\n".join(lines)


def read_fields(fields: Sequence[FieldSpec], text: str) -> dict[str, FieldValue]:
    """The values that a text sets.

    Raises:
        ContentError: a line belongs to no field, a field is there twice, or a value is not one of its kind.
    """
    known = {field.name: field for field in fields}
    values: dict[str, FieldValue] = {}
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        field, inline = _heading(lines[at], known)
        end = _end_of_field(lines, at + 1, known)
        if field.name in values:
            raise ContentError(field.name, "is there twice")
        value = _value_of(field, inline, lines[at + 1 : end])
        if value not in ((), None):
            values[field.name] = value
        at = end
    return values


def show_items(items: Sequence[Item], fields: Sequence[FieldSpec]) -> str:
    """One bullet an item."""
    return "\n".join(line for item in items for line in _bullet(show_item(item, fields)))


def read_items(text: str, fields: Sequence[FieldSpec]) -> tuple[Item, ...]:
    """The items of a list of bullets.

    Raises:
        ContentError: a line belongs to no bullet, or an item is not one of this list.
    """
    return tuple(read_item(item, fields) for item in read_bullets(text.split("\n")))


def show_item(item: Item, fields: Sequence[FieldSpec]) -> str:
    """An item without its bullet."""
    return item if isinstance(item, str) else show_fields(fields, dict(item.values))


def new_item(text: str, fields: Sequence[FieldSpec]) -> Item:
    """An item that is added: `read_item` with the defaults of what the text leaves out.

    Raises:
        ContentError: see `read_item`.
    """
    item = read_item(text, fields)
    if isinstance(item, str):
        return item
    given = dict(item.values)
    filled = ((field.name, given.get(field.name, default_value(field))) for field in fields)
    return Record(tuple((name, value) for name, value in filled if value is not None and not isinstance(value, tuple)))


def read_item(text: str, fields: Sequence[FieldSpec]) -> Item:
    """An item from its text: lines of fields, or a JSON object, or plain text for the first text field.

    Raises:
        ContentError: a field is missing or wrong.
    """
    if not fields:
        return read_text("", text)
    values = read_fields(fields, _as_field_lines(text.strip(), fields))
    for field in fields:
        if field.required and field.name not in values:
            raise ContentError(field.name, f"is missing; give it as `{field.name}: …`")
    record: list[tuple[str, Scalar]] = []
    for field in fields:
        value = values.get(field.name)
        if value is not None and not isinstance(value, tuple):
            record.append((field.name, value))
    return Record(tuple(record))


def read_bullets(lines: Sequence[str]) -> list[str]:
    """The texts of bullets, without their indentation.

    Raises:
        ContentError: a line stands before the first bullet or between two.
    """
    items: list[list[str]] = []
    for line in lines:
        if line.startswith(_BULLET) or line.rstrip() == _BULLET.strip():
            items.append([line[len(_BULLET) :]])
        elif items and (line.startswith(_INDENT) or not line.strip()):
            items[-1].append(line[len(_INDENT) :])
        elif line.strip():
            raise ContentError("", f"the line {_quoted(line)} is no item; every item begins with `- `")
    return ["\n".join(item).strip("\n") for item in items]


def _heading(line: str, known: Mapping[str, FieldSpec]) -> tuple[FieldSpec, str]:
    match = _FIELD.fullmatch(line)
    field = known.get(match[1]) if match else None
    if match is None or field is None:
        names = ", ".join(known)
        raise ContentError("", f"the line {_quoted(line)} names none of the fields, which are {names}")
    return field, (match[2] or "").strip()


def _end_of_field(lines: Sequence[str], start: int, known: Mapping[str, FieldSpec]) -> int:
    end = start
    while end < len(lines):
        line = lines[end]
        if line.strip() and not line.startswith((_INDENT, "-")):
            match = _FIELD.fullmatch(line)
            if match is not None and match[1] in known:
                break
            raise ContentError("", f"the line {_quoted(line)} names none of the fields, which are {', '.join(known)}")
        end += 1
    return end


def _value_of(field: FieldSpec, inline: str, below: Sequence[str]) -> FieldValue | None:
    body = [line for line in below if line.strip()]
    if field.kind is FieldKind.LIST:
        if inline and body:
            raise ContentError(field.name, "has text beside and below it; give one item a line, each behind `- `")
        if inline:
            return tuple(read_text(field.name, item) for item in inline.split(",") if item.strip())
        return tuple(read_text(field.name, item) for item in read_bullets(_dedented_bullets(below)))
    if inline == _BLOCK:
        inline = "\n".join(line[len(_INDENT) :] for line in below)
    elif body:
        raise ContentError(field.name, f"has more than one line; write `{field.name}: {_BLOCK}` and indent the lines")
    return read_value(field, inline) if inline.strip() else None


def _dedented_bullets(lines: Sequence[str]) -> Sequence[str]:
    # Models like to indent the bullets below a field.
    first = next((line for line in lines if line.strip()), "")
    if first.startswith(_INDENT + _BULLET):
        return [line.removeprefix(_INDENT) for line in lines]
    return lines


def _as_field_lines(text: str, fields: Sequence[FieldSpec]) -> str:
    names = {field.name for field in fields}
    match = _FIELD.fullmatch(text.partition("\n")[0])
    if match is not None and match[1] in names:
        return text
    parsed = _json_object(text)
    if parsed is not None:
        return "\n".join(_json_line(name, value) for name, value in parsed.items())
    target = next((field for field in fields if field.kind is FieldKind.TEXT), fields[0])
    return _json_line(target.name, text)


def _json_line(name: str, value: object) -> str:
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    if "\n" in shown or shown == _BLOCK:
        return "\n".join((f"{name}: {_BLOCK}", *_indented(shown.split("\n"))))
    return f"{name}: {shown}"


def _json_object(text: str) -> dict[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        value = cast("object", json.loads(text))
    except ValueError:
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _bullet(text: str) -> list[str]:
    first, *rest = text.split("\n")
    return [_BULLET + first, *_indented(rest)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [_INDENT + line if line else "" for line in lines]


def _quoted(line: str) -> str:
    shown = line.strip()
    return f"“{shown if len(shown) <= 60 else shown[:59] + '…'}”"
