"""Prompt blocks to message parts, and back for a replay."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.line_budget import IMAGE_BYTES, pieces
from pattern_acp.domain.messages import (
    Given,
    ImagePart,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import decode_base64, image_of_base64
from pattern_acp.workspace.kinds import kind_of_bytes

_LINES = re.compile(r"L(\d+)(?:[-:]L?(\d+))?")
"""Lines of a selection in a URI's fragment: `L10:20` is Zed's form, `L10-L20` that of web pages."""


async def with_checked_images(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with images as models take them.

    Raises:
        RpcError: `INVALID_PARAMS` for an image that is damaged, too large, or none.
    """
    if not any(isinstance(part, ImagePart) for part in parts):
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
            return ResourcePart(uri, name or name_of(uri), None, mime_type, Given.LINK, lines_of(uri))
        case schema.EmbeddedResource(resource=resource):
            return _embedded(resource)
        case schema.AudioContent():
            raise RpcError(INVALID_PARAMS, "Audio is not supported; send text or images.")
        case schema.UnsupportedBlock():
            raise RpcError(INVALID_PARAMS, "A block of the prompt has a type that is not supported; send text.")


def _embedded(resource: schema.ResourceContents) -> Part:
    name, lines = name_of(resource.uri), lines_of(resource.uri)
    part = ResourcePart(resource.uri, name, resource.text, resource.mime_type, Given.EMBEDDED, lines)
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
        case ResourcePart(given=Given.MENTION):
            # The client knows only the `@path` in the text.
            return []
        case ResourcePart(uri=uri, name=name) if part.text is None or part.given is Given.LINK:
            return [schema.ResourceLink(uri=uri, name=name)]
        case ResourcePart(uri=uri, text=text, media_type=media_type):
            contents = schema.ResourceContents(uri=uri, text=(text or "")[:limit], mime_type=media_type)
            return [schema.EmbeddedResource(resource=contents)]
        case ThinkingPart() | ToolCallPart() | ToolResultPart():
            return []


def name_of(uri: str) -> str:
    """The last part of a URI or path, for showing."""
    path = unquote(urlsplit(uri).path) if "://" in uri else uri
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return pure.name or uri
