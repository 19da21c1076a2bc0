"""Canonical JSON and content hashes.

Owns: the one byte form that hashes are taken over. The form is: UTF-8, keys sorted by code point, no insignificant
white space, no floats (two writers would print the same float differently), no NaN.

What the functions need is imported inside them: this module is imported before `initialize` is answered, for its types.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value as Python sees it."""

JsonObject: TypeAlias = Mapping[str, Json]
"""A JSON object."""


def canonical_json(value: Json) -> bytes:
    """Encode `value` in the canonical form.

    Raises:
        TypeError: `value` holds a float, which has no single spelling.
    """
    import json

    _refuse_floats(value)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate cannot be UTF-8; it can reach us inside a model's escaped output.
    return text.encode("utf-8", "surrogatepass")


def is_deeper(value: Json, levels: int) -> bool:
    """Whether objects and arrays in `value` are nested in more than `levels` levels."""
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


def _refuse_floats(value: Json) -> None:
    if isinstance(value, float):
        raise TypeError("Canonical JSON holds no floats; store an integer of a smaller unit instead.")
    if isinstance(value, str) or value is None:
        return
    if isinstance(value, Mapping):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, Sequence):
        for item in value:
            _refuse_floats(item)
