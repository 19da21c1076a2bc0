"""The program from start to end, in this process."""

import logging
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import Flags
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import InstructionsCompiled
from pattern_acp.journal.reader import read_stream
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED
from pattern_acp.providers.scripted import ScriptStep
from tests.support.editor import JsonDict
from tests.support.requests import begin_prompt, kinds_of, option, refused, updates_of
from tests.support.serving import served, temporary_home

HELLO = [ScriptStep(text="Hello.")]
WAITS = [ScriptStep(text="So far."), ScriptStep(wait_for="cancel")]


async def kinds_recorded(path: Path, session: str) -> list[str]:
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        return [type(item.event).__name__ for item in await database.read(lambda tx: read_stream(tx, session))]


async def instructions_of(path: Path, session: str) -> str:
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        recorded = await database.read(lambda tx: read_stream(tx, session))
    return next(item.event.system for item in recorded if isinstance(item.event, InstructionsCompiled))


async def test_a_turn_from_an_empty_home_without_any_key():
    async with temporary_home() as home, served(home) as agent:
        session = await agent.open(home)
        assert await agent.editor.prompt(session, "Hello") == {"stopReason": "end_turn"}
        assert "without a model" in agent.editor.said().lower()
        assert home.constellation.exists()


async def test_what_is_asked_before_the_services_are_there_waits_for_them():
    async with temporary_home() as home, served(home, introduce=False) as agent:
        initialized = await agent.editor.request("initialize", {"protocolVersion": 1})
        assert initialized["protocolVersion"] == 1
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(agent.open, home)


async def test_the_end_of_input_while_idle_ends_the_agent():
    async with temporary_home() as home, served(home) as agent:
        await agent.open(home)
        agent.leave()
        with anyio.fail_after(30):
            await agent.ended.wait()


async def test_the_end_of_input_right_after_initialize_ends_the_agent():
    async with temporary_home() as home, served(home) as agent:
        agent.leave()
        with anyio.fail_after(30):
            await agent.ended.wait()


async def test_the_end_of_input_before_anything_ends_the_agent():
    async with temporary_home() as home, served(home, introduce=False) as agent:
        agent.leave()
        with anyio.fail_after(30):
            await agent.ended.wait()


async def test_the_end_of_input_in_a_turn_records_it_as_cancelled_and_gives_the_session_up():
    async with temporary_home() as home:
        home.script(WAITS)
        session = ""
        async with served(home) as agent, anyio.create_task_group() as tasks:
            session = await agent.open(home)
            running = begin_prompt(tasks, agent.editor, session, "Talk")
            await agent.editor.wait_until(lambda: agent.editor.said() == "So far.")
            agent.leave()
            with anyio.fail_after(30):
                await agent.ended.wait()
            assert await running.end() == {"stopReason": "cancelled"}
        recorded = await kinds_recorded(home.constellation, session)
        assert recorded[-5:] == ["MessageRecorded", "UsageReported", "TurnEnded", "CheckpointTaken", "HandoffLeft"]
        async with open_database(home.constellation, clock=SystemClock(), read_only=True) as database:
            assert await database.read(lambda tx: tx.all("SELECT * FROM leases")) == []


async def test_tomorrow_the_thread_is_listed_and_replays():
    async with temporary_home() as home:
        home.script(HELLO)
        async with served(home) as agent:
            session = await agent.open(home)
            await agent.editor.prompt(session, "Say hello")
        async with served(home) as agent:
            listing = await agent.editor.request("session/list", {"cwd": str(home.project)})
            assert [row["title"] for row in listing["sessions"]] == ["Say hello"]
            params: JsonDict = {"sessionId": session, "cwd": str(home.project), "mcpServers": []}
            await agent.editor.request("session/load", params)
            kinds = kinds_of(updates_of(agent.editor, session))
            assert kinds[:3] == ["user_message_chunk", "agent_message_chunk", "session_info_update"]


async def test_problems_of_settings_are_logged_and_shown_once_at_the_first_prompt(caplog: pytest.LogCaptureFixture):
    async with temporary_home() as home:
        home.configure('mode = "yolo"\nunheard_of = 1\n')
        home.script(HELLO, HELLO)
        with caplog.at_level(logging.WARNING):
            async with served(home) as agent:
                session = await agent.open(home)
                await agent.editor.prompt(session, "Hi")
                first = agent.editor.said()
                assert "yolo" in first or "mode" in first
                assert "unheard_of" in first
                assert first.endswith("Hello.")
                agent.editor.updates.clear()
                await agent.editor.prompt(session, "Hi")
                assert agent.editor.said() == "Hello."
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert sum("unheard_of" in message for message in warnings) == 1


async def test_a_project_may_choose_mode_limits_and_model_for_its_sessions_only():
    async with temporary_home() as home:
        home.script(HELLO)
        home.configure_project('mode = "plan"\nmodel = "offline/offline"\n[turn]\nmax_model_requests = 3\n')
        async with served(home) as agent:
            answer = await agent.editor.request("session/new", {"cwd": str(home.project), "mcpServers": []})
            assert answer["modes"]["currentModeId"] == "plan"
            assert option(answer["configOptions"], "model")["currentValue"] == "offline/offline"
            elsewhere = home.folder / "elsewhere"
            elsewhere.mkdir()
            answer = await agent.editor.request("session/new", {"cwd": str(elsewhere), "mcpServers": []})
            assert answer["modes"]["currentModeId"] == "ask"
            assert option(answer["configOptions"], "model")["currentValue"] == "scripted/scripted"


async def test_what_a_project_may_not_set_is_refused_and_shown():
    async with temporary_home() as home:
        home.script(HELLO)
        home.configure_project('mode = "auto"\n[providers.evil]\nbase_url = "http://127.0.0.1:1/v1"\n')
        async with served(home) as agent:
            answer = await agent.editor.request("session/new", {"cwd": str(home.project), "mcpServers": []})
            assert answer["modes"]["currentModeId"] == "ask"
            await agent.editor.prompt(answer["sessionId"], "Hi")
            said = agent.editor.said()
            assert "mode" in said
            assert "providers" in said
            assert ".pattern" in said


async def test_a_configured_model_without_a_key_is_refused_until_the_person_configures_one():
    async with temporary_home() as home, served(home, Flags(model="anthropic/claude-sonnet-4-5")) as agent:
        params: JsonDict = {"cwd": str(home.project), "mcpServers": []}
        for _ in range(2):
            error = await refused(agent.editor, "session/new", params)
            assert error.code == AUTH_REQUIRED
            assert "ANTHROPIC_API_KEY" in error.message
        assert (await agent.editor.request("session/list", {})) == {"sessions": []}


async def test_a_configured_model_that_does_not_exist_falls_back_and_says_so():
    async with temporary_home() as home, served(home, Flags(model="nowhere/model")) as agent:
        session = await agent.open(home)
        await agent.editor.prompt(session, "Hi")
        assert "nowhere" in agent.editor.said()


async def test_doctor_answers_in_the_thread():
    async with temporary_home() as home, served(home) as agent:
        session = await agent.open(home)
        await agent.editor.prompt(session, "/doctor")
        said = agent.editor.said()
        assert "Database integrity" in said
        assert str(home.constellation) in said


async def test_doctor_in_the_thread_leaves_out_settings_that_nobody_set():
    async with temporary_home() as home:
        home.configure("[turn]\nmax_wall_seconds = 77\n")
        async with served(home) as agent:
            session = await agent.open(home)
            await agent.editor.prompt(session, "/doctor")
            said = agent.editor.said()
            assert "77 from" in said
            assert "max_model_requests" not in said
            assert "have their defaults" in said


async def test_a_persona_of_the_persons_own_is_who_answers():
    async with temporary_home() as home:
        folder = home.process(Flags()).loaded.paths.config / "personas"
        folder.mkdir(parents=True)
        (folder / "poet.md").write_text("You are a poet.\n", encoding="utf-8")
        async with served(home, Flags(persona="poet")) as agent:
            session = await agent.open(home)
            await agent.editor.prompt(session, "/status")
            assert "| Persona | poet |" in agent.editor.said()
        recorded = await instructions_of(home.constellation, session)
        assert recorded.startswith("You are a poet.")
