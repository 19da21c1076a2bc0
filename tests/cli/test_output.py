"""Plain output to terminals and pipes."""

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from pattern_acp.cli.output import OutputClosed, format_table, printable, write_error, write_json, write_line


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
    assert format_table(("ID", "TITLE"), [("a", "long title"), ("bbb", "x\ny")]) == (
        "ID   TITLE\na    long title\nbbb  x y"
    )


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
