from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.workspace.jobs import JobOutput, NewOutput, ends_with_prompt
from pattern_acp.workspace.terminal import CommandOutput


def test_what_was_read_is_not_read_again():
    output = JobOutput()
    output.append("one\ntw")
    assert (output.new_lines, output.bytes_unread) == (1, 6)
    assert output.take_new() == NewOutput("one\ntw")
    output.append("o\n")
    assert output.take_new() == NewOutput("o\n")
    assert output.take_new() == NewOutput("")


def test_bytes_that_are_not_kept_are_counted():
    output = JobOutput(limit=4)
    output.append("abcdefgh")
    assert output.take_new() == NewOutput("efgh", bytes_dropped=4)
    output.append("ijklmn")
    assert output.take_new() == NewOutput("klmn", bytes_dropped=2)


@given(st.lists(st.text(max_size=20), max_size=20), st.integers(0, 30))
def test_every_byte_is_read_once_or_counted_as_dropped(pieces: list[str], limit: int):
    output, read = JobOutput(limit), 0
    for number, piece in enumerate(pieces):
        output.append(piece)
        if number % 3 == 2:
            new = output.take_new()
            read += len(new.text.encode("utf-8", "surrogatepass")) + new.bytes_dropped
    new = output.take_new()
    read += len(new.text.encode("utf-8", "surrogatepass")) + new.bytes_dropped
    assert read == len("".join(pieces).encode("utf-8", "surrogatepass")) == output.bytes_written


@given(st.lists(st.text("ab\n", max_size=8), max_size=8))
def test_an_output_that_is_given_as_a_whole_is_taken_once(pieces: list[str]):
    output, read = JobOutput(), ""
    for whole in accumulate(pieces):
        output.take_whole(CommandOutput(whole))
        read += output.take_new().text
    assert read == "".join(pieces)


def test_a_whole_output_that_lost_its_beginning_goes_on_where_it_was():
    output = JobOutput()
    assert output.take_whole(CommandOutput("1\n2\n3\n"))
    output.take_new()
    assert output.take_whole(CommandOutput("3\n4\n", truncated=True))
    assert output.take_new().text.endswith("4\n")
    assert not output.take_whole(CommandOutput("3\n4\n", truncated=True))


@pytest.mark.parametrize(
    "text",
    [
        "Overwrite? [y/N] ",
        "Continue [Y/n/q]",
        "Proceed (y/n)? ",
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
        "\x1b[1mPassword:\x1b[0m ",
        "[sudo] password for ann: ",
        "Enter passphrase for key '/k': ",
        "package name: (demo) ",
        "Is this OK? (yes) ",
        "Ok to proceed? (y) ",
        ">>> ",
        "In [1]: ",
        "bash-5.2$ ",
        "(Pdb) ",
        "? Project name » demo",
        "Press ENTER to continue",
        "line\n--More--",
        "line\n\x1b[7m--More--(2%)\x1b[27m",
        "line\r\n\x1b[7m/etc/services\x1b[27m\x1b[K",
        "\x1b[?1049h\x1b[1;1Hdialog",
    ],
)
def test_a_question_is_recognised(text: str):
    assert ends_with_prompt(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "done",
        "done.\n",
        "Is it? yes\n",
        "Is it? (yes)\n",
        "Overwrite? [y/N]\n",
        "Downloading 45%",
        "Compiling a.c",
        ".....",
        "\x1b[?1049h\x1b[1mlist\x1b[?1049lDone.",
    ],
)
def test_what_is_only_told_is_no_question(text: str):
    assert not ends_with_prompt(text)


def test_the_last_line_is_the_last_that_holds_anything():
    output = JobOutput()
    output.append("one\n\x1b[32mtwo\x1b[0m\n\n  \n")
    assert output.last_line() == "two"
    assert JobOutput().last_line() == ""
