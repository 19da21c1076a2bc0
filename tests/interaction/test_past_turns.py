"""Earlier sessions as the model can reach them: by words, days, files and what was done; and a turn as it went."""

import re
import time

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import Json
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.searching import MOST_SESSIONS
from tests.support.agent import RunningAgent, running_agent
from tests.support.passing_time import PassingClock
from tests.support.scripts import Turn, calls, says
from tests.support.turns import last_result

DAY_MS = 86_400_000
NOON = int(time.mktime((2026, 11, 26, 12, 0, 0, 0, 0, -1)) * 1000)
"""Noon of a Thursday, on the machine's own clock."""


class SetClock(PassingClock):
    """A clock whose time of day is set."""

    at_ms = NOON

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.at_ms


WORK: tuple[Turn, ...] = (
    calls("write_file", path="parser.py", content="def parse(): ...\n"),
    calls("run_command", command="echo 3 passed"),
    says("The parser reads lists now."),
    calls("read_file", path="parser.py"),
    says("It is called parse."),
)


async def ask(agent: RunningAgent, prompt: str) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, prompt)
    return session


async def found(**asked: Json) -> str:
    """What session_search says on Friday of a Thursday's work on a parser and a Wednesday's on nothing."""
    model = ScriptedProvider([says("Hello there."), *WORK, calls("session_search", **asked), says("So it was.")])
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        clock = agent.shared.clock = SetClock()
        clock.at_ms = NOON - DAY_MS
        await ask(agent, "Say hello.")
        clock.at_ms = NOON
        session = await ask(agent, "Let the parser read lists.")
        await agent.editor.prompt(session, "What is it called?")
        clock.at_ms = NOON + DAY_MS
        await ask(agent, "What did we do yesterday on the parser?")
        return re.sub(r"ses_\w+", "ses_1", last_result(model.requests[-1]).text).replace(str(agent.folder), "/project")


FIRST = (
    "[Let the parser read lists., turn 1, 2026-11-26 12:00; pattern-acp://session/ses_1?turn=1]\n"
    "The user: Let the parser read lists.\n"
    "Done: Create parser.py\n"
    "Done: `echo 3 passed`: Exit code 0 after 0.0 s. … 3 passed\n"
    "The agent: The parser reads lists now."
)


async def test_what_was_done_yesterday_is_found_with_files_commands_and_results():
    text = re.sub(r"after \d+\.\d s", "after 0.0 s", await found(when="yesterday", query="parser"))
    assert text.endswith(FIRST)


async def test_a_day_alone_tells_all_its_turns_newest_first():
    text = await found(when="yesterday")
    assert [line for line in text.split("\n") if line.startswith("The user")] == [
        "The user: What is it called?",
        "The user: Let the parser read lists.",
    ]
    assert "Looked at things in 1 call." in text


@pytest.mark.parametrize(
    ("asked", "prompts"),
    [
        ({"path": "parser.py"}, ["What is it called?", "Let the parser read lists."]),
        ({"query": "passed", "kinds": ["done"]}, ["Let the parser read lists."]),
        ({"query": "passed", "kinds": ["said"]}, []),
        ({"query": "hello", "when": "2026-11-25"}, ["Say hello."]),
        ({"query": "hello", "when": "yesterday"}, []),
    ],
)
async def test_turns_are_found_by_file_kind_and_day(asked: dict[str, Json], prompts: list[str]):
    text = await found(**asked)
    assert [line.removeprefix("The user: ") for line in text.split("\n") if line.startswith("The user")] == prompts
    assert prompts or text == "No turn of this project fits; try other words or days."


async def test_words_alone_find_what_was_said_and_what_was_done():
    text = await found(query="echo")
    assert "Done: `echo 3 passed`" in text


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({}, "give `query`, `when`, `path`, or `turn`"),
        ({"when": "some day"}, "`when` names no day"),
        ({"turn": "pattern-acp://session/ses_none?turn=1"}, "No session of this project has that turn"),
    ],
)
async def test_what_cannot_be_searched_is_said(asked: dict[str, Json], problem: str):
    assert problem in await found(**asked)


async def test_a_link_opens_its_turn_whole_with_its_neighbours():
    turns = [*WORK]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        session = await ask(agent, "Let the parser read lists.")
        await agent.editor.prompt(session, "What is it called?")
        uri = f"pattern-acp://session/{session}?turn=2"
        turns += [calls("session_search", turn=uri), says("Read.")]
        await ask(agent, "Read it.")
        text = last_result(model.requests[-1]).text
        assert text.index("turn 1, ") < text.index("turn 2, ") < text.index("Done: Read parser.py")
        assert text.endswith("The agent: It is called parse.")


OLD: tuple[Turn, ...] = (calls("run_command", command="echo zeppelin landed"), says("It went well."))


async def older(**asked: Json) -> str:
    """What session_search says after so many sessions that nothing but the index leads to the first."""
    small = [says("Hello there.")] * (MOST_SESSIONS + 1)
    model = ScriptedProvider([*OLD, *small, calls("session_search", **asked), says("So it was.")])
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        await ask(agent, "Land it.")
        for _ in small:
            await ask(agent, "Say hello.")
        await ask(agent, "What landed?")
        return last_result(model.requests[-1]).text


@pytest.mark.parametrize("asked", [{"query": "zeppelin", "kinds": ["done"]}, {"query": "zeppelin"}])
async def test_what_was_done_long_ago_is_found_by_the_index(asked: dict[str, Json]):
    text = await older(**asked)
    assert "Done: `echo zeppelin landed`" in text


async def test_a_command_that_ran_often_is_indexed_once_a_session_and_forgotten_with_its_words():
    model = ScriptedProvider([*OLD, *OLD, calls("write_file", path="a.py", content="1"), says("Done.")])

    def indexed(tx: Transaction) -> list[str]:
        rows = tx.all("SELECT text FROM search_entries WHERE kind = 'call' ORDER BY id")
        return [re.sub(r"\d+\.\d s", "0.0 s", columns.text(row[0])) for row in rows]

    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        session = await ask(agent, "Land it.")
        await agent.editor.prompt(session, "Once more.")
        await agent.editor.prompt(session, "Write it down.")
        ran, wrote = await agent.database.read(indexed)
        assert ran == "`echo zeppelin landed`: Exit code 0 after 0.0 s. … zeppelin landed"
        assert wrote.startswith("Create a.py")
        await agent.editor.prompt(session, "/memory forget --yes archive zeppelin landed")
        assert "zeppelin" not in "".join(await agent.database.read(indexed))
        queued = await agent.database.read(lambda tx: tx.one("SELECT count(*) FROM embedding_queue"))
        assert queued is not None


async def test_a_search_of_sessions_is_offered_once_there_is_an_earlier_one_and_stays_as_it_began():
    model = ScriptedProvider([says("Hello there.")] * 5)
    async with running_agent(model) as agent:
        first = await ask(agent, "Say hello.")
        await ask(agent, "And you?")
        await agent.editor.prompt(first, "Again.")
        await agent.editor.request("session/close", {"sessionId": first})
        await agent.editor.request("session/load", {"sessionId": first, "cwd": str(agent.folder), "mcpServers": []})
        await agent.editor.prompt(first, "And on?")
    offered = ["session_search" in {tool.name for tool in request.tools} for request in model.requests]
    assert offered == [False, True, False, False]
