"""Subagents of the real process: over pipes, across a kill, and across a reload."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.clock import ToolCallId
from pattern_acp.journal.events import SubagentRecorded, ToolCallFinished, ToolCallStarted, TurnEnded
from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict
from tests.support.process import AgentProcess, Launch, read_events, running_process
from tests.support.turns import of_type, statuses, thread_of_call

pytestmark = pytest.mark.e2e

Turns = Sequence[Sequence[Mapping[str, object]]]


def script(folder: Path, turns: Turns, subagents: Mapping[str, Turns]) -> dict[str, str]:
    file = folder / "script.json"
    file.write_text(json.dumps({"turns": turns, "subagents": subagents}), encoding="utf-8")
    return {"PATTERN_ACP_SCRIPT": str(file), "PATTERN_ACP_MODEL": "scripted/scripted"}


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


def delegate(kind: str, name: str) -> dict[str, object]:
    return call("delegate", kind=kind, name=name, task="Do it.")


async def prompt_until_killed(agent: AgentProcess, session: str) -> None:
    with suppress(ConnectionClosedError, RemoteError):
        await agent.editor.prompt(session, "Go.")


async def test_an_explorer_and_a_worker_run_side_by_side_through_the_real_tools(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("plum\n", encoding="utf-8")
    played = script(
        tmp_path,
        [[delegate("explorer", "finder"), delegate("worker", "maker")], [{"text": "Both are done."}]],
        {
            "finder": [[call("read_file", path="a.txt")], [{"text": "a.txt:1 says plum."}]],
            "maker": [
                [call("write_file", path="new.py", content="x = 1\n"), call("run_command", command="echo one > made")],
                [{"text": "Made new.py."}],
            ],
        },
    )
    async with running_process(Launch(home, ("--mode", "auto"), played)) as agent:
        session = await agent.editor.open_session(str(work))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert {call_id: seen[-1] for call_id, seen in statuses(agent.editor).items()} == {
            "call_1": "completed",
            "call_2": "completed",
        }
        assert (work / "new.py").read_text(encoding="utf-8") == "x = 1\n"
        assert (work / "made").exists()
        events = await read_events(agent.constellation, session)
        results = {each.call_id: each.result_text for each in of_type(events, ToolCallFinished)}
        assert results[ToolCallId("call_1")] == "a.txt:1 says plum."
        assert results[ToolCallId("call_2")] == "Made new.py.\n\nFiles changed: new.py.\nChanged by its commands: made."


async def test_a_kill_while_a_subagent_works_leaves_its_call_failed_once(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    turns: Turns = [[delegate("worker", "maker")], [{"text": "Going on."}]]
    making: Turns = [[call("write_file", path="new.py", content="x = 1\n")], [{"wait_for": "cancel"}]]
    launch = Launch(home, ("--mode", "auto"), script(tmp_path, turns, {"maker": making}))
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(work))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt_until_killed, agent, session)
            await agent.editor.wait_until(lambda: "thinking (1 call" in str(agent.editor.updates))
            agent.kill()
            await agent.wait()
    again = Launch(home, ("--mode", "auto"), script(tmp_path, [[{"text": "Going on."}]], {}))
    async with running_process(again) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        await agent.editor.request("session/load", params)
        assert [each["toolCallId"] for each in agent.editor.of_kind("tool_call")] == ["call_1"]
        assert statuses(agent.editor)["call_1"][-1] == "failed"
        with anyio.fail_after(30):
            assert await agent.editor.prompt(session, "Go on.") == {"stopReason": "end_turn"}
        events = await read_events(agent.constellation, session)
        (ended,) = of_type(events, ToolCallFinished)
        assert (ended.call_id, ended.status, ended.interrupted) == ("call_1", "failed", True)
        thread = thread_of_call(events, "call_1")
        assert [each.call.name for each in of_type(thread, ToolCallStarted)] == ["write_file"]
        assert of_type(thread, TurnEnded) == []
        assert len(of_type(events, TurnEnded)) == 2
        assert all(each.name == "maker" for each in of_type(events, SubagentRecorded))
