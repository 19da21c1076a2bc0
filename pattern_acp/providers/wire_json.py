"""JSON as requests carry it, and numbers of tokens as servers report them.

Owns: one stable byte form: the keys of an object that we build come in the order we build them, the keys of what others
gave us (schemas) are sorted. The same request is therefore always the same bytes, which is what prompt caches key on.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard, TypeVar, cast

import msgspec

from pattern_acp.domain.argument_repair import read_object
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.late_pattern import late_pattern

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
        # The same bytes as below in an eighth of the time: a long history is megabytes, and the loop waits.
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Only msgspec knows values that were encoded before (`msgspec.Raw`).
        whole = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_read_again)
        return whole.encode("utf-8", "replace")


def _read_again(encoded: msgspec.Raw) -> Json:
    return cast("Json", json.loads(bytes(encoded)))


_ESCAPES = late_pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)
"""A pair of surrogates, half of one, or any other escape; in this order, so that only halves count as halves."""

_HALF_CHARACTERS = len("\\ud83d")


def decode_event(data: str, kind: type[T]) -> T:
    """One event of a stream as `kind`.

    Servers that cut their text by UTF-16 units send an emoji in two events, half of it in each; each half becomes a
    replacement character, as in what a server sends in bytes that are no UTF-8.

    Raises:
        msgspec.MsgspecError: the event is not JSON, or does not fit.
        UnicodeError: it holds a character that no JSON can.
        RecursionError: it is nested too deep.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended = _ESCAPES.sub(lambda found: _mend_half(found[0]), data)
        if mended == data:
            raise
        return msgspec.json.decode(mended, type=kind)


def _mend_half(escape: str) -> str:
    is_half = len(escape) == _HALF_CHARACTERS
    return "\\ufffd" if is_half else escape


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
