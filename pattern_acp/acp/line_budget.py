"""Keeping what is shown small enough for one line.

Owns: how many bytes each kind of content may take on the wire, and how what is too long is cut; the journal keeps the
whole. Must not know: tool calls. The sum of the limits of one update stays under 1 MB, which is what every known client
reads (reference acp.md, part 1 section 1).
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from pattern_acp.domain.canonical import Json, JsonObject

CHUNK_CHARACTERS = 150_000
"""Most characters of streamed or replayed text in one update; a character takes at most six bytes in JSON."""

TEXT_BYTES = 100_000
"""Most bytes of one shown text."""

DIFF_BYTES = 200_000
"""Most bytes of either side of a diff."""

INPUT_BYTES = 100_000
"""Most bytes of a call's arguments: `write_file` carries a whole file, which its diff shows anyway."""

INPUT_STRING_CHARACTERS = 2_000
"""Characters of one argument that are kept when all together are too long."""

IMAGE_BYTES = 600_000
"""Most bytes of a shown image's base64 text."""


def wire_size(value: object) -> int:
    """Bytes that a value takes as JSON. A lone surrogate, which JSON cannot carry, counts as what replaces it."""
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:
        builtins = cast("object", msgspec.to_builtins(value))
        return len(json.dumps(builtins, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def pieces(text: str, limit: int = CHUNK_CHARACTERS) -> list[str]:
    """`text` in pieces of at most `limit` characters."""
    return [text[start : start + limit] for start in range(0, len(text), limit)]


def fits(text: str, limit: int) -> bool:
    """Whether `text` takes at most `limit` bytes."""
    # A character takes one to six bytes, so most texts need no measuring.
    return len(text) * 6 <= limit or (len(text) <= limit and wire_size(text) <= limit)


def shortened(text: str, limit: int = TEXT_BYTES) -> str:
    """`text`, with its middle left out when it takes more than `limit` bytes."""
    if fits(text, limit):
        return text
    half = min(limit, len(text)) // 2
    while wire_size(text[:half]) + wire_size(text[len(text) - half :]) > limit:
        half = half * 3 // 4
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[len(text) - half :]}"


def clipped(text: str, limit: int = DIFF_BYTES) -> str:
    """`text`, with its end left out when it takes more than `limit` bytes."""
    if fits(text, limit):
        return text
    keep = limit
    while wire_size(text[:keep]) > limit:
        keep = keep * 3 // 4
    return f"{text[:keep]}\n… {len(text) - keep:,} characters left out …\n"


def shown_input(arguments: JsonObject) -> JsonObject:
    """A call's arguments; long strings are cut when all together take too much."""
    if wire_size(arguments) <= INPUT_BYTES:
        return arguments
    cut = {key: _cut(value) for key, value in arguments.items()}
    if wire_size(cut) <= INPUT_BYTES:
        return cut
    return {key: value if _is_short(value) else "… left out …" for key, value in cut.items()}


def _cut(value: Json) -> Json:
    if isinstance(value, str):
        return shortened(value, INPUT_STRING_CHARACTERS)
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_cut(item) for item in value]
    return value


def _is_short(value: Json) -> bool:
    return wire_size(value) <= INPUT_STRING_CHARACTERS * 2
