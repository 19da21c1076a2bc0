"""Lines of running calls."""

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from pattern_acp.acp import schema
from pattern_acp.cli.chat.calls import DisplayedCall, call_details, call_line, live_details, plain_text
from pattern_acp.cli.chat.screen import WORDS, Marks
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind


def shown(*parts: RenderableType) -> str:
    written = StringIO()
    console = Console(width=60, file=written)
    for part in parts:
        console.print(part)
    return written.getvalue()


def call(kind: ToolKind, status: ToolCallStatus, text: str) -> DisplayedCall:
    content = (schema.Content(content=schema.TextContent(text=text)), schema.Terminal(terminal_id="t"))
    return DisplayedCall("c", "Explorer: finder", kind, status, content)


def test_a_running_call_shows_its_progress_and_the_end_of_its_terminal():
    running = call(ToolKind.THINK, ToolCallStatus.IN_PROGRESS, "2 calls, 3 s\n- Read a.py\n- Search plum …")
    text = shown(*live_details(running, lambda _terminal: "line of t", Marks()))
    assert [line.strip() for line in text.splitlines()] == [
        "2 calls, 3 s",
        "- Read a.py",
        "- Search plum …",
        "line of t",
    ]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ToolKind.THINK, ToolCallStatus.PENDING),
        (ToolKind.READ, ToolCallStatus.IN_PROGRESS),
        (ToolKind.EXECUTE, ToolCallStatus.IN_PROGRESS),
    ],
)
def test_what_a_call_is_about_to_do_is_no_progress(kind: ToolKind, status: ToolCallStatus):
    assert shown(*live_details(call(kind, status, "the task"), lambda _terminal: "", Marks())) == ""


def test_several_pieces_of_code_are_indented_below_their_headings():
    told = "**hook Stop**\n```\necho **stop**\n```\n**command /review**\n````sh\n```\ndone\n````"
    assert plain_text(told, ToolKind.OTHER) == "hook Stop\n  echo **stop**\ncommand /review\n  ```\n  done"


def test_one_piece_of_code_is_shown_as_it_is():
    assert plain_text("```sh\nls **\n```", ToolKind.EXECUTE) == "ls **"
    assert plain_text("````\n```\nx\n```\n````", ToolKind.OTHER) == "```\nx\n```"


def test_what_a_command_printed_is_no_markdown():
    printed = "**bold**\n```\nx\n```"
    assert plain_text(printed, ToolKind.EXECUTE) == printed


def test_why_a_command_did_not_run_is_shown_whole():
    why = f"Not allowed: A hook refused it: {'no ' * 40}end"
    refused = call(ToolKind.EXECUTE, ToolCallStatus.FAILED, why)
    assert " ".join(shown(*call_details(refused, "/w", Marks(), lambda _: "")).split()) == why


def test_words_stand_for_signs_where_a_screen_reader_reads():
    call = DisplayedCall("c", "Read a.py", ToolKind.READ, ToolCallStatus.COMPLETED)
    assert call_line(call, WORDS).plain == "done: Read a.py"
    ran = DisplayedCall("c", "make", ToolKind.EXECUTE, ToolCallStatus.FAILED)
    assert call_line(ran, WORDS).plain == "failed: command make"
