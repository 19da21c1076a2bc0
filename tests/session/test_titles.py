"""A title from the first prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import ImagePart, Message, Part, ResourcePart, Role, TextPart
from pattern_acp.session.commands import TITLE_LENGTH, title_of


def message(*parts: Part) -> Message:
    return Message(MessageId("msg"), Role.USER, parts)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Fix the parser", "Fix the parser"),
        ("\n\n  # Fix the parser\nnow", "Fix the parser"),
        ("> quoted\nmore", "quoted"),
        ("- a point", "a point"),
        ("x" * 200, "x" * 59 + "…"),
        ("word " * 40, "word word word word word word word word word word word…"),
    ],
)
def test_the_first_line_with_words_is_the_title(text: str, title: str):
    assert title_of(message(TextPart(text))) == title


def test_words_on_both_sides_of_a_mentioned_file_are_the_title():
    file = ResourcePart("file:///a.py", "a.py")
    assert title_of(message(TextPart("Fix "), file, TextPart(" first"))) == "Fix @a.py first"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Why does this fail?\n" + "  at line\n" * 300, "Why does this fail? (+300 lines)"),
        ("```\nTraceback\n" + "x" * 3_000, "Traceback (+1 line)"),
        ("word " * 1_000, "word word word word word word word word… (5,000 characters)"),
        ("short\n" * 20, "short"),
    ],
)
def test_the_title_of_a_paste_says_how_much_it_is(text: str, title: str):
    assert title_of(message(TextPart(text))) == title


def test_a_prompt_without_words_is_named_by_what_is_attached():
    assert title_of(message(ResourcePart("file:///a/b.txt", "b.txt"))) == "b.txt"
    assert title_of(message(ImagePart("image/png", "AAAA"))) == "Untitled"


@given(st.text() | st.text(min_size=1).map(lambda text: text * 2_000))
def test_a_title_is_never_empty_never_long_and_one_line(text: str):
    title = title_of(message(TextPart(text)))
    assert 0 < len(title) <= TITLE_LENGTH
    assert len(title.splitlines()) == 1
