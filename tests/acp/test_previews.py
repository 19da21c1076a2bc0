"""Images too large for a line are shown by small ones."""

import base64
import io

from PIL import Image

from pattern_acp.acp.client import with_previews
from pattern_acp.acp.content import IMAGE_BYTES
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.tool_calls import ImageContent, TextContent, ToolCallStatus
from pattern_acp.journal.events import SessionTitled, ToolCallFinished, TurnStarted
from tests.support.conversations import PIXEL, user


def large() -> str:
    file = io.BytesIO()
    Image.merge("RGB", [Image.effect_noise((700, 500), 100) for _ in range(3)]).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def finished(*data: str) -> ToolCallFinished:
    content = (TextContent("Look."), *(ImageContent("image/png", one) for one in data))
    return ToolCallFinished(TurnId("t"), ToolCallId("c"), ToolCallStatus.COMPLETED, "", content)


async def test_only_large_images_are_replaced():
    data = large()
    assert len(data) > IMAGE_BYTES
    shown = await with_previews(finished(data, PIXEL.data))
    assert isinstance(shown, ToolCallFinished)
    text, preview, small = shown.content
    assert text == TextContent("Look.")
    assert small == ImageContent("image/png", PIXEL.data)
    assert isinstance(preview, ImageContent)
    assert preview.media_type == "image/jpeg"
    assert len(preview.data) < IMAGE_BYTES
    prompt = await with_previews(TurnStarted(TurnId("t"), user("Look.", ImagePart("image/png", data))))
    assert isinstance(prompt, TurnStarted)
    assert isinstance(prompt.message.parts[1], ImagePart)
    assert prompt.message.parts[1].media_type == "image/jpeg"


async def test_what_is_small_or_cannot_be_read_stays():
    for event in (finished(PIXEL.data), finished("A" * (IMAGE_BYTES + 4)), SessionTitled("x")):
        assert await with_previews(event) == event
