"""JSON as requests carry it.

Owns: one stable byte form: the keys of an object that we build come in the order we build them, the keys of what others
gave us (schemas) are sorted. The same request is therefore always the same bytes, which is what prompt caches key on.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from pattern_acp.domain.canonical import Json, JsonObject


def to_bytes(body: JsonObject) -> bytes:
    """The body of a request. A lone surrogate, which UTF-8 cannot carry, becomes a question mark."""
    try:
        # The same bytes as below in an eighth of the time: a long history is megabytes, and the loop waits.
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def sort_keys(value: Json) -> Json:
    """The same value with all objects' keys in code point order."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence):
        return [sort_keys(item) for item in value]
    return value


def arguments_object(text: str) -> JsonObject:
    """A call's arguments as an object. Text that is none is kept under a key that says so, for the model to see."""
    try:
        return cast("JsonObject", msgspec.json.decode(text, type=dict[str, object])) if text.strip() else {}
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {"invalid_json": text}


def arguments_text(text: str) -> str:
    """A call's arguments as the text of an object; unchanged when they are one."""
    parsed = arguments_object(text)
    is_changed = not text.strip() or (len(parsed) == 1 and parsed.get("invalid_json") == text)
    return json.dumps(parsed, ensure_ascii=False) if is_changed else text
