"""Work of ACP v2 that runs beside the foreground: terminals that go on, their ends, and calls cancelled one by one."""

import base64
import sys
from typing import cast

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import BudgetSettings, Settings, TurnSettings
from pattern_acp.journal.events import OWN_TURN, ContextAdded, TurnEnded, TurnStarted
from pattern_acp.providers.scripted import ScriptedProvider
from tests.replay.test_replay_turns import replayed
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import refused
from tests.support.scripts import calls, gate, says, uses
from tests.support.second_editor import SECOND, prompt_of, send, states, until_idle
from tests.support.turns import events_of, last_result, of_type

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

WAITS = "echo ready; read -r line; echo got $line; exit 3"


async def opened(agent: RunningAgent) -> str:
    await agent.editor.initialize(SECOND)
    return await agent.editor.open_session(str(agent.folder))


def background(agent: RunningAgent) -> list[list[str]]:
    """What ran beside the foreground at each state."""
    found = agent.editor.of_kind("state_update")
    return [[cast("str", item["terminalId"]) for item in one["background"]] for one in found]


def written(agent: RunningAgent, terminal: str) -> str:
    chunks = [one for one in agent.editor.of_kind("terminal_output_chunk") if one["terminalId"] == terminal]
    shown = [one["output"]["data"] for one in agent.editor.of_kind("terminal_update") if one.get("output")]
    return "".join(base64.b64decode(data).decode() for data in [*shown, *(one["data"] for one in chunks)])


async def type_into(agent: RunningAgent, session: str, text: bytes) -> None:
    jobs = agent.sessions.get(session).jobs
    assert jobs is not None
    await jobs.write(jobs.get("job1"), text)


async def test_a_command_goes_on_behind_idle_in_its_terminal_and_its_end_wakes_the_session():
    model = ScriptedProvider(
        [calls("run_command", command=WAITS, background=True), says("It runs."), says("It failed; shall I mend it?")]
    )
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Start it.")
        await until_idle(agent.editor)
        (terminal,) = background(agent)[-1]
        announced = agent.editor.of_kind("terminal_update")[0]
        assert (announced["terminalId"], announced["command"]) == (terminal, WAITS)
        assert announced["capabilities"] == {"cancel": {}}
        assert announced["size"] == {"cols": 120, "rows": 40}
        assert agent.editor.of_kind("tool_call_update")[-1]["content"][0] == {
            "type": "terminal",
            "terminalId": terminal,
        }
        await type_into(agent, session, b"word\n")
        await until_idle(agent.editor, 2)
        assert written(agent, terminal) == "ready\ngot word\n"
        ended = agent.editor.of_kind("terminal_update")[-1]
        assert ended == {
            "sessionUpdate": "terminal_update",
            "terminalId": terminal,
            "exitStatus": {"exitCode": 3},
            "capabilities": None,
        }
        assert background(agent)[-1] == []
        assert states(agent.editor)[-3:] == ["idle", "running", "idle:end_turn"]
        assert "exited with code 3." in agent.editor.of_kind("notice")[-1]["title"]
        assert agent.editor.said() == "It runs.It failed; shall I mend it?"
        # Nobody wrote this: no message of the user is shown, and the journal says whose turn it is.
        assert len(agent.editor.of_kind("user_message")) == 1
        events = await events_of(agent, session)
        assert [event.command for event in of_type(events, TurnStarted)] == ["", OWN_TURN]
        assert [event.sources for event in of_type(events, ContextAdded)] == [("background work",)]
        assert "exited with code 3." in model.requests[-1].messages[-1].text


async def test_a_turn_of_the_agents_own_is_no_prompt_and_loads_and_replays():
    script = [calls("run_command", command=WAITS, background=True), says("It runs."), says("It ended."), says("Yes.")]
    async with running_agent(ScriptedProvider(script), settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        message = await send(agent.editor, session, "Start it.")
        await until_idle(agent.editor)
        await type_into(agent, session, b"word\n")
        await until_idle(agent.editor, 2)
        second = await send(agent.editor, session, "Did it end?")
        await until_idle(agent.editor, 3)
        report = await replayed(agent, session)
        assert report.difference is None
        points = await agent.editor.request("_pattern/checkpoint/list", {"sessionId": session})
        assert [point["text"] for point in points["points"] if point["kind"] == "turn"] == ["Start it.", "Did it end?"]
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "replayFrom": {"type": "start"}}
        await agent.editor.request("session/resume", params)
        assert [one["messageId"] for one in agent.editor.of_kind("user_message")] == [message, second]
        said = [one["content"][0]["text"] for one in agent.editor.of_kind("agent_message")]
        assert said == ["It runs.", "It ended.", "Yes."]
        assert background(agent) == [[]]


async def test_a_terminal_is_cancelled_by_itself_and_that_wakes_nobody():
    model = ScriptedProvider([calls("run_command", command="echo ready; sleep 60", background=True), says("It runs.")])
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Start it.")
        await until_idle(agent.editor)
        (terminal,) = background(agent)[-1]
        params: JsonDict = {"sessionId": session, "terminalId": terminal}
        assert await agent.editor.request("terminal/cancel", params) == {}
        await agent.editor.wait_until(lambda: background(agent)[-1] == [])
        assert "exitStatus" in agent.editor.of_kind("terminal_update")[-1]
        assert (await refused(agent.editor, "terminal/cancel", params)).code == -32602
        other: JsonDict = {"sessionId": session, "terminalId": "none"}
        assert (await refused(agent.editor, "terminal/cancel", other)).code == -32602
        assert len(model.requests) == 2


@pytest.mark.parametrize(
    "settings",
    [
        replace(AUTO, turn=TurnSettings(wakes=0)),
        replace(AUTO, budget=BudgetSettings(session="60k tokens")),
    ],
    ids=["turned off", "no budget"],
)
async def test_no_model_is_asked_behind_background_work_where_that_is_off_or_the_budget_is_used_up(settings: Settings):
    model = ScriptedProvider(
        [calls("run_command", command=WAITS, background=True), says("It runs.") + uses(58_000, 5), says("Never.")]
    )
    async with running_agent(model, settings=settings, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Start it.")
        await until_idle(agent.editor)
        await type_into(agent, session, b"word\n")
        await agent.editor.wait_until(lambda: background(agent)[-1] == [] and states(agent.editor)[-1] != "running")
        await agent.editor.request("session/list", {})
        await agent.editor.wait_until(lambda: states(agent.editor)[-1].startswith("idle"))
        assert "Never." not in agent.editor.said()
        assert agent.editor.asked == []


async def test_what_ends_in_a_turn_is_told_in_it_and_begins_none():
    waits = gate()
    model = ScriptedProvider(
        [
            calls("run_command", command="read -r line", background=True),
            (waits, *calls("read_file", path="a")),
            says("x"),
        ]
    )
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Start it.")
        await waits.reached.wait()
        await type_into(agent, session, b"\n")
        await agent.editor.wait_until(lambda: background(agent)[-1] == [])
        waits.opened.set()
        await until_idle(agent.editor)
        await agent.editor.request("session/list", {})
        assert len(of_type(await events_of(agent, session), TurnEnded)) == 1
        assert states(agent.editor)[-1] == "idle:end_turn"


async def test_a_command_of_the_foreground_is_cancelled_by_its_call_and_the_turn_goes_on():
    model = ScriptedProvider([calls("run_command", command="echo ready; sleep 60"), says("Then not.")])
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Run it.")
        await agent.editor.wait_until(lambda: bool(agent.editor.of_kind("terminal_output_chunk")))
        running = [one for one in agent.editor.of_kind("tool_call_update") if one.get("capabilities")]
        assert [one["capabilities"] for one in running] == [{"cancel": {}}]
        params: JsonDict = {"sessionId": session, "toolCallId": running[0]["toolCallId"]}
        assert await agent.editor.request("tool_call/cancel", params) == {}
        await until_idle(agent.editor)
        last = agent.editor.of_kind("tool_call_update")[-1]
        assert (last["status"], last["capabilities"]) == ("cancelled", None)
        assert "exitStatus" in agent.editor.of_kind("terminal_update")[-1]
        assert last_result(model.requests[-1]).text.startswith("The user cancelled this call")
        assert states(agent.editor) == ["running", "idle:end_turn"]
        assert (await refused(agent.editor, "tool_call/cancel", params)).code == -32602
        report = await replayed(agent, session)
        assert report.difference is None


async def test_a_prompt_that_comes_while_a_turn_of_the_agents_own_runs_joins_it():
    waits = gate()
    model = ScriptedProvider(
        [
            calls("run_command", command=WAITS, background=True),
            says("It runs."),
            (waits, *calls("read_file", path="none.txt")),
            says("As you wish."),
        ]
    )
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Start it.")
        await until_idle(agent.editor)
        await type_into(agent, session, b"word\n")
        await waits.reached.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.request, "session/prompt", prompt_of(session, "Leave it."))
            await agent.editor.request("session/list", {})
            waits.opened.set()
        await until_idle(agent.editor, 2)
        ends = of_type(await events_of(agent, session), TurnEnded)
        assert [end.handed_over for end in ends] == [False, True, False]
