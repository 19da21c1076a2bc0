"""What a bundle leaves of a payload when its words are not to be shown.

Owns: putting something in the place of all that is content. Must not know: how a secret is recognised.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.naming_keys import GIVEN, is_kind

Redaction: TypeAlias = Literal["none", "secrets", "content"]
"""How much a bundle leaves out: nothing, what looks like a secret, or everything that was said, read and written."""

REDACTIONS: tuple[str, ...] = get_args(Redaction)


def mask_texts(payload: JsonObject, mask: Callable[[str], str]) -> JsonObject:
    """`payload` with `mask` applied to every text that is content."""
    return {
        key: _masked_all(item, mask) if key == GIVEN else item if is_kind(key, item, payload) else _masked(item, mask)
        for key, item in payload.items()
    }


def without_content(payload: JsonObject) -> JsonObject:
    """`payload` with the length of every text in its place."""
    return mask_texts(payload, _length)


def _length(text: str) -> str:
    return f"[{len(text)} characters]" if text else ""


def _masked_all(value: Json, mask: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked_all(item, mask) for key, item in value.items()}
    return [_masked_all(item, mask) for item in value] if isinstance(value, Sequence) else value


def _masked(value: Json, mask: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return mask_texts(value, mask)
    if isinstance(value, Sequence):
        return [_masked(item, mask) for item in value]
    return value
