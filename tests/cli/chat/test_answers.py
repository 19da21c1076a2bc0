"""Answers as they are drawn."""

import io

from rich.console import Console

from pattern_acp.cli.chat.answers import PlainAnswer, rendered


def drawn(markdown: str, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as shown:
        console.print(rendered(markdown))
    return shown.get()


def test_a_long_path_in_a_table_is_folded_and_not_cut():
    path = "/home/ann/" + "folder/" * 12 + "constellation.db"
    shown = drawn(f"| | |\n| --- | --- |\n| Constellation | `{path}` |", 50)
    assert "…" not in shown
    assert path in "".join(line.removeprefix(" Constellation").strip() for line in shown.splitlines())


def test_a_link_shows_where_it_leads():
    assert "https://example.com/elsewhere" in drawn("[docs](https://example.com/elsewhere)", 80)


def test_messages_in_a_pipe_are_one_blank_line_apart_however_they_end():
    stream = io.StringIO()
    answer = PlainAnswer(stream, on_screen=False)
    for message in (("> A warning.\n\n",), ("One\n", "\n", "\ntwo", "\n"), ("\n", "Three")):
        for piece in message:
            answer.feed(piece)
        answer.finish()
    assert stream.getvalue() == "> A warning.\n\nOne\n\n\ntwo\n\nThree\n"


def test_a_line_in_a_pipe_can_be_read_as_soon_as_it_ends():
    stream = io.StringIO()
    answer = PlainAnswer(stream, on_screen=False)
    answer.feed("This takes long.\n\n")
    assert stream.getvalue() == "This takes long.\n"
    answer.feed("Still")
    assert stream.getvalue() == "This takes long.\n\nStill"
