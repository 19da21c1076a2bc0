import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.lsp.model import (
    Diagnostic,
    LanguageServerError,
    Span,
    TextEdit,
    apply_edits,
    column_of,
    line_at,
    split_lines,
    units,
)
from pattern_acp.lsp.server import introduced

TEXTS = st.text(st.sampled_from("ab😀é\n\r\u2028\x0b "), max_size=30)


def test_columns_count_utf_16_units():
    line = "x = '😀' + bad"
    assert units(line[: line.index("bad")]) == 11
    assert column_of(line, 11) == line.index("bad")
    assert column_of(line, 6) == 5, "the middle of a character is before it"
    assert column_of("ab", 99) == 2
    assert column_of("é😀", 99) == 2


def test_only_three_line_ends_end_a_line():
    assert split_lines("a\r\nb\rc\nd\u2028e\x0bf\n") == ["a", "b", "c", "d\u2028e\x0bf", ""]
    assert line_at("a\nb", 1) == "b"
    assert line_at("a\nb", 2) == ""


def test_edits_apply_as_if_at_once_and_keep_line_ends():
    text = "😀 one two\r\none\r\n"
    edits = [
        TextEdit(Span(1, 0, 1, 3), "three"),
        TextEdit(Span(0, 3, 0, 6), "3"),
        TextEdit(Span(2, 0, 2, 0), "end"),
        TextEdit(Span(9, 0, 9, 0), "!"),
    ]
    assert apply_edits(text, edits) == "😀 3 two\r\nthree\r\nend!"


def test_edits_that_overlap_are_refused():
    with pytest.raises(LanguageServerError, match="overlap"):
        apply_edits("abcdef", [TextEdit(Span(0, 0, 0, 3), "x"), TextEdit(Span(0, 2, 0, 4), "y")])
    with pytest.raises(LanguageServerError, match="overlap"):
        apply_edits("abcdef", [TextEdit(Span(0, 3, 0, 1), "x")])


@given(TEXTS, st.data())
def test_a_replacement_of_any_place_changes_that_place_alone(text: str, data: st.DataObject):
    lines = split_lines(text)
    number = data.draw(st.integers(0, len(lines) - 1))
    start = data.draw(st.integers(0, len(lines[number])))
    end = data.draw(st.integers(start, len(lines[number])))
    span = Span(number, units(lines[number][:start]), number, units(lines[number][:end]))
    changed = split_lines(apply_edits(text, [TextEdit(span, "NEW")]))
    assert changed == [*lines[:number], f"{lines[number][:start]}NEW{lines[number][end:]}", *lines[number + 1 :]]


def wrong(line: int, message: str = "bad", unit: int = 0, *, is_error: bool = True) -> Diagnostic:
    return Diagnostic(Span(line, unit, line, unit + 1), message, is_error)


def test_an_old_error_that_moved_is_not_new():
    assert introduced("a", [wrong(0)], "x bad", [wrong(2)], "1\n2\nx bad") == []


def test_a_second_error_of_the_same_words_is_new_where_it_is():
    before, after = "x bad\nz", "new bad\nx bad\nz"
    (error,) = introduced("a", [wrong(0)], before, [wrong(0, unit=4), wrong(1)], after)
    assert (error.line, error.column) == (1, 5)


def test_an_error_on_a_line_that_changed_is_still_the_old_one():
    assert introduced("a", [wrong(0)], "x bad", [wrong(0)], "y bad") == []


def test_warnings_are_not_told_and_errors_come_in_the_order_of_the_text():
    after = [wrong(1, "second"), wrong(0, "first"), wrong(0, "hint", is_error=False), wrong(9, "beyond")]
    found = introduced("a", [], "", after, "😀\nb")
    assert [(error.line, error.message) for error in found] == [(1, "first"), (2, "second"), (10, "beyond")]
