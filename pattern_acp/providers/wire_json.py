"""JSON as requests carry it, and numbers of tokens as servers report them.

Owns: one stable byte form: the keys of an object that we build come in the order we build them, the keys of what others
gave us (schemas) are sorted. The same request is therefore always the same bytes, which is what prompt caches key on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeGuard, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from pattern_acp.domain.argument_repair import read_object
from pattern_acp.domain.canonical import Json, JsonObject

MOST_TOKENS = 1_000_000_000
"""A hundred times the largest window there is; more is no count of one request."""

_DIGITS = len(str(MOST_TOKENS))


def is_object(raw: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a decoded value is a JSON object, whose keys are always text."""
    return isinstance(raw, dict)


def is_list(raw: object) -> TypeGuard[list[object]]:
    """Return whether a decoded value is a JSON array."""
    return isinstance(raw, list)


def token_count(raw: object, *path: str) -> int | None:
    """The count at `path` inside a decoded JSON object; None when there is none that can be believed."""
    for name in path:
        if not is_object(raw):
            return None
        raw = raw.get(name)
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) <= _DIGITS:
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= MOST_TOKENS:
        return None
    return int(raw)


T = TypeVar("T")


def to_bytes(body: JsonObject | Sequence[Json]) -> bytes:
    """The body of a request. A lone surrogate, which UTF-8 cannot carry, becomes a question mark."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(body))


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_encodable(key)): _encodable(item) for key, item in value.items()}
    # Values that were encoded before (`msgspec.Raw`) have no lone surrogates.
    return [*map(_encodable, value)] if isinstance(value, Sequence) else value


def decode_event(data: str, kind: type[T]) -> T:
    """One event of a stream as `kind`, with the slips of servers read as what they plainly mean (`_fitted`).

    Servers that cut their text by UTF-16 units send an emoji in two events: each half stays, until it meets the other
    (`streaming.HalvesJoiner`).

    Raises:
        msgspec.MsgspecError: the event is not JSON, or does not fit.
        UnicodeError: it holds a character that no JSON can.
        RecursionError: it is nested too deep.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        parsed = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        # Only the other parser reads half a pair of surrogates; it also reads NaN, which no server sends as a number.
        if "\\u" not in data:
            raise
        try:
            parsed = json.loads(data)
        except ValueError:
            raise error from None
    return cast("T", _fitted(parsed, kind))


def json_values(body: bytes) -> Iterator[str]:
    """Yield the text of each value in a body that is one, a list of them, or has one a line.

    A body that is neither is yielded as it is.
    """
    text = body.decode("utf-8-sig", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        if text.lstrip().startswith("["):
            yield from (bytes(item).decode() for item in msgspec.json.decode(text, type=list[msgspec.Raw]))
            return
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        yield from lines if all(line.lstrip().startswith("{") for line in lines) else [text]
    else:
        yield text


def _fitted(value: object, kind: object) -> object:
    """A decoded value as `kind`, with slips of servers read as what they mean.

    These are null, an empty text or an empty list for what is not there, null among the items of a list, a number as
    text and text as a number, one object for a list of one, and text in parts.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    if kind is object:
        return value
    if _is_struct(kind):
        return _fitted_object(value, kind)
    members: tuple[Any, ...] = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if value is None and NoneType in members:
        return None
    for member in members:
        plain: Any = get_origin(member) or member
        if type(value) is plain:
            return _fitted_list(value, member) if is_list(value) else value
    for member in members:
        try:
            return _coerced(value, member)
        except msgspec.ValidationError:
            continue
    if NoneType in members and not value and not isinstance(value, bool):
        return None
    raise msgspec.ValidationError("a value of another type")


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _fitted_object(value: object, kind: type[msgspec.Struct]) -> msgspec.Struct:
    if not is_object(value):
        raise msgspec.ValidationError("no object")
    if not isinstance(value.get("type") or "", str):
        raise msgspec.ValidationError("a kind that is no text")
    hints = _hints(kind)
    fields = {
        name: (attribute, hints[attribute])
        for attribute, name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }
    found = {
        fields[key][0]: _fitted(item, fields[key][1])
        for key, item in value.items()
        if key in fields and item is not None
    }
    return kind(**found)


def _fitted_list(value: Sequence[object], kind: object) -> list[object]:
    item = (get_args(kind) or (object,))[0]
    return [_fitted(each, item) for each in value if each is not None]


def _coerced(value: object, kind: object) -> object:
    if _is_struct(kind):
        return _fitted_object(value, kind)
    if is_object(value) and get_origin(kind) is list:
        return _fitted_list([value] if value else [], kind)
    if kind is int:
        count = token_count(value)
        if count is not None:
            return count
    if kind is str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if (text := _text_inside(value)) is not None:
            return text
    if kind is bool and isinstance(value, int | str) and str(value).lower() in _TRUTHS:
        return _TRUTHS[str(value).lower()]
    raise msgspec.ValidationError("a value of another type")


_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_TEXT_KEYS = ("text", "content", "thinking", "summary", "reasoning", "value")


def _text_inside(value: object) -> str | None:
    """The text in the parts of a value; None where there is no part with one."""
    if isinstance(value, str):
        return value
    if is_list(value):
        parts = [text for each in value if (text := _text_inside(each)) is not None]
        return "".join(parts) if parts else None
    if is_object(value):
        return next((text for key in _TEXT_KEYS if (text := _text_inside(value.get(key))) is not None), None)
    return None


@cache
def _hints(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def sort_keys(value: Json) -> Json:
    """The same value with all objects' keys in code point order."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence):
        return [sort_keys(item) for item in value]
    return value


_sorted_schemas: dict[int, tuple[JsonObject, Json]] = {}
"""Sorted schemas by identity; the schema beside each prevents its reuse by another."""

_SORTED_SCHEMAS_KEPT = 1024


def sorted_schema(schema: JsonObject) -> Json:
    """`sort_keys` of the schema of a tool, which is the same one in every request of a session."""
    found = _sorted_schemas.get(id(schema))
    if found is None:
        if len(_sorted_schemas) >= _SORTED_SCHEMAS_KEPT:
            _sorted_schemas.clear()
        found = _sorted_schemas[id(schema)] = (schema, sort_keys(schema))
    return found[1]


def arguments_object(text: str) -> JsonObject:
    """Return a call's arguments as the object that ran, repaired if they were near-valid.

    Text that is no object goes under a key that says so, for the model to see.
    """
    valid = _valid_object(text)
    return _mended_object(text) if valid is None else valid


def arguments_text(text: str) -> str:
    """A call's arguments as the text of an object; unchanged when they are one."""
    return json.dumps(_mended_object(text), ensure_ascii=False) if _valid_object(text) is None else text


def _valid_object(text: str) -> JsonObject | None:
    try:
        return cast("JsonObject", msgspec.json.decode(text, type=dict[str, object]))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _mended_object(text: str) -> JsonObject:
    try:
        return read_object(text).value
    except (ValueError, RecursionError):
        return {"invalid_json": text}
