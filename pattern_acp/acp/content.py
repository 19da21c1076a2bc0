"""Prompt blocks to message parts, and back for a replay."""

from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import unquote, urlsplit

from pattern_acp.acp import schema
from pattern_acp.acp.line_budget import IMAGE_BYTES, pieces
from pattern_acp.domain.messages import (
    ImagePart,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError


def parts_of(blocks: Sequence[schema.PromptBlock]) -> tuple[Part, ...]:
    """The message parts of a prompt.

    Raises:
        RpcError: `INVALID_PARAMS` for an empty prompt or a block that was not advertised.
    """
    parts = tuple(part for block in blocks for part in (_part_of(block),) if part is not None)
    if not parts:
        raise RpcError(INVALID_PARAMS, "The prompt is empty; send at least one block with content.")
    return parts


def _part_of(block: schema.PromptBlock) -> Part | None:
    match block:
        case schema.TextContent(text=text):
            return TextPart(text) if text.strip() else None
        case schema.ImageContent(data=data, mime_type=mime_type):
            return ImagePart(mime_type, data)
        case schema.ResourceLink(uri=uri, name=name, mime_type=mime_type):
            return ResourcePart(uri, name or name_of(uri), None, mime_type)
        case schema.EmbeddedResource(resource=resource):
            text = resource.text if resource.text is not None else "[binary content, not shown]"
            return ResourcePart(resource.uri, name_of(resource.uri), text, resource.mime_type)
        case schema.AudioContent():
            raise RpcError(INVALID_PARAMS, "Audio is not supported; send text.")
        case schema.UnsupportedBlock():
            raise RpcError(INVALID_PARAMS, "A block of the prompt has a type that is not supported; send text.")


def blocks_of(part: Part, limit: int) -> list[schema.ContentBlock]:
    """A part for the wire; long text in pieces of at most `limit` characters."""
    match part:
        case TextPart(text):
            return [schema.TextContent(text=piece) for piece in pieces(text, limit)]
        case ImagePart(media_type, data) if len(data) > IMAGE_BYTES:
            return [schema.TextContent(text=f"[an image, {media_type}, {len(data) * 3 // 4:,} bytes]")]
        case ImagePart(media_type, data):
            return [schema.ImageContent(data=data, mime_type=media_type)]
        case ResourcePart(uri=uri, name=name, text=None):
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
