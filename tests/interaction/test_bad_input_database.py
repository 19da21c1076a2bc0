"""A constellation that is locked, read-only, damaged, newer or full: said in a sentence, and nothing is lost."""

import secrets
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import TurnEnded
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.jsonrpc.messages import INTERNAL_ERROR
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.requests import refused
from tests.support.scripts import calls, says
from tests.support.serving import Home, Served, served, temporary_home

BUSY_SECONDS = 0.2

ROOM_PAGES = 150
"""Pages of 4 kB that the full disk has room for; a fresh constellation takes fewer."""


async def new_session_refused(agent: Served, home: Home) -> str:
    error = await refused(agent.editor, "session/new", {"cwd": str(home.project), "mcpServers": []})
    assert error.code == INTERNAL_ERROR
    assert isinstance(error.data, Mapping)
    assert error.data["details"] == error.message
    assert str(error.data["code"]).startswith("database.")
    assert str(home.constellation) in error.message
    assert error.message.endswith(".")
    assert "Traceback" not in error.message
    return error.message


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None, None]:
    """Another connection that holds the file's write lock."""
    taken, release = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        del tx
        taken.set()
        release.wait(100)

    async with open_database(path, clock=SystemClock()) as database, anyio.create_task_group() as tasks:
        tasks.start_soon(database.write, hold)
        await anyio.to_thread.run_sync(taken.wait)
        try:
            yield
        finally:
            release.set()


async def make(home: Home) -> None:
    """The constellation, as an earlier run leaves it."""
    async with served(home) as agent:
        await agent.open(home)


async def test_a_locked_constellation_is_named_and_works_once_it_is_free():
    async with temporary_home() as home:
        await make(home)
        async with served(home, busy_seconds=BUSY_SECONDS) as agent:
            async with locked(home.constellation):
                assert "locked by another process" in await new_session_refused(agent, home)
            session = await agent.open(home)
            assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"


async def test_a_constellation_that_is_locked_in_a_turn_ends_it_with_a_sentence():
    async with temporary_home() as home:
        home.script([ScriptStep(text="Hello.")], [ScriptStep(text="Hello.")])
        async with served(home, busy_seconds=BUSY_SECONDS) as agent:
            session = await agent.open(home)
            async with locked(home.constellation):
                assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
                assert "locked by another process" in agent.editor.said()
                assert "Hello." not in agent.editor.said()
            agent.editor.updates.clear()
            assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
            assert "Hello." in agent.editor.said()


async def test_a_damaged_constellation_is_named_and_a_new_one_works():
    async with temporary_home() as home:
        home.constellation.parent.mkdir(parents=True)
        home.constellation.write_bytes(b"this is no database, only a text that is long enough" * 100)
        async with served(home) as agent:
            for _ in range(2):
                assert "damaged" in await new_session_refused(agent, home)
            home.constellation.unlink()
            session = await agent.open(home)
            assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"


async def test_a_newer_constellation_is_refused_with_both_versions_and_left_alone():
    async with temporary_home() as home:
        await make(home)
        async with open_database(home.constellation, clock=SystemClock()) as database:
            known = database.facts.schema_version
            await database.write(lambda tx: tx.all("PRAGMA user_version = 999"))
        async with served(home) as agent:
            message = await new_session_refused(agent, home)
            assert "999" in message
            assert str(known) in message


async def test_a_constellation_whose_place_is_taken_by_a_folder_is_named():
    async with temporary_home() as home:
        home.constellation.mkdir(parents=True)
        async with served(home) as agent:
            await new_session_refused(agent, home)
            home.constellation.rmdir()
            await agent.open(home)


async def test_a_home_that_cannot_be_made_is_named():
    async with temporary_home() as home:
        (home.folder / "home").write_text("a file where the folder should be", encoding="utf-8")
        async with served(home) as agent:
            error = await refused(agent.editor, "session/new", {"cwd": str(home.project), "mcpServers": []})
            assert error.code == INTERNAL_ERROR
            assert error.message.endswith(".")
            (home.folder / "home").unlink()
            await agent.open(home)


async def recorded(agent: RunningAgent, session: str) -> list[str]:
    events = await agent.database.read(lambda tx: read_stream(tx, session))
    return [type(item.event).__name__ for item in events]


async def assert_sound(agent: RunningAgent, session: str) -> None:
    assert not await agent.database.read(quick_check)
    assert (await agent.database.read(lambda tx: verify_stream(tx, session))).ok


@pytest.mark.first_version("a prompt that cannot be saved is answered with an error")
async def test_a_constellation_that_became_read_only_stops_the_turn_and_says_so():
    async with running_agent(ScriptedProvider([says("Hello."), says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        before = await recorded(agent, session)
        await agent.database.write(lambda tx: tx.all("PRAGMA query_only = 1"))
        assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
        assert "cannot be written" in agent.editor.said()
        assert await recorded(agent, session) == before
        assert agent.model.requests == []
        async with running_agent(agent.model, database=agent.database.path) as later:
            mine = await later.editor.open_session(str(later.folder))
            assert (await later.editor.prompt(mine, "Hi"))["stopReason"] == "end_turn"
            assert later.editor.said() == "Hello."


async def fill(agent: RunningAgent) -> None:
    """Leave room for a few rows, and for nothing large."""

    def limit(tx: Transaction) -> int:
        pages = int(str(tx.all("PRAGMA page_count")[0][0]))
        assert pages < ROOM_PAGES - 10
        return int(str(tx.all("PRAGMA max_page_count = 150")[0][0]))

    assert await agent.database.write(limit) == ROOM_PAGES


async def mend(agent: RunningAgent) -> None:
    await agent.database.write(lambda tx: tx.all("PRAGMA max_page_count = 1000000"))


@pytest.mark.first_version("a prompt that cannot be saved is answered with an error")
@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_a_full_disk_at_the_prompt_says_that_nothing_was_saved(mode: str):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": mode})
        before = await recorded(agent, session)
        await fill(agent)
        assert (await agent.editor.prompt(session, secrets.token_hex(200_000)))["stopReason"] == "end_turn"
        assert "Nothing" in agent.editor.said()
        assert "saved" in agent.editor.said()
        assert await recorded(agent, session) == before
        assert agent.model.requests == []
        await mend(agent)
        agent.editor.updates.clear()
        assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
        assert agent.editor.said() == "Hello."
        assert [message.text for message in conversation(agent.model.requests[0])] == ["Hi"]
        await assert_sound(agent, session)


async def test_a_disk_that_fills_up_during_an_answer_stops_the_turn_with_nothing_half_written():
    model = ScriptedProvider([says(secrets.token_hex(300_000)), says("Hello.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await fill(agent)
        assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
        assert "\n\nNothing more was saved" in agent.editor.said()
        assert agent.editor.said().count("saved") == 1, agent.editor.said()
        assert "MessageRecorded" not in await recorded(agent, session)
        await assert_sound(agent, session)
        await mend(agent)
        agent.editor.updates.clear()
        assert (await agent.editor.prompt(session, "Again"))["stopReason"] == "end_turn"
        assert agent.editor.said() == "Hello."
        assert [message.text for message in conversation(model.requests[-1])] == ["Hi", "Again"]


@pytest.mark.first_version("a call is shown as pending before it is recorded")
async def test_a_disk_that_fills_up_during_a_call_leaves_no_call_open_in_the_editor():
    model = ScriptedProvider([calls("run_command", command="cat big.txt"), says("Hello."), says("Hello.")])
    async with running_agent(model) as agent:
        lines = (secrets.token_hex(40) for _ in range(20_000))
        (agent.folder / "big.txt").write_text("\n".join(lines), encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await fill(agent)
        assert (await agent.editor.prompt(session, "Read"))["stopReason"] == "end_turn"
        assert "Nothing more was saved" in agent.editor.said()
        last = [u["status"] for u in agent.editor.of_kind("tool_call_update") if "status" in u][-1]
        assert last == "failed"
        await mend(agent)
        agent.editor.updates.clear()
        assert (await agent.editor.prompt(session, "Again"))["stopReason"] == "end_turn"
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        agent.editor.updates.clear()
        await agent.editor.request("session/load", params)
        statuses = [u["status"] for u in agent.editor.of_kind("tool_call_update") if "status" in u]
        assert statuses == ["failed"]
        assert (await recorded(agent, session)).count("TurnEnded") == 2
        await assert_sound(agent, session)


@pytest.mark.first_version("a prompt that was withdrawn is answered with an error")
async def test_a_cancel_is_answered_while_another_process_holds_the_lock():
    model = ScriptedProvider([says("One.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with locked(agent.database.path):
            answers: list[JsonDict] = []

            async def prompt() -> None:
                answers.append(await agent.editor.prompt(session, "Go."))

            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(prompt)
                    await anyio.lowlevel.checkpoint()
                    await agent.editor.cancel(session)
            assert answers == [{"stopReason": "cancelled"}]
        assert (await agent.editor.prompt(session, "Again."))["stopReason"] == "end_turn"
        recorded = await agent.database.read(lambda tx: read_stream(tx, session))
        ends = [item.event.stop_reason for item in recorded if isinstance(item.event, TurnEnded)]
        assert ends == ["cancelled", "end_turn"]


@pytest.mark.first_version("a prompt that cannot be saved is answered with an error")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody delete an open file")
async def test_a_constellation_that_was_deleted_meanwhile_stops_the_turn_and_says_so():
    model = ScriptedProvider([says("One."), says("Two.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        agent.database.path.unlink()
        assert (await agent.editor.prompt(session, "Go on."))["stopReason"] == "end_turn"
        assert "Nothing more was saved" in agent.editor.said()
        assert "Two." not in agent.editor.said()
