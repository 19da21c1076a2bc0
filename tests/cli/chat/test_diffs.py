"""Diffs show exactly what changed."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp import schema
from pattern_acp.cli.chat.calls import DiffRow, diff_rows, diff_text, shown_path
from pattern_acp.cli.chat.screen import ASCII, UNICODE

lines = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), max_size=40)


def test_lines_carry_the_numbers_of_the_side_they_are_on():
    old = "".join(f"{number}\n" for number in range(1, 21))
    assert diff_rows(old, old.replace("10\n", "ten\nTEN\n")) == [
        DiffRow(" ", 7, "7"),
        DiffRow(" ", 8, "8"),
        DiffRow(" ", 9, "9"),
        DiffRow("-", 10, "10"),
        DiffRow("+", 10, "ten"),
        DiffRow("+", 11, "TEN"),
        DiffRow(" ", 12, "11"),
        DiffRow(" ", 13, "12"),
        DiffRow(" ", 14, "13"),
    ]


@given(lines, lines)
def test_every_row_is_the_line_it_says(before: list[str], after: list[str]):
    rows = diff_rows("\n".join(before), "\n".join(after))
    old, new = "\n".join(before).splitlines(), "\n".join(after).splitlines()
    for row in rows:
        if row.sign != "@":
            assert (old if row.sign == "-" else new)[row.number - 1] == row.text


@given(lines, lines)
def test_applying_the_changes_gives_the_new_text(before: list[str], after: list[str]):
    rows = diff_rows("\n".join(before), "\n".join(after))
    old, new = "\n".join(before).splitlines(), "\n".join(after).splitlines()
    removed = {row.number for row in rows if row.sign == "-"}
    added = {row.number for row in rows if row.sign == "+"}
    kept = [line for number, line in enumerate(old, 1) if number not in removed]
    assert kept == [line for number, line in enumerate(new, 1) if number not in added]


def test_distant_places_are_told_apart():
    old = [str(number) for number in range(40)]
    new = ["zero", *old[1:39], "last"]
    assert [row.sign for row in diff_rows("\n".join(old), "\n".join(new))].count("@") == 1


def test_a_diff_is_cut_with_the_number_of_rows_that_are_left():
    diff = schema.Diff(path="/project/src/a.py", old_text="", new_text="".join(f"{n}\n" for n in range(10)))
    assert diff_text(diff, "/project", UNICODE, limit=2).plain == ("src/a.py  +10 -0\n 1 + 0\n 2 + 1\n… 8 more lines")


def test_a_new_file_says_so():
    diff = schema.Diff(path="/other/a.py", new_text="x\n")
    assert diff_text(diff, "/project", ASCII, limit=5).plain == "/other/a.py  new file, 1 line\n1 + x"


def test_a_file_cannot_steer_the_terminal():
    diff = schema.Diff(path="/p/a\x1b[2J\nb", old_text="\x1b]0;title\x07\n", new_text="\x9b2J\ttab\n")
    shown = diff_text(diff, "/p", UNICODE, limit=5).plain
    assert shown == "a[2J b  +1 -1\n1 - ]0;title\n1 + 2J  tab"


def test_paths_inside_the_folder_are_shown_from_there():
    assert shown_path("/project/src/a.py", "/project") in {"src/a.py", "src\\a.py"}
    assert shown_path("/projects/a.py", "/project") == "/projects/a.py"
