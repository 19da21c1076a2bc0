"""Canonical JSON and content hashes.

Owns: the one byte form that hashes are taken over. The form is: UTF-8, keys sorted by code point, no insignificant
white space, no floats (two writers would print the same float differently), no NaN.

What the functions need is imported inside them: this module is imported before `initialize` is answered, for its types.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from json import JSONEncoder

    import msgspec

    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
    """Any JSON value as Python sees it."""
else:
    Json = Any  # msgspec reads the annotations of structs, and no recursive ones.

JsonObject: TypeAlias = Mapping[str, Json]
"""A JSON object."""


def canonical_json(value: Json) -> bytes:
    """Encode `value` in the canonical form.

    Raises:
        TypeError: `value` holds a float, which has no single spelling.
    """
    if _is_plain(value):
        # Four times as fast. It has no form for a lone surrogate, which a model's escaped output can hold, and none for
        # a key that is no text.
        with suppress(TypeError, UnicodeEncodeError, RecursionError):
            return _plain_encoder().encode(value)
    return _encoder().encode(value).encode("utf-8", "surrogatepass")


def is_deeper(value: Json, levels: int) -> bool:
    """Return whether objects and arrays in `value` are nested in more than `levels` levels."""
    layer: list[Json] = [value]
    for _ in range(levels + 1):
        layer = [item for each in layer for item in _members(each)]
        if not layer:
            return False
    return True


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _members(value: Json) -> Iterable[Json]:
    if isinstance(value, str):
        return ()
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, Sequence) else ()


@cache
def _encoder() -> "JSONEncoder":
    """Made once: every event is encoded twice, and making one takes as long as encoding."""
    import json

    return json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@cache
def _plain_encoder() -> "msgspec.json.Encoder":
    import msgspec

    return msgspec.json.Encoder(order="sorted")


def _is_plain(value: Json) -> bool:
    """True if all of `value` is of the types that JSON has. Raises TypeError where there is a float in it."""
    waiting: list[Json] = [value]
    plain = True
    # The list grows while it is gone through: a function that calls itself takes three times as long.
    for each in waiting:
        kind = type(each)
        if kind is str or kind is int or kind is bool or each is None:
            continue
        # Before the abstract types, which take ten times as long to ask for: nearly all of it is one of these.
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif isinstance(each, float):
            raise TypeError("Canonical JSON holds no floats; store an integer of a smaller unit instead.")
        else:
            plain = plain and isinstance(each, str)
            waiting.extend(_members(each))
    return plain
