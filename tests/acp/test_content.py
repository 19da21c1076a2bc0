"""Prompt blocks to message parts, and back."""

import pytest

from pattern_acp.acp import schema
from pattern_acp.acp.content import IMAGE_BYTES, blocks_of, name_of, parts_of
from pattern_acp.domain.messages import AttachmentKind, ImagePart, ResourcePart, TextPart
from pattern_acp.jsonrpc.messages import RpcError


def test_every_block_that_is_advertised_becomes_a_part():
    resource = schema.ResourceContents(uri="file:///a/b.py", text="print(1)", mime_type="text/x-python")
    blocks: list[schema.PromptBlock] = [
        schema.TextContent(text="Look."),
        schema.ImageContent(data="aGk=", mime_type="image/png"),
        schema.ResourceLink(uri="file:///a/c%20d.py", name=""),
        schema.EmbeddedResource(resource=resource),
    ]
    assert parts_of(blocks) == (
        TextPart("Look."),
        ImagePart("image/png", "aGk="),
        ResourcePart("file:///a/c%20d.py", "c d.py", None, None, AttachmentKind.LINK),
        ResourcePart("file:///a/b.py", "b.py", "print(1)", "text/x-python"),
    )


def test_blank_text_counts_as_nothing_and_nothing_is_refused():
    blank: list[schema.PromptBlock] = [schema.TextContent(text=" \n")]
    for blocks in ([], blank):
        with pytest.raises(RpcError, match="empty"):
            parts_of(blocks)


def test_what_was_not_advertised_is_refused():
    with pytest.raises(RpcError, match="Audio"):
        parts_of([schema.AudioContent(data="aGk=", mime_type="audio/wav")])


def test_long_text_is_replayed_in_pieces():
    blocks = blocks_of(TextPart("abcde"), 2)
    assert [block.text for block in blocks if isinstance(block, schema.TextContent)] == ["ab", "cd", "e"]


def test_an_image_that_is_too_large_for_a_line_is_named():
    (small,) = blocks_of(ImagePart("image/png", "aGk="), 10)
    assert isinstance(small, schema.ImageContent)
    (large,) = blocks_of(ImagePart("image/png", "A" * (IMAGE_BYTES + 1)), 10)
    assert isinstance(large, schema.TextContent)
    assert "image/png" in large.text


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///a/b.py", "b.py"),
        ("/a/b.py", "b.py"),
        ("C:\\work\\b.py", "b.py"),
        ("https://example.com/x/y?z=1", "y"),
        ("https://example.com", "https://example.com"),
        ("zed:///agent/thread/1", "1"),
    ],
)
def test_a_link_without_a_name_is_called_by_its_last_part(uri: str, name: str):
    assert name_of(uri) == name


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("zed:///agent/thread/t1?name=Earlier+one", "Earlier one"),
        ("zed:///agent/rule/r1?name=House%20style", "House style"),
        ("zed:///agent/diagnostics?include_errors=true", "diagnostics"),
        ("file:///w/a%20b.py?symbol=run#L3:9", "a b.py"),
    ],
)
def test_what_zed_mentions_has_its_own_name(uri: str, name: str):
    assert name_of(uri) == name
