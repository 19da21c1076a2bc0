"""What a tool call shows, on the wire."""

import os

from pattern_acp.acp import schema
from pattern_acp.acp.content import DIFF_BYTES, IMAGE_BYTES, wire_size
from pattern_acp.acp.updates import content_items, diff_items, terminal_text
from pattern_acp.domain.tool_calls import (
    DiffContent,
    ImageContent,
    LinkContent,
    TerminalContent,
    TextContent,
    ToolContent,
)

OURS = TerminalContent("call_1", "make", "/project", "built\n")
THEIRS = TerminalContent("term_1", "make", "/project", "built\n", client_owned=True)


def shown(content: ToolContent, *, live: bool = False, meta: bool = False) -> schema.ToolCallContent:
    (item,) = content_items([content], live=live, meta=meta)
    return item


def diffs(old: str | None, new: str) -> list[schema.Diff]:
    return [item for item in diff_items(DiffContent("/a", old, new)) if isinstance(item, schema.Diff)]


def test_text_is_wrapped_as_a_content_block():
    assert shown(TextContent("hello")) == schema.Content(content=schema.TextContent(text="hello"))


def test_a_link_is_one_that_the_client_can_open():
    link = LinkContent("pattern-acp://session/ses_1?turn=2", "Zebras, turn 2", "2026-11-28: striped")
    assert shown(link) == schema.Content(
        content=schema.ResourceLink(uri=link.uri, name=link.name, description=link.description)
    )


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
    assert diffs(None, "new")[0].old_text is None
    assert diffs("", "new")[0].old_text == ""


def test_a_diff_of_a_large_file_shows_what_changed():
    lines = [f"line {number}\n" for number in range(50_000)]
    changed = [*lines[:25_000], "changed\n", *lines[25_001:]]
    (item,) = diffs("".join(lines), "".join(changed))
    assert item.old_text is not None
    assert "line 25000\n" in item.old_text
    assert "changed\n" in item.new_text
    assert wire_size(item) < 5_000


def test_a_diff_that_changes_everything_is_clipped():
    (item,) = diffs("中" * 1_000_000, "é" * 1_000_000)
    assert wire_size(item) <= 2 * DIFF_BYTES + 500


def test_an_image_that_is_too_large_for_a_line_is_named():
    assert isinstance(shown(ImageContent("image/png", "aGk=")), schema.Content)
    large = shown(ImageContent("image/png", "A" * (IMAGE_BYTES + 1)))
    assert isinstance(large, schema.Content)
    assert isinstance(large.content, schema.TextContent)


def test_places_far_apart_in_a_large_file_are_shown_each_on_its_own():
    lines = [f"line {number}\n" for number in range(50_000)]
    changed = list(lines)
    changed[100:101] = []
    changed[49_000] = "changed\n"
    first, second = diffs("".join(lines), "".join(changed))
    assert first.old_text is not None
    assert "line 100\n" in first.old_text
    assert "line 100\n" not in first.new_text
    assert "changed\n" in second.new_text
    assert wire_size([first, second]) < 5_000


def test_many_places_are_shown_as_far_as_they_fit():
    lines = [f"line {number}\n" for number in range(100_000)]
    changed = [line.replace("line", "x") if at % 50 == 0 else line for at, line in enumerate(lines)]
    *items, note = diff_items(DiffContent("/a", "".join(lines), "".join(changed)))
    assert len(items) > 50
    assert isinstance(note, schema.Content)
    assert "more changed places in /a" in str(note.content)
    assert wire_size(items) < 2 * DIFF_BYTES + 50_000


def test_a_call_that_changes_many_large_files_still_fits_into_a_line():
    content = [DiffContent(f"/{number}", None, "x" * 150_000) for number in range(30)]
    items = content_items(content, live=False, meta=False)
    assert wire_size(items) < 700_000
    last = items[-1]
    assert isinstance(last, schema.Content)
    assert isinstance(last.content, schema.TextContent)
    assert last.content.text.startswith("Too much to show here; also changed: /4, /5")
    assert "and 6 more" in last.content.text


def test_files_whose_names_are_no_utf_8_are_shown_beside_others():
    named = os.fsdecode(b"/w/bad\xff.txt")
    items = content_items((DiffContent("/w/a.txt", "a", "b"), DiffContent(named, "é", "b")), live=True, meta=False)
    assert [item.path for item in items if isinstance(item, schema.Diff)] == ["/w/a.txt", named]
