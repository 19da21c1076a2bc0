"""Plain output to terminals and pipes."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.cli.output import (
    OutputClosed,
    cells_of,
    fold,
    lay_out,
    printable,
    write_error,
    write_json,
    write_line,
    write_sentence,
)


def table(*rows: Sequence[str], width: int | None = None) -> str:
    return "\n".join("".join(line).rstrip() for lines in lay_out(rows, width) for line in lines)


def test_lines_go_to_stdout_and_errors_to_stderr_as_one_line(capsys: pytest.CaptureFixture[str]):
    write_line("one")
    write_line()
    write_json({"a": "é\n"})
    write_error("two\nlines \x1b[31m")
    captured = capsys.readouterr()
    assert captured.out == 'one\n\n{"a":"\\u00e9\\n"}\n'
    assert captured.err == "two lines [31m\n"


def test_characters_that_steer_a_terminal_are_left_out():
    assert printable("a\x1b[2J\x07\tb\nc\x9bd\u202e") == "a[2J\tb\ncd"


def test_a_table_is_aligned_and_carries_no_trailing_blanks():
    assert table(("ID", "TITLE"), ("a", "long title"), ("bbb", "x\ny z")) == (
        "ID   TITLE\na    long title\nbbb  x\n     y z"
    )


def test_a_table_that_is_wider_than_the_terminal_is_folded_at_blanks():
    rows = [("provider.overloaded", "It limits the rate, or is broken."), ("tool.failed", "A tool failed.")]
    assert table(("CODE", "MEANING"), *rows, width=40) == (
        "CODE                 MEANING\n"
        "provider.overloaded  It limits the rate,\n"
        "                     or is broken.\n"
        "tool.failed          A tool failed."
    )


def test_a_path_that_is_wider_than_the_terminal_stays_whole_to_be_copied():
    path = "/" + "long/" * 20 + "file.db"
    assert path in table(("KIND", "FILE", "WHY"), ("made by hand", path, "it was asked for"), width=40)


@given(
    rows=st.lists(st.lists(st.text("ab 漢é", max_size=60), min_size=3, max_size=3), max_size=5),
    width=st.integers(1, 120),
)
def test_folding_a_table_loses_no_word_and_keeps_to_the_width_where_words_allow(rows: list[list[str]], width: int):
    words = [word for row in rows for cell in row for word in cell.split()]
    shown = table(("A", "B", "C"), *rows, width=width)
    assert sorted(shown.split()) == sorted([*words, "A", "B", "C"])
    longest = max((cells_of(word) for word in words), default=1)
    if 3 * longest + 4 <= width:
        assert all(cells_of(line) <= width for line in shown.splitlines())


@pytest.mark.parametrize("columns", [20, 40])
def test_a_sentence_is_folded_at_blanks_on_a_terminal_and_whole_in_a_pipe(columns: int):
    sentence = "The constellation cannot be opened; check its folder."
    assert max(map(cells_of, fold(sentence, columns))) <= columns
    assert " ".join(fold(sentence, columns)) == sentence
    out = io.StringIO()
    with redirect_stdout(out):
        write_sentence(f"{sentence}\n")
    assert out.getvalue() == f"{sentence}\n"


def test_wide_characters_take_two_cells_of_a_column():
    assert table(("T", "N"), ("漢字", "1"), ("ab", "2")) == "T     N\n漢字  1\nab    2"


def test_a_stream_that_knows_few_characters_shows_what_it_can():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with redirect_stdout(stream):
        write_line("é")
    assert raw.getvalue() == b"\\xe9\n"


def test_a_reader_that_went_away_is_told_apart():
    closed = io.StringIO()
    closed.close()
    with redirect_stdout(closed), redirect_stderr(closed):
        with pytest.raises(OutputClosed):
            write_json([1])
        write_error("nobody reads this")
