"""Prompt blocks to message parts, and back for a replay, small enough for one line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import (
    AttachmentKind,
    ImagePart,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RpcError
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import decode_base64, image_of_base64
from pattern_acp.workspace.kinds import kind_of_bytes

CHUNK_CHARACTERS = 150_000
"""Most characters of streamed or replayed text in one update; a character takes at most six bytes in JSON."""

TEXT_BYTES = 100_000
"""Most bytes of one shown text."""

DIFF_BYTES = 200_000
"""Most bytes of either side of a diff."""

INPUT_BYTES = 100_000
"""Most bytes of a call's arguments: `write_file` carries a whole file, which its diff shows anyway."""

INPUT_STRING_CHARACTERS = 2_000
"""Characters of one argument that are stored when all together are too long."""

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
    """Tell whether `text` takes at most `limit` bytes."""
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
    return {
        key: value if wire_size(value) <= INPUT_STRING_CHARACTERS * 2 else "… left out …" for key, value in cut.items()
    }


def _cut(value: Json) -> Json:
    if isinstance(value, str):
        return shortened(value, INPUT_STRING_CHARACTERS)
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_cut(item) for item in value]
    return value


_LINES = late_pattern(r"L(\d+)(?:[-:]L?(\d+))?")
"""Lines of a selection in a URI's fragment: `L10:20` is Zed's form, `L10-L20` that of web pages."""


async def with_checked_images(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with images as models take them.

    Raises:
        RpcError: `INVALID_PARAMS` for an image that is damaged, too large, or none.
    """
    if ImagePart not in map(type, parts):
        return parts
    return tuple([await _checked(part) if isinstance(part, ImagePart) else part for part in parts])


async def _checked(part: ImagePart) -> ImagePart:
    try:
        return await image_of_base64(part.data, part.name)
    except ImageError as error:
        raise RpcError(INVALID_PARAMS, error.sentence, failure_code=error.failure_code) from error


def parts_of(blocks: Sequence[schema.PromptBlock]) -> tuple[Part, ...]:
    """The message parts of a prompt.

    Raises:
        RpcError: `INVALID_PARAMS` for an empty prompt or a block that was not advertised.
    """
    parts = tuple(filter(None, map(_part_of, blocks)))
    if not parts:
        raise RpcError(INVALID_PARAMS, "The prompt is empty; send at least one block with content.")
    return parts


def _part_of(block: schema.PromptBlock) -> Part | None:
    match block:
        case schema.TextContent(text=text):
            return TextPart(text) if text.strip() else None
        case schema.ImageContent(data=data, mime_type=mime_type, uri=uri):
            return ImagePart(mime_type, data, name_of(uri) if uri else "")
        case schema.ResourceLink(uri=uri, name=name, mime_type=mime_type):
            return ResourcePart(uri, name or name_of(uri), None, mime_type, AttachmentKind.LINK, lines_of(uri))
        case schema.EmbeddedResource(resource=resource):
            return _embedded(resource)
        case schema.AudioContent():
            raise RpcError(INVALID_PARAMS, "Audio is not supported; send text or images.")
        case schema.UnsupportedBlock():
            raise RpcError(INVALID_PARAMS, "A block of the prompt has a type that is not supported; send text.")


def _embedded(resource: schema.ResourceContents) -> Part:
    name, lines = name_of(resource.uri), lines_of(resource.uri)
    part = ResourcePart(resource.uri, name, resource.text, resource.mime_type, AttachmentKind.EMBEDDED, lines)
    if resource.text is not None or resource.blob is None:
        return part
    try:
        data = decode_base64(resource.blob, name)
    except ImageError as error:
        raise RpcError(INVALID_PARAMS, f"The content of {name} is no valid base64, or too large.") from error
    kind, media_type = kind_of_bytes(data)
    if kind == "image":
        return ImagePart(media_type, resource.blob, name)
    if kind == "text":
        return replace(part, text=data.decode("utf-8", "replace"))
    return replace(part, note=f"{len(data):,} bytes of {resource.mime_type or media_type}, which cannot be shown")


def lines_of(uri: str) -> str:
    """The 1-based lines that a URI's fragment names, as `10-20`; empty when it names none."""
    match = _LINES.fullmatch(uri.partition("#")[2])
    if match is None:
        return ""
    first, last = int(match[1]), int(match[2] or match[1])
    return f"{min(first, last)}-{max(first, last)}"


def blocks_of(part: Part, limit: int) -> list[schema.ContentBlock]:
    """A part for the wire; long text in pieces of at most `limit` characters."""
    match part:
        case TextPart(text):
            return [schema.TextContent(text=piece) for piece in pieces(text, limit)]
        case ImagePart(media_type, data) if len(data) > IMAGE_BYTES:
            return [schema.TextContent(text=f"[{part.about}, {media_type}, {len(data) * 3 // 4:,} bytes]")]
        case ImagePart(media_type, data):
            return [schema.ImageContent(data=data, mime_type=media_type)]
        case ResourcePart(given=AttachmentKind.MENTION):
            # The client knows only the `@path` in the text.
            return []
        case ResourcePart(uri=uri, name=name) if part.text is None or part.given is AttachmentKind.LINK:
            return [schema.ResourceLink(uri=uri, name=name)]
        case ResourcePart(uri=uri, text=text, media_type=media_type):
            contents = schema.ResourceContents(uri=uri, text=(text or "")[:limit], mime_type=media_type)
            return [schema.EmbeddedResource(resource=contents)]
        case ThinkingPart() | ToolCallPart() | ToolResultPart():
            return []


def name_of(uri: str) -> str:
    """The last part of a URI or path, for showing; what Zed mentions besides files has a name of its own."""
    if uri.startswith("zed:") and (named := parse_qs(urlsplit(uri).query).get("name")):
        return named[0]
    path = unquote(urlsplit(uri).path) if "://" in uri else uri
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return pure.name or uri
