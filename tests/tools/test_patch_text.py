import time
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.tools.apply_patch import Hunk, PatchedText, UpdateFile, apply_hunks, parse_patch
from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.edit_file import EditPassageError


def hunks_of(*lines: str) -> tuple[Hunk, ...]:
    (section,) = parse_patch("\n".join(["*** Begin Patch", "*** Update File: a", *lines, "*** End Patch"]))
    assert isinstance(section, UpdateFile)
    return section.hunks


def applied(text: str, *lines: str) -> PatchedText:
    return apply_hunks(text, hunks_of(*lines))


def make_patch(before: list[str], after: list[str]) -> list[str]:
    """Hunk lines from one text to the other, each hunk with as many kept lines as make its place the only one."""
    lines: list[str] = []
    done = 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        start, end = i1, i2
        while places(before, before[start:end], done) != 1 and (start > done or end < len(before)):
            start, end = max(start - 1, done), min(end + 1, len(before))
        if places(before, before[start:end], done) != 1 or any(
            tag2 != "equal" and i3 < end and i4 > i2
            for tag2, i3, i4, _, _ in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        ):
            return whole_patch(before, after)
        lines += ["@@", *(f" {line}" for line in before[start:i1]), *(f"-{line}" for line in before[i1:i2])]
        lines += [*(f"+{line}" for line in after[j1:j2]), *(f" {line}" for line in before[i2:end])]
        done = end
    return lines


def whole_patch(before: list[str], after: list[str]) -> list[str]:
    end = [] if before else ["*** End of File"]
    return ["@@", *(f"-{line}" for line in before), *(f"+{line}" for line in after), *end]


def places(lines: list[str], wanted: list[str], start: int) -> int:
    if not wanted:
        return 0
    return sum(lines[at : at + len(wanted)] == wanted for at in range(start, len(lines) - len(wanted) + 1))


LINE = st.sampled_from(["a", "b", "  b", "c\t", "", "def f():", "*** End Patch", "@@ x", "+plus", "-minus", "é 中"])
LINES = st.lists(LINE, max_size=12)


@given(before=LINES, after=LINES, newline=st.sampled_from(["\n", "\r\n"]), ends=st.booleans(), mark=st.booleans())
def test_a_patch_from_one_text_to_another_gives_the_other(
    before: list[str], after: list[str], newline: str, *, ends: bool, mark: bool
):
    def text(lines: list[str]) -> str:
        body = newline.join(lines) + (newline if lines and ends else "")
        return ("\ufeff" if mark else "") + body

    old, new = text(before), text(after)
    # An empty file has no line endings to keep, and a last line that is empty needs its ending to be a line.
    if old == new or not before or not after or (not ends and not (before[-1] and after[-1])):
        return
    patched = apply_hunks(old, hunks_of(*make_patch(before, after)))
    if len(before) == 1 and not ends:
        new = text(after).replace(newline, "\n")
    assert patched.text == new
    assert patched.notes == ()


def test_mixed_line_endings_stay_and_added_lines_take_their_neighbours():
    assert applied("a\r\nb\nc\r\n", "@@", " b", "+x", " c").text == "a\r\nb\nx\r\nc\r\n"
    assert applied("a\r\nb\nc\r\n", "@@", " a", "+x", " b").text == "a\r\nx\nb\nc\r\n"


def test_a_line_in_the_place_of_another_ends_as_that_one_did():
    assert applied("a\r\nb\nc\r\n", "@@", "-a", "+x", " b").text == "x\r\nb\nc\r\n"
    assert applied("a\r\nb\nc\r\n", "@@", "-a", "-b", "+x", "+y", "+z", " c").text == "x\r\ny\nz\nc\r\n"
    assert applied("a\nb\r\nc\n", "@@", "-a", "+x", " b", "+y", " c").text == "x\nb\r\ny\nc\n"


def test_an_anchor_says_which_of_several_places_is_meant():
    text = "class A:\n    def f():\n        x\nclass B:\n    def f():\n        x\n"
    with pytest.raises(EditPassageError, match="fits in 2 places, at lines 3, 6; nothing was changed"):
        applied(text, "@@", "-        x", "+        y")
    patched = applied(text, "@@ class B:", "@@     def f():", "-        x", "+        y")
    assert patched == PatchedText(text[: text.rindex("x")] + "y\n", (6,))


def test_an_anchor_may_be_repeated_as_the_first_kept_line():
    assert applied("a\nx\nb\nx\n", "@@ b", " b", "-x", "+y").text == "a\nx\nb\ny\n"


def test_a_mark_of_ours_that_was_shown_with_a_backslash_is_that_of_the_file():
    text = "<current_state>\nold\n</current_state>\nend\n"
    patched = applied(text, "@@ <\\current_state>", "-old", "+new", " <\\/current_state>", "+<\\/note>")
    assert patched.text == "<current_state>\nnew\n</current_state>\n<\\/note>\nend\n"


def test_a_mark_that_the_file_has_with_a_backslash_keeps_it():
    text = "<\\/note>\n</note>\n"
    assert applied(text, "@@", "-<\\/note>", "+<\\/note> a").text == "<\\/note> a\n</note>\n"


def test_an_anchor_alone_says_where_lines_are_added():
    assert applied("a\nb\n", "@@ a", "+x").text == "a\nx\nb\n"
    assert applied("a\nb", "@@", "+x", "*** End of File").text == "a\nb\nx"
    with pytest.raises(EditPassageError, match="only adds lines and does not say where"):
        applied("a\nb\n", "@@", "+x")


def test_the_end_of_the_file_is_held_to():
    assert applied("x\nx\n", "@@", "-x", "+y", "*** End of File").text == "x\ny\n"
    with pytest.raises(EditPassageError, match="the passage at the end of the file is at line 1"):
        applied("x\na\n", "@@", "-x", "+y", "*** End of File")


def test_white_space_at_the_ends_of_lines_is_passed_over_and_told():
    patched = applied("def f():  \n\tx = 1\t\n", "@@", " def f():", "-\tx = 1", "+\tx = 2")
    assert patched.text == "def f():  \n\tx = 2\n"
    assert patched.notes == ("Hunk 1 matched only without regard to white space at the ends of lines.",)


def test_indentation_is_passed_over_last_and_what_is_added_is_indented_like_the_file():
    patched = applied("if a:\n\tb\n", "@@", " if a:", "-    b", "+    c", "+    d")
    assert patched.text == "if a:\n\tc\n\td\n"
    assert "without regard to indentation" in patched.notes[0]


@pytest.mark.parametrize("other", ["x  = 1", "x = l", "x = 1;", "“x”"])
def test_nothing_but_white_space_at_the_ends_is_ever_passed_over(other: str):
    with pytest.raises(EditPassageError, match="is not in the file; nothing was changed"):
        applied("x = 1\n", "@@", f"-{other}", "+y")


def test_a_hunk_that_is_not_there_shows_the_closest_lines():
    with pytest.raises(
        EditPassageError, match=r"(?s)Hunk 2 \(line 6 of the patch\): the passage is not in.*\n2\tbeta$"
    ):
        applied("a\nbeta\n", "@@", "-a", "+x", "@@", "-missing", "-beta", "+y")
    with pytest.raises(EditPassageError, match="the anchor `@@ def g` is not in the file"):
        applied("a\nb\n", "@@ def g", "-a", "+x")


def test_hunks_come_in_the_order_of_the_file():
    with pytest.raises(EditPassageError, match="is at line 1, before the end of the hunk above it"):
        applied("a\nb\n", "@@", "-b", "+x", "@@", "-a", "+y")


def test_a_patch_that_changes_nothing_says_so():
    with pytest.raises(ToolFailedError, match="leave the file as it is"):
        applied("a\n", "@@", "-a", "+a")


def test_a_thousand_hunks_in_two_megabytes_take_no_longer_than_a_few():
    lines = [f"line {number} of the file, which is long" for number in range(50_000)]
    patch = [part for at in range(0, 50_000, 50) for part in ("@@", f"-{lines[at]}", f"+{lines[at]} and more")]
    hunks = hunks_of(*patch)
    began = time.thread_time()
    patched = apply_hunks("\n".join(lines), hunks)
    assert len(patched.lines) == 1_000
    assert time.thread_time() - began < 10
