"""Small pictures in place of images that are too large for one line.

Owns: which images of an event are replaced before it is shown. Must not know: how they are scaled. The journal keeps
what the model was sent.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from pattern_acp.acp.line_budget import IMAGE_BYTES
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.tool_calls import ImageContent
from pattern_acp.journal.events import Event, ToolCallFinished, TurnStarted
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import preview_of

T = TypeVar("T")


async def with_previews(event: Event) -> Event:
    """The event as it can be shown; the same one when nothing in it is too large."""
    match event:
        case TurnStarted(message=message):
            parts = [await _shown(part) for part in message.parts] if _has_large(message.parts) else message.parts
            return event if parts is message.parts else replace(event, message=replace(message, parts=tuple(parts)))
        case ToolCallFinished(content=content) if _has_large(content):
            return replace(event, content=tuple([await _shown(item) for item in content]))
        case _:
            return event


def _has_large(items: Sequence[object]) -> bool:
    return any(isinstance(item, ImagePart | ImageContent) and len(item.data) > IMAGE_BYTES for item in items)


async def _shown(item: T) -> T:
    if not isinstance(item, ImagePart | ImageContent) or len(item.data) <= IMAGE_BYTES:
        return item
    try:
        preview = await preview_of(ImagePart(item.media_type, item.data))
    except ImageError:
        # It is named in words instead.
        return item
    return replace(item, media_type=preview.media_type, data=preview.data)
