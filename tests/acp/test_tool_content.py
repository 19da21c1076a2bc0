"""What a tool call shows, on the wire."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp import schema
from pattern_acp.acp.line_budget import DIFF_BYTES, IMAGE_BYTES, wire_size
from pattern_acp.acp.tool_content import changed_region, content_items, diff_item, terminal_text
from pattern_acp.domain.tool_calls import DiffContent, ImageContent, TerminalContent, TextContent, ToolContent

OURS = TerminalContent("call_1", "make", "/project", "built\n")
THEIRS = TerminalContent("term_1", "make", "/project", "built\n", client_owned=True)


def shown(content: ToolContent, *, live: bool = False, meta: bool = False) -> schema.ToolCallContent:
    (item,) = content_items([content], live=live, meta=meta)
    return item


def test_text_is_wrapped_as_a_content_block():
    assert shown(TextContent("hello")) == schema.Content(content=schema.TextContent(text="hello"))


def test_a_terminal_is_embedded_only_where_it_can_be_seen():
    assert shown(THEIRS, live=True) == schema.Terminal(terminal_id="term_1")
    assert shown(OURS, meta=True) == schema.Terminal(terminal_id="call_1")
    as_text = schema.Content(content=schema.TextContent(text="```console\n$ make\nbuilt\n```"))
    assert shown(THEIRS) == shown(OURS) == shown(OURS, live=True) == shown(THEIRS, meta=True) == as_text


def test_a_fence_is_longer_than_any_in_the_output():
    text = terminal_text(TerminalContent("t", "cat README.md", output="```\ncode\n```` more"))
    assert text.startswith("`````console\n")
    assert text.endswith("\n`````")


def test_a_new_file_has_no_old_text_and_an_empty_one_has_an_empty_one():
    assert diff_item(DiffContent("/a", None, "new")).old_text is None
    assert diff_item(DiffContent("/a", "", "new")).old_text == ""


def test_a_diff_of_a_large_file_shows_what_changed():
    lines = [f"line {number}\n" for number in range(50_000)]
    changed = [*lines[:25_000], "changed\n", *lines[25_001:]]
    item = diff_item(DiffContent("/a", "".join(lines), "".join(changed)))
    assert item.old_text is not None
    assert "line 25000\n" in item.old_text
    assert "changed\n" in item.new_text
    assert wire_size(item) < 5_000


def test_a_diff_that_changes_everything_is_clipped():
    item = diff_item(DiffContent("/a", "中" * 1_000_000, "é" * 1_000_000))
    assert wire_size(item) <= 2 * DIFF_BYTES + 500


def test_an_image_that_is_too_large_for_a_line_is_named():
    assert isinstance(shown(ImageContent("image/png", "aGk=")), schema.Content)
    large = shown(ImageContent("image/png", "A" * (IMAGE_BYTES + 1)))
    assert isinstance(large, schema.Content)
    assert isinstance(large.content, schema.TextContent)


texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=60).map("".join)


@given(texts, texts, texts, texts)
def test_the_changed_region_can_be_put_back(head: str, old: str, new: str, tail: str):
    before, after = head + old + tail, head + new + tail
    cut_before, cut_after = changed_region(before, after)
    start = before.find(cut_before) if cut_before else 0
    candidates = [at for at in range(len(before) + 1) if before.startswith(cut_before, at)]
    assert any(before[:at] + cut_after + before[at + len(cut_before) :] == after for at in candidates)
    assert start >= 0
