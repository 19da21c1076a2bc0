import pytest

from pattern_acp.tools.apply_patch import (
    AddFile,
    DeleteFile,
    Hunk,
    PatchSyntaxError,
    Section,
    UpdateFile,
    parse_patch,
)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def only(*lines: str) -> Section:
    (section,) = parse_patch(patch(*lines))
    return section


def test_a_new_file_has_the_added_lines():
    assert only("*** Add File: a/b.py", "+one", "+", "+two") == AddFile("a/b.py", "one\n\ntwo\n")
    assert only("*** Add File: empty") == AddFile("empty", "")


def test_a_file_is_deleted_by_its_name():
    assert only("*** Delete File: a b.txt") == DeleteFile("a b.txt")


def test_a_file_is_updated_by_hunks_with_anchors():
    section = only("*** Update File: a", "@@ class A:", "@@     def f(self):", "         x", "-old", "+new")
    hunk = Hunk(("class A:", "    def f(self):"), ((" ", "        x"), ("-", "old"), ("+", "new")), line=3)
    assert section == UpdateFile("a", (hunk,))


def test_the_first_hunk_needs_no_mark_and_an_empty_line_is_kept():
    section = only("*** Update File: a", "", "-x", "+y", "@@", " z", "+w", "*** End of File")
    assert isinstance(section, UpdateFile)
    first, second = section.hunks
    assert first.lines == ((" ", ""), ("-", "x"), ("+", "y"))
    assert not first.at_end
    assert second.lines == ((" ", "z"), ("+", "w"))
    assert second.at_end


def test_a_file_may_move_with_and_without_changes():
    assert only("*** Update File: a", "*** Move to: b") == UpdateFile("a", (), "b")
    moved = only("*** Update File: a", "*** Move to: b", "@@", "-x", "+y")
    assert moved == UpdateFile("a", (Hunk((), (("-", "x"), ("+", "y")), line=4),), "b")


def test_empty_lines_set_sections_apart():
    text = patch("*** Update File: a", "@@", "-x", "+y", "", "*** Add File: b", "+b", "", "*** Delete File: c", "")
    update, add, delete = parse_patch(f"\n{text}\n\n")
    assert isinstance(update, UpdateFile)
    assert update.hunks[0].lines == (("-", "x"), ("+", "y"))
    assert (add, delete) == (AddFile("b", "b\n"), DeleteFile("c"))


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("<<'EOF'", "EOF"), ("apply_patch <<EOF", "EOF"), ('<<-"PATCH"', "PATCH"), ("```", "```"), ("```diff", "```\n")],
)
def test_quoting_of_a_shell_or_of_markdown_around_a_patch_is_passed_over(opens: str, closes: str):
    bare = patch("*** Update File: a", "-x", "+y")
    (section,) = parse_patch(f"{opens}\n{bare}\n{closes}")
    assert section == UpdateFile("a", (Hunk((), (("-", "x"), ("+", "y")), line=4),))


def test_several_sections_that_change_one_file_are_one():
    sections = parse_patch(
        patch(
            "*** Update File: a", "-x", "+y", "*** Add File: b", "+b", "*** Update File: a", "@@ def f():", "-v", "+w"
        )
    )
    first = Hunk((), (("-", "x"), ("+", "y")), line=3)
    second = Hunk(("def f():",), (("-", "v"), ("+", "w")), line=8)
    assert sections == (UpdateFile("a", (first, second)), AddFile("b", "b\n"))
    moved = ("*** Update File: a", "*** Move to: c", "*** Update File: a", "-x", "+y")
    assert len(parse_patch(patch(*moved))) == 2


def test_a_patch_with_windows_line_endings_is_the_same_patch():
    text = patch("*** Update File: a", "@@ top", "-x", "+y")
    assert parse_patch(text.replace("\n", "\r\n")) == parse_patch(text)


def test_the_numbers_of_a_unified_diff_are_passed_over():
    section = only("*** Update File: a", "@@ -1,2 +1,2 @@", "-x", "+y")
    assert isinstance(section, UpdateFile)
    assert section.hunks[0].anchors == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A patch starts with the line"),
        ("--- a\n+++ b", "A patch starts with the line"),
        ("*** Begin Patch\n*** Delete File: a", "does not end with the line"),
        (patch(), "The patch is empty"),
        (patch("hello"), r"Line 2 of the patch \(`hello`\): a section starts with"),
        (patch("*** Delete File:"), "needs a path behind it"),
        (patch("*** Delete File: a", "+x"), "a section starts with"),
        (patch("*** Add File: a", "x"), r"Line 3 .*every line of `\*\*\* Add File: a` starts with \+"),
        (patch("*** Update File: a"), "has no hunk"),
        (patch("*** Update File: a", "*** Move to:", "-x"), "needs a path behind it"),
        (patch("*** Update File: a", "@@", "x = 1"), r"Line 4 of the patch \(`x = 1`\): a line of a hunk starts with"),
        (patch("*** Update File: a", "@@@ x", "-x"), "`@@` is followed by a space"),
        (patch("*** Update File: a", "@@", " x", " y"), "that ends here removes and adds nothing"),
        (patch("*** Update File: a", "@@ x"), "that ends here removes and adds nothing"),
    ],
)
def test_what_breaks_the_grammar_is_one_sentence_that_tells_how_to_mend_it(text: str, sentence: str):
    with pytest.raises(PatchSyntaxError, match=sentence) as caught:
        parse_patch(text)
    assert "\n" not in caught.value.sentence
