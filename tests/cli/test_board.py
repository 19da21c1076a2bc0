"""`pattern-acp board`, once and live, while an agent works."""

import json

import pytest
from anyio.lowlevel import checkpoint

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.board import LOOKS_AT_MOST, BoardDesk, show_board
from pattern_acp.cli.command_runner import run_call
from pattern_acp.cli.output import OutputClosed
from pattern_acp.cli.rendering import plain
from pattern_acp.commands.document import Result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import calls, says


def test_before_the_first_session_nobody_is_on_the_board(home: Process, capsys: pytest.CaptureFixture[str]):
    for words, shown in ((["board"], "No session is open.\n"), (["board", "--json"], "[]\n")):
        call = parse_arguments(words)
        assert isinstance(call, TypedCommand)
        assert run_call(call, home) == 0
        assert capsys.readouterr().out == shown


async def test_a_pipe_gets_a_table_of_the_open_sessions():
    model = ScriptedProvider(
        [
            calls("update_plan", entries=[{"content": "Parse", "status": "in_progress", "priority": "medium"}]),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write the parser")
        await agent.editor.prompt(session, "/tasks keep Parser")
        board = await show_board(
            BoardDesk(agent.database, SystemClock(), "2.00 USD", json=False, pause=checkpoint), watch=False
        )
        assert isinstance(board, Result)
        heading, row = plain(board.document).splitlines()
        assert heading.split()[:4] == ["SESSION", "WHERE", "AGENT", "LAST"]
        for words in ("Write the parser", "fake-editor, process ", "just now: answered", "#1 Parser", "2.00 USD left"):
            assert words in row


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_watched_board_is_shown_again_when_another_process_changes_it_and_not_otherwise(
    as_json: bool, capsys: pytest.CaptureFixture[str]
):
    async with running_agent(ScriptedProvider([says("One.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "First prompt")
        looks = 0

        async def pause() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                await agent.editor.prompt(session, "/budget session 7.00 USD")
            elif looks == 2 * LOOKS_AT_MOST:
                raise OutputClosed

        async with open_for_reading(agent.database.path, clock=SystemClock()) as database:
            with pytest.raises(OutputClosed):
                await show_board(BoardDesk(database, SystemClock(), "", as_json, pause), watch=True)
        out = capsys.readouterr().out
        if as_json:
            boards = [json.loads(line) for line in out.splitlines()]
            assert [[row["budget"] for row in board] for board in boards] == [[""], ["7.00 USD"]]
        else:
            assert out.count("SESSION") == 2
            assert out.index("7.00 USD left") > out.index("\n\nSESSION")
