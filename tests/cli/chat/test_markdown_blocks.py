"""Blocks are final when they are given away."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.cli.chat.answers import MarkdownBlocks, visible_tail

BLOCKS = ["a", "b c", "\n", "\n\n", "- x\n", "1. y\n", "```\n", "    code\n", "> q\n", "# h\n"]
PARTS = ["| a | b |\n", "--|--\n", "---\n", "<div>\n", "  ", "*", "=\n"]

texts = st.lists(st.sampled_from(BLOCKS + PARTS), max_size=30)


def blocks_of(pieces: list[str]) -> list[str]:
    stream = MarkdownBlocks()
    found = [block for piece in pieces for block in stream.feed(piece)]
    return [*found, stream.finish()]


def test_a_paragraph_is_given_away_when_the_next_block_begins():
    stream = MarkdownBlocks()
    assert stream.feed("One\nparagraph.\n\nAn") == []
    assert stream.feed("other.\n") == ["One\nparagraph.\n\n"]
    assert stream.pending == "Another.\n"
    assert stream.finish() == "Another.\n"
    assert stream.finish() == ""


def test_a_fence_stays_together_however_empty_its_lines():
    stream = MarkdownBlocks()
    assert stream.feed("```python\na = 1\n\n\nb = 2\n") == []
    assert stream.feed("```\nText\n") == ["```python\na = 1\n\n\nb = 2\n```\n"]


def test_a_list_stays_together():
    assert blocks_of(["- one\n\n- two\n  - inner\n", "\nText\n"]) == ["- one\n\n- two\n  - inner\n\n", "Text\n"]


def test_half_a_line_decides_nothing():
    # "#" alone is a heading, "#foo" is the paragraph going on.
    assert blocks_of(["text\n#", "foo\n"]) == ["text\n#foo\n"]


@given(texts)
def test_nothing_is_lost_and_nothing_is_added(pieces: list[str]):
    assert "".join(blocks_of(pieces)) == "".join(pieces)


@given(texts)
def test_the_blocks_do_not_depend_on_how_the_text_was_cut(pieces: list[str]):
    text = "".join(pieces)
    by_character = [block for block in blocks_of(list(text)) if block]
    assert by_character == [block for block in blocks_of([text]) if block]


def test_the_tail_of_a_long_fence_is_still_code():
    block = "```python\n" + "".join(f"x = {number}\n" for number in range(100))
    tail = visible_tail(block, 4).split("\n")
    assert tail == ["```python", "x = 97", "x = 98", "x = 99", ""]
    assert visible_tail("short\n", 4) == "short\n"
