"""Images that MCP servers return."""

import base64
import io

from PIL import Image

from pattern_acp.domain.messages import ImagePart
from pattern_acp.mcp_servers.catalogue import Reply
from pattern_acp.tools.mcp_toolbox import outcome_of


def drawn(edge: int) -> ImagePart:
    file = io.BytesIO()
    Image.new("RGB", (edge, edge)).save(file, "PNG")
    return ImagePart("image/png", base64.b64encode(file.getvalue()).decode())


async def test_an_image_that_models_would_refuse_is_scaled_or_named():
    damaged = ImagePart("image/png", drawn(8).data[:40])
    outcome = await outcome_of(Reply("Here.", images=(drawn(3_000), damaged, drawn(8))), 1_000)
    assert [image.width for image in outcome.images] == [1_568, 8]
    assert outcome.text == "Here.\n(The image is damaged and cannot be read; send it again.)"
    assert len(outcome.content) == 3
