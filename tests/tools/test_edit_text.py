import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.edit_file import (
    LINES_OF_PLACE,
    EditPassageError,
    Replacement,
    apply_replacements,
    newline_of,
    resulting_lines,
    with_newline,
)

WHITE_SPACE_NOTE = "`edits[0]` matched only without regard to white space; the replacement was indented like the file."

lines = st.lists(st.text(st.sampled_from("ab \t(){}=."), max_size=8), max_size=8)


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    return apply_replacements(text, [Replacement(old, new, replace_all)]).text


def test_a_unique_passage_is_replaced():
    result = apply_replacements("one\ntwo\nthree\n", [Replacement("two", "2")])
    assert (result.text, result.count, result.lines, result.notes) == ("one\n2\nthree\n", 1, (2,), ())


def test_replacements_apply_in_order_each_on_the_result_of_the_one_before():
    result = apply_replacements("a\nb\n", [Replacement("a", "b2"), Replacement("b2\nb", "c")])
    assert result.text == "c\n"
    assert result.count == 2


def test_replace_all_replaces_every_occurrence():
    result = apply_replacements("x y\nx\n", [Replacement("x", "zz", replace_all=True)])
    assert (result.text, result.count, result.lines) == ("zz y\nzz\n", 2, (1, 2))


def test_a_mark_that_was_shown_with_a_backslash_is_replaced_as_it_stands_in_the_file():
    assert edited("x\n</attachment>\n", r"<\/attachment>", r"y <\/attachment>") == "x\ny </attachment>\n"
    assert edited(r"x <\/attachment>", r"<\/attachment>", "y") == "x y"


def test_a_passage_that_is_not_unique_is_refused_with_its_lines():
    with pytest.raises(EditPassageError, match="in the file 2 times, at lines 1, 3; nothing was changed"):
        edited("x\ny\nx\n", "x", "z")


def test_overlapping_places_are_not_unique():
    with pytest.raises(EditPassageError, match="2 times"):
        edited("aaa", "aa", "b")


def test_many_candidates_are_listed_in_part():
    with pytest.raises(EditPassageError, match="12 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"):
        edited("x\n" * 12, "x", "z")


def test_a_missing_passage_shows_the_closest_lines():
    text = "import os\n\ndef compute(a, b):\n    return a + b\n\nprint(1)\n"
    with pytest.raises(EditPassageError) as caught:
        edited(text, "def compute(a, c):\n    return a + c\n", "x")
    assert "The closest lines are:\n2\t\n3\tdef compute(a, b):\n4\t    return a + b\n5\t" in str(caught.value)


def test_a_missing_passage_is_anchored_at_a_line_that_is_there():
    with pytest.raises(EditPassageError, match=r"The closest lines are:\n1\ta = 1\n2\tlong_enough = 2\n3\tb = 3"):
        edited("a = 1\nlong_enough = 2\nb = 3\n", "long_enough = 2\nc = 9", "x")


def test_a_missing_passage_without_likeness_says_so():
    with pytest.raises(EditPassageError, match=r"No line is like it\. Read the file again"):
        edited("alpha\n", "############", "x")


EXCEPT = "    except KeyError:\n"
TRIED = "def first(color):\n    try:\n        return COLORS[color]"
TWO_FUNCTIONS = """\
def first(color):
    try:
        return COLORS[color]
    except KeyError:
        return None


def second(color):
    try:
        return OTHERS[color]
    except KeyError:
        raise ValueError("unknown color")
"""


def failure(text: str, old: str, new: str) -> str:
    with pytest.raises(EditPassageError) as caught:
        edited(text, old, new)
    return caught.value.sentence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('        raise ValueError("unknown colour")', "        return None"),
        (
            '    except KeyError:\n        raise ValueError("unknown colour")',
            "    except KeyError:\n        return None",
        ),
        ('        raise ValueError("unknown colour")', f"{EXCEPT}        return None"),
        ('raise ValueError("unknown colour")', "try:"),
    ],
)
def test_a_new_text_that_stands_elsewhere_does_not_hide_the_lines_that_were_meant(old: str, new: str):
    told = failure(TWO_FUNCTIONS, old, new)
    assert '12\t        raise ValueError("unknown color")' in told
    assert "made before" not in told


def test_a_short_line_says_nothing_of_whether_an_edit_was_made():
    assert "made before" not in failure("new line\n", "old line", "new line")
    assert "made before" not in failure("x\n", "######", "x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    try:\n        return HUES[color]", "    try:\n        return COLORS[color]"),
        ("def first(color):\n    return COLORS.get(color, ())", TRIED),
        ("lookup = partial(find_in, table)", TRIED),
        ("def first(color):\n    except KeyError:", f"{TRIED}\n    except KeyError:"),
    ],
)
def test_an_edit_that_was_made_before_is_recognised_and_its_place_shown(old: str, new: str):
    told = failure(TWO_FUNCTIONS.replace("OTHERS[color]", "None"), old, new)
    assert re.search(r"new_text is already at line [12], so this edit may have been made before\. [TN]", told)


def test_a_long_line_is_recognised_too_unless_it_is_there_several_times():
    line = f"export const endpoint = {'x' * 80};"
    assert "already at line 2" in failure(f"// comment\n{line}\n", "####", line)
    assert "made before" not in failure(f"{line}\n{line}\n", "####", line)


def test_the_closest_lines_are_not_those_of_a_line_that_is_everywhere():
    told = failure(TWO_FUNCTIONS, '    except KeyError:\n        raise ValueError("unknown colour")', "x")
    assert "11\t    except KeyError:" in told


def test_an_empty_passage_is_refused_unless_the_file_is_empty():
    assert edited("", "", "hello\n") == "hello\n"
    with pytest.raises(ToolFailedError, match="old_text` is empty"):
        edited("text", "", "x")


def test_an_edit_that_changes_nothing_is_refused():
    with pytest.raises(ToolFailedError, match="same old_text and new_text"):
        edited("a", "a", "a")
    with pytest.raises(ToolFailedError, match="leave the file as it is"):
        apply_replacements("a", [Replacement("a", "b"), Replacement("b", "a")])


def test_windows_line_endings_stay_when_the_edit_has_unix_ones():
    assert edited("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n") == "x\r\ny\r\nz\r\nc\r\n"


def test_unix_line_endings_stay_when_the_edit_has_windows_ones():
    assert edited("a\nb\n", "a\r\nb", "x\r\ny") == "x\ny\n"


def test_mixed_line_endings_are_left_as_they_are():
    assert edited("a\r\nb\nc\r\n", "b", "x") == "a\r\nx\nc\r\n"


def test_a_passage_over_mixed_line_endings_is_found_line_by_line():
    assert edited("a\r\nb\nc\r\nd\n", "b\nc\n", "x\ny\n") == "a\r\nx\ny\r\nd\n"


def test_a_byte_order_mark_stays():
    assert edited("\ufeffa\nb\n", "a\n", "x\n") == "\ufeffx\nb\n"
    assert edited("\ufeffa\nb\n", "\ufeffa\n", "\ufeffx\n") == "\ufeffx\nb\n"


def test_a_missing_final_newline_stays_missing():
    assert edited("a\nb", "b", "c") == "a\nc"
    assert edited("a\nb", "b\n", "c\n") == "a\nc"


def test_a_passage_with_other_indentation_is_found_and_the_replacement_is_indented_like_the_file():
    text = "class A:\n    def f(self):\n        if x:\n            return 1\n"
    result = apply_replacements(
        text, [Replacement("if x:\n    return 1", "if x:\n    y = 2\n    if y:\n        return y\nreturn 0")]
    )
    assert result.text == (
        "class A:\n    def f(self):\n        if x:\n            y = 2\n"
        "            if y:\n                return y\n        return 0\n"
    )
    assert result.notes == (WHITE_SPACE_NOTE,)
    assert result.lines == (3,)


def test_a_passage_written_with_spaces_is_found_in_a_file_with_tabs():
    text = "func f() {\n\tif x {\n\t\treturn 1\n\t}\n}\n"
    assert edited(text, "    if x {\n        return 1\n    }", "    if x {\n        return 2\n    }") == (
        "func f() {\n\tif x {\n\t\treturn 2\n\t}\n}\n"
    )


def test_a_replacement_that_is_less_indented_is_moved_out_as_far():
    text = "        a\n        b\n"
    assert edited(text, "    a\n    b\n", "  a\n    b\n") == "      a\n        b\n"


def test_lines_that_the_edit_keeps_stay_as_they_are_in_the_file():
    text = "  a  \n  keep\t\n  b\n"
    assert edited(text, "a\nkeep\nb", "x\nkeep\ny") == "  x\n  keep\t\n  y\n"


def test_a_passage_with_other_white_space_can_be_deleted():
    assert edited("a\n  b\n  c\nd\n", "b\nc\n", "") == "a\nd\n"


def test_two_places_that_differ_only_in_white_space_are_not_unique():
    with pytest.raises(EditPassageError, match="2 times, at lines 1, 3"):
        edited("  a\n  b\n    a\n    b\n", "a\nb", "x")


def test_replace_all_also_works_without_regard_to_white_space():
    assert edited("  a\n  b\n    a\n    b\n", "a\nb", "x", replace_all=True) == "  x\n    x\n"


def test_copied_line_numbers_are_left_out():
    result = apply_replacements(
        "def f():\n    pass\n", [Replacement("1\tdef f():\n2\t    pass", "1\tdef f():\n2\t    go()")]
    )
    assert result.text == "def f():\n    go()\n"
    assert "line numbers copied from read_file" in result.notes[0]


def test_a_line_ending_is_known_only_when_all_lines_share_it():
    assert [newline_of(text) for text in ("", "a", "a\n", "a\r\nb\r\n", "a\r\nb\n")] == ["", "", "\n", "\r\n", ""]


def test_very_many_places_take_a_moment_only():
    text = "x\n" * 100_000
    assert apply_replacements(text, [Replacement("x", "y", replace_all=True)]).count == 100_000
    with pytest.raises(EditPassageError, match="100000 times"):
        edited(text, "x", "y")


def test_every_edit_names_the_line_where_its_text_is_in_the_end_whatever_their_order():
    text = "".join(f"line {number} é\U0001f600\n" for number in range(1, 9))
    edits = [Replacement(f"line {number} é", f"{number}\n") for number in (6, 2, 4, 8)]
    assert apply_replacements(text, edits).lines == (8, 2, 5, 11)


def test_places_move_with_edits_of_many_places_before_them():
    text = "a\nx\nb\nx\nc\n"
    edits = [Replacement("c", "C"), Replacement("b", "B"), Replacement("x\n", "y\ny\n", replace_all=True)]
    result = apply_replacements(text, edits)
    assert result.text == "a\ny\ny\nB\ny\ny\nC\n"
    assert result.places == ((7, 1), (4, 1), (2, 2), (5, 2))
    assert resulting_lines(result) == "1\ta\n2\ty\n3\ty\n4\tB\n5\ty\n6\ty\n7\tC"


def test_far_places_are_shown_apart_and_long_ones_by_their_ends():
    text = "".join(f"{number}\n" for number in range(1, 31))
    result = apply_replacements(text, [Replacement("\n3\n", "\nthree\n"), Replacement("20\n", "long\n" * 30)])
    shown = resulting_lines(result).split("\n")
    assert shown[:4] == ["1\t1", "2\t2", "3\tthree", "4\t4"]
    assert (shown[4:6], shown[-1]) == (["...", "19\t19"], "50\t21")
    assert len(shown) == 4 + 1 + LINES_OF_PLACE + 1


def test_half_a_surrogate_pair_stays_as_it_is():
    assert edited("a \ud83d b\nc\n", "c", "d") == "a \ud83d b\nd\n"


def test_a_missing_passage_is_answered_with_the_nearest_of_very_many_lines():
    text = "".join(f"value_{number} = compute({number})\n" for number in range(30_000))
    with pytest.raises(EditPassageError, match=r"21234\tvalue_21233 = compute\(21233\)"):
        edited(text, "value_21233 = comptue(21233)", "")


def test_a_missing_passage_of_very_long_nonsense_is_answered_at_once():
    text = "".join(f"value_{number} = compute({number})\n" for number in range(30_000))
    with pytest.raises(EditPassageError, match="No line is like it"):
        edited(text, "\n".join("#" * 390 for _ in range(300)), "")


@given(st.text("abé\U0001f600\n", max_size=30), st.lists(st.tuples(*[st.text("abé\n", min_size=1, max_size=3)] * 2)))
def test_edits_of_one_call_do_what_they_do_one_after_the_other(text: str, pairs: list[tuple[str, str]]):
    before = f"{text}ab\n"
    expected, edits = before.replace("b\n", "é\nb"), [Replacement("b\n", "é\nb", replace_all=True)]
    for old, new in pairs:
        if old != new and old in expected:
            expected = expected.replace(old, new)
            edits.append(Replacement(old, new, replace_all=True))
    assume(expected != before)
    assert apply_replacements(before, edits).text == expected


@given(lines, lines, st.data())
def test_a_unique_passage_is_replaced_as_str_replace_does(before: list[str], after: list[str], data: st.DataObject):
    text = "\n".join(before)
    start = data.draw(st.integers(0, len(text)))
    old = text[start : data.draw(st.integers(start, len(text)))]
    new = "\n".join(after)
    overlapping = sum(text.startswith(old, at) for at in range(len(text)))
    assume(old and old != new and overlapping == 1)
    assert edited(text, old, new) == text.replace(old, new, 1)


@given(lines, lines, lines, lines)
def test_an_edit_of_a_windows_file_is_the_edit_of_the_unix_file(
    head: list[str], old: list[str], new: list[str], tail: list[str]
):
    text = "".join(f"{line}\n" for line in [*head, *old, *tail])
    replacement = Replacement("\n".join(old), "\n".join(new))
    try:
        expected = apply_replacements(text, [replacement]).text
    except ToolFailedError:
        return
    assume("\n" in text)
    assert apply_replacements(with_newline(text, "\r\n"), [replacement]).text == with_newline(expected, "\r\n")


@given(st.tuples(st.text("ab \t\r\n"), st.text("ab \t\r\n"), st.text("ab \t\r\n"), st.booleans()))
def test_any_edit_either_changes_the_text_or_is_refused(case: tuple[str, str, str, bool]):
    text, old, new, replace_all = case
    try:
        result = apply_replacements(text, [Replacement(old, new, replace_all)])
    except ToolFailedError:
        return
    assert result.text != text
    assert result.count == len(result.lines) >= 1


@given(
    st.lists(st.sampled_from(["a = 1", "if b:", "    c()", "        d()"]), min_size=1, max_size=6), st.integers(1, 8)
)
def test_a_shifted_block_is_found_and_shifted_back(block: list[str], shift: int):
    text = "start\n" + "".join(" " * shift + line + "\n" for line in block) + "end\n"
    old = "".join(f"\t{line}\n" for line in block)
    new = old + "\tlast()\n"
    assert edited(text, old, new) == text.replace("end\n", " " * shift + "last()\nend\n")
