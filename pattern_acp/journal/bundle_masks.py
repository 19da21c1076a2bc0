"""Masks for the payloads of a bundle whose words are not to be shown.

Owns: putting something in the place of all that is content. Must not know: how a secret is recognised.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal, TypeAlias, get_args

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.structural_keys import TextRole, walk

Redaction: TypeAlias = Literal["none", "secrets", "content"]
"""The part that a bundle leaves out: nothing, what looks like a secret, or all that was said, read and written."""

REDACTIONS: tuple[str, ...] = get_args(Redaction)


def mask_texts(
    kind: str, payload: JsonObject, mask: Callable[[str], str], *, stays: Set[TextRole] = frozenset({TextRole.KIND})
) -> JsonObject:
    """The payload of an event of a kind with `mask` applied to every text but those whose role `stays`."""

    def leaf(role: TextRole, _: str, value: Json) -> Json:
        return value if role in stays else _masked(value, mask)

    return walk(kind, payload, leaf)


def without_content(kind: str, payload: JsonObject) -> JsonObject:
    """The payload of an event of a kind with the length of every text in its place."""
    return mask_texts(kind, payload, _length)


def _length(text: str) -> str:
    return f"[{len(text)} characters]" if text else ""


def _masked(value: Json, mask: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked(item, mask) for key, item in value.items()}
    return [_masked(item, mask) for item in value] if isinstance(value, Sequence) else value
