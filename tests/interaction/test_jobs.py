"""Background commands of a session: between turns, in the model's notes, for the person, and after a crash."""

import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.config.settings import Settings, TurnSettings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import JobEnded, JobStarted
from pattern_acp.journal.writer import append
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.children import watched_command
from tests.support.editor import JsonDict, choose
from tests.support.editor_terminals import FakeTerminalState, hang
from tests.support.passing_time import passing
from tests.support.scripts import calls, says
from tests.support.turns import events_of, last_result, of_type

AUTO = Settings(editor_deadline_seconds=30, mode="auto")
TERMINALS: JsonDict = {"terminal": True}

posix = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")

SERVE = "echo listening; sleep 300"


FOLLOWS_OURS: JsonDict = {"_meta": {"terminal_output": True}}


async def opened(agent: RunningAgent) -> str:
    return await agent.editor.open_session(str(agent.folder))


async def shown_to_run(agent: RunningAgent) -> None:
    await agent.editor.wait_until(lambda: "begun\\n" in str(agent.editor.updates))


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


def counts(agent: RunningAgent) -> list[int]:
    """How many background commands ran, as the editor was told since the last prompt."""
    told = [update.get("_meta", {}).get("pattern", {}) for update in agent.editor.of_kind("session_info_update")]
    return [each["backgroundJobs"] for each in told if "backgroundJobs" in each]


def notes(model: ScriptedProvider) -> str:
    return model.requests[-1].volatile


@pytest.mark.first_version("the number of background commands is an update")
@posix
async def test_a_server_is_left_running_between_turns_and_stopped_by_the_person():
    model = ScriptedProvider([calls("run_command", command=SERVE, background=True), says("It runs."), says("Yes.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        assert await answer(agent, session, "/background") == "Nothing runs in the background of this session."
        await answer(agent, session, "Start the server.")
        assert last_result(model.requests[1]).text == f"job1 (`{SERVE}`) is running.\nlistening"
        assert counts(agent) == [1]
        await answer(agent, session, "Does it run?")
        assert f"<note>Background job job1 (`{SERVE}`) is running.</note>" in notes(model)
        listed = await answer(agent, session, "/background")
        assert f"| job1 | `{SERVE}` | is running |" in listed
        assert "| `listening` |" in listed
        assert "1 running, 0 ended (/background)" in await answer(agent, session, "/status")
        running = await agent.editor.prompt(session, "/background")
        assert running == {"stopReason": "end_turn", "_meta": {"pattern": {"backgroundJobs": 1}}}
        assert "was stopped." in await answer(agent, session, "/background stop job1")
        assert counts(agent) == [0]
        assert await agent.editor.prompt(session, "/background") == {"stopReason": "end_turn"}
        assert "There is nothing to stop." in await answer(agent, session, "/background stop 1")
        assert "no job 'job9'" in await answer(agent, session, "/background stop job9")
        assert "`/background stop ID` ends one" in await answer(agent, session, "/background restart")
        events = await events_of(agent, session)
        assert of_type(events, JobStarted) == [JobStarted("job1", SERVE, str(agent.folder))]
        assert of_type(events, JobEnded) == [JobEnded("job1", "stopped", None, None, "listening")]


@posix
async def test_an_end_between_turns_is_told_to_the_model_and_the_person_once():
    model = ScriptedProvider(
        [
            calls("run_command", command="read -r line; echo got $line; exit 3", background=True),
            says("It runs."),
            says("It ended."),
            says("Nothing new."),
        ]
    )
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "Start it.")
        jobs = agent.sessions.get(session).jobs
        assert jobs is not None
        job = jobs.get("job1")
        await jobs.write(job, b"word\n")
        with anyio.fail_after(30):
            while counts(agent) != [1, 0]:
                await anyio.lowlevel.checkpoint()
        assert f"> Background job job1 (`{job.line}`) exited with code 3." in await answer(agent, session, "And now?")
        # An editor of version 2 may have woken the agent, whose own request had it then.
        ended = "exited with code 3. Its last output was not read yet.</note>"
        assert [ended in request.volatile for request in model.requests].count(True) == 1
        assert "job1" not in await answer(agent, session, "And now?")
        assert "job1" not in notes(model)


@posix
async def test_jobs_end_with_the_session(tmp_path: Path):
    async with watched_command(tmp_path) as command:
        model = ScriptedProvider([calls("run_command", command=command.line, background=True), says("It runs.")])
        async with running_agent(model, permission=choose("allow_once")) as agent:
            session = await opened(agent)
            await answer(agent, session, "Start it.")
            await command.wait_until_started()
            await agent.editor.request("session/close", {"sessionId": session})
            await command.wait_until_gone()
            assert counts(agent) == [1]
            events = await events_of(agent, session)
            assert [event.outcome for event in of_type(events, JobEnded)] == ["stopped"]


async def test_a_job_runs_in_the_editor_s_terminal_where_there_is_one_and_keeps_it():
    model = ScriptedProvider([calls("run_command", command="make serve", background=True), says("It runs.")])
    states: list[FakeTerminalState] = []

    def serve(state: FakeTerminalState) -> None:
        states.append(state)
        state.output = "serving\n"
        hang(state)

    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.run = serve
        session = await opened(agent)
        await answer(agent, session, "Start it.")
        last = agent.editor.of_kind("tool_call_update")[-1]
        assert last["content"][0] == {"type": "terminal", "terminalId": "term_1"}
        assert (states[0].released, states[0].killed) == (False, False)
        assert last_result(model.requests[1]).text.endswith("\nserving")
        states[0].end("stopped\n", 1)
        jobs = agent.sessions.get(session).jobs
        assert jobs is not None
        await jobs.get("job1").done.wait()
        assert states[0].released
        assert "exited with code 1" in await answer(agent, session, "/background")


async def test_jobs_that_a_dead_process_took_with_it_are_told_to_person_and_model():
    model = ScriptedProvider([says("Hello."), says("I see."), says("Yes.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "Hello.")
        await agent.editor.request("session/close", {"sessionId": session})

        def leave_running(tx: Transaction) -> None:
            started = JobStarted("job1", "npm run dev", "/work")
            append(tx, SessionId(session), started, actor=Actor.TOOL, origin=Origin.MODEL, at_ms=1)

        await agent.database.write(leave_running)
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        said = await answer(agent, session, "Go on.")
        assert "job1 (`npm run dev`) was lost when the agent's process ended" in said
        assert "Background job job1 (`npm run dev`) was lost" in notes(model)
        await answer(agent, session, "Go on.")
        assert "job1" not in notes(model)
        assert "was lost" in await answer(agent, session, "/background")


@posix
async def test_the_time_limit_that_the_person_set_holds_where_the_model_names_none():
    turn = TurnSettings(command_timeout_seconds=1)
    model = ScriptedProvider([calls("run_command", command="echo begun; sleep 60"), says("Too slow.")])
    async with running_agent(model, settings=Settings(mode="auto", turn=turn), capabilities=FOLLOWS_OURS) as agent:
        session = await opened(agent)
        async with passing(2, partial(shown_to_run, agent)):
            await answer(agent, session, "Go.")
        assert last_result(model.requests[1]).text.startswith("The command was ended at its time limit of 1 s")


@posix
async def test_a_slow_command_goes_on_as_a_job_where_the_person_wants_that():
    turn = TurnSettings(command_timeout_seconds=1, slow_commands="background")
    model = ScriptedProvider([calls("run_command", command="echo begun; sleep 60"), says("It goes on.")])
    async with running_agent(model, settings=Settings(mode="auto", turn=turn), capabilities=FOLLOWS_OURS) as agent:
        session = await opened(agent)
        async with passing(2, partial(shown_to_run, agent)):
            await answer(agent, session, "Go.")
        assert "job1 (`echo begun; sleep 60`) is running." in last_result(model.requests[1]).text
        assert "| job1 | `echo begun; sleep 60` | is running |" in await answer(agent, session, "/background")
