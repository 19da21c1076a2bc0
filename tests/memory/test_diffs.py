"""Two versions of a text compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.diffs import TextChange, line_splices, mark_words, unified_diff, word_diff
from pattern_acp.memory.edits import Splice, apply_splices

TEXTS = st.text(st.sampled_from("ab \nécd"), max_size=40)


def diff(before: str, after: str) -> str:
    return unified_diff(before, after, before_name="old", after_name="new")


def test_the_lines_that_changed_are_told_with_their_surroundings():
    assert diff("a\nb\nc", "a\nB\nc") == "--- old\n+++ new\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"


def test_an_empty_text_has_no_line_that_went():
    assert diff("", "a") == "--- old\n+++ new\n@@ -0,0 +1 @@\n+a"


def test_equal_texts_have_no_difference():
    assert diff("a\n", "a\n") == ""


def test_a_line_end_at_the_end_is_a_difference():
    assert diff("a", "a\n").endswith("\n+")


def test_words_are_marked_in_gits_form():
    assert mark_words(word_diff("uses make here", "uses ninja here")) == "uses [-make-]{+ninja+} here"


def test_a_very_long_change_is_told_whole():
    before, after = " ".join(map(str, range(5_000))), " ".join(map(str, range(5_000, 10_000)))
    assert [part.change for part in word_diff(before, after)] == [TextChange.REMOVED, TextChange.ADDED]


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_from_their_comparison(before: str, after: str):
    parts = word_diff(before, after)
    assert "".join(part.text for part in parts if part.change is not TextChange.ADDED) == before
    assert "".join(part.text for part in parts if part.change is not TextChange.REMOVED) == after


@given(TEXTS, TEXTS)
def test_the_splices_of_lines_lead_from_one_text_to_the_other(before: str, after: str):
    assert apply_splices(line_splices(before, after), before) == after


@pytest.mark.parametrize(
    ("before", "after", "splice"),
    [
        ("- a\n  x: 1", "- a\n  x: 1\n- b\n  x: 1", Splice(10, 0, "\n- b\n  x: 1")),
        ("- a\n  x: 1\n- b\n  x: 1", "- b\n  x: 1", Splice(0, 11, "")),
        ("- a\n  x: 1\n- b\n  x: 1", "- a\n  x: 1", Splice(10, 11, "")),
        ("## p\n- a\n\n## q\n- a", "## p\n- a\n- a\n\n## q\n- a", Splice(9, 0, "- a\n")),
        ("one", "one\n", Splice(3, 0, "\n")),
        ("", "one", Splice(0, 0, "one")),
    ],
)
def test_lines_that_came_or_went_among_others_like_them_are_those_of_one_item(before: str, after: str, splice: Splice):
    assert line_splices(before, after) == (splice,)


RECORDS = st.lists(st.sampled_from(["- a", "- b", "  x: 1", "  x: 2", "", "## s"]), max_size=12).map("\n".join)


@given(RECORDS, RECORDS)
def test_the_splices_of_lines_that_repeat_lead_from_one_text_to_the_other(before: str, after: str):
    splices = line_splices(before, after)
    assert apply_splices(splices, before) == after
    ends = [splice.at + splice.removed for splice in splices]
    assert all(end <= splice.at for end, splice in zip(ends, splices[1:], strict=False))
