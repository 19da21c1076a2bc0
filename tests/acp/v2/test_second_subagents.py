"""Subagents as sessions of their own beside the one that they work for."""

from collections.abc import Mapping
from typing import cast

import pytest

from pattern_acp.config.settings import DelegateSettings, Settings
from pattern_acp.providers.scripted import ScriptedProvider, ScriptGate
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import Turn, calls, gate, says
from tests.support.second_editor import SECOND, send, states, subagents, until_idle


async def opened(agent: RunningAgent) -> str:
    await agent.editor.initialize(SECOND)
    return await agent.editor.open_session(str(agent.folder))


def updates_of(agent: RunningAgent, session: str) -> list[JsonDict]:
    return [one["update"] for one in agent.editor.updates if one["sessionId"] == session]


def without(update: Mapping[str, object], *names: str) -> JsonDict:
    return {name: value for name, value in update.items() if name not in names}


def finding() -> ScriptedProvider:
    return ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look."), says("Done.")],
        subagents={"finder": [calls("list_files", path="."), says("Found.")]},
    )


async def test_a_subagent_is_announced_and_its_work_is_shown_in_a_session_of_its_own():
    async with running_agent(finding(), introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await until_idle(agent.editor)
        assert states(agent.editor) == ["running", "idle:end_turn"]

        (child,) = subagents(agent.editor)
        announced, over = agent.editor.of_kind("subagent_update")
        assert without(announced, "sessionUpdate", "sessionId") == {
            "title": "finder",
            "capabilities": {"cancel": {}},
            "state": {"state": "running", "background": []},
        }
        assert over["capabilities"] is None
        assert over["state"] == {"state": "idle", "stopReason": "end_turn", "background": []}

        shown = updates_of(agent, child)
        assert [one["sessionUpdate"] for one in shown] == [
            "session_message",
            "state_update",
            "tool_call_update",
            "tool_call_update",
            "agent_message",
            "state_update",
        ]
        task = shown[0]
        assert (task["senderSessionId"], task["recipientSessionId"]) == (session, child)
        assert task["content"] == [{"type": "text", "text": "Look."}]
        assert [one["status"] for one in shown[2:4]] == ["pending", "completed"]
        assert shown[4]["content"] == [{"type": "text", "text": "Found."}]
        kinds = [(one["sessionId"], one["update"]["sessionUpdate"]) for one in agent.editor.updates]
        assert kinds.index((session, "subagent_update")) < kinds.index((child, "session_message"))


async def test_a_resume_with_its_replay_shows_the_same_subagent_at_rest():
    async with running_agent(finding(), introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await until_idle(agent.editor)
        (child,) = subagents(agent.editor)
        live = [one for one in updates_of(agent, child) if one["sessionUpdate"] != "state_update"]
        await agent.editor.request("session/close", {"sessionId": session})

        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "replayFrom": {"type": "start"}}
        await agent.editor.request("session/resume", params)
        assert updates_of(agent, child) == live
        announced, over = agent.editor.of_kind("subagent_update")
        assert announced["title"] == "finder"
        assert "capabilities" not in announced
        assert over["state"] == {"state": "idle", "background": []}


async def test_a_cancel_of_its_session_ends_a_subagent_alone_and_its_turn_goes_on():
    waits = gate()
    model = ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look."), says("Done.")],
        subagents={"finder": [(waits, *says("Found."))]},
    )
    async with running_agent(model, introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await waits.reached.wait()
        await agent.editor.cancel(subagents(agent.editor)[0])
        await until_idle(agent.editor)
        assert states(agent.editor) == ["running", "idle:end_turn"]
        assert agent.editor.said() == "Done."
        assert agent.editor.of_kind("subagent_update")[-1]["state"]["stopReason"] == "cancelled"


def beside(agent: RunningAgent, session: str) -> list[list[str]]:
    """What ran beside the foreground at each state of the session."""
    found = [one for one in updates_of(agent, session) if one["sessionUpdate"] == "state_update"]
    return [[str(item["sessionId"]) for item in cast("list[JsonDict]", one["background"])] for one in found]


def in_background(waits: ScriptGate, *more: Turn) -> ScriptedProvider:
    return ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look.", background=True), says("It looks."), *more],
        subagents={"finder": [(waits, *says("Found."))]},
    )


async def test_a_subagent_in_the_background_is_listed_until_its_end_which_wakes_the_session():
    waits = gate()
    model = in_background(waits, says("It found something."))
    async with running_agent(model, introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await waits.reached.wait()
        await until_idle(agent.editor)
        (child,) = subagents(agent.editor)
        assert beside(agent, session)[-1] == [child]
        assert agent.editor.of_kind("subagent_update")[-1]["state"]["state"] == "running"
        kinds = [(one["sessionId"], one["update"]) for one in agent.editor.updates]
        announced = next(at for at, (_, one) in enumerate(kinds) if one["sessionUpdate"] == "subagent_update")
        listed = next(at for at, (_, one) in enumerate(kinds) if one.get("background") and child in str(one))
        assert announced < listed
        waits.opened.set()
        await until_idle(agent.editor, 2)
        assert beside(agent, session)[-1] == []
        assert agent.editor.of_kind("subagent_update")[-1]["state"]["stopReason"] == "end_turn"
        assert agent.editor.said() == "It looks.It found something."
        told = str(model.requests[-1].messages)
        assert "finder has finished in the background." in told
        assert "Found." in told


@pytest.mark.parametrize("how", ["session/cancel", "tool_call/cancel"])
async def test_a_subagent_in_the_background_is_cancelled_by_itself_and_that_wakes_nobody(how: str):
    waits = gate()
    model = in_background(waits)
    async with running_agent(model, introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await waits.reached.wait()
        await until_idle(agent.editor)
        (child,) = subagents(agent.editor)
        if how == "session/cancel":
            await agent.editor.cancel(child)
        else:
            call = agent.editor.of_kind("tool_call_update")[0]["toolCallId"]
            await agent.editor.request(how, {"sessionId": session, "toolCallId": call})
        await agent.editor.wait_until(lambda: beside(agent, session)[-1] == [])
        over = agent.editor.of_kind("subagent_update")[-1]
        assert (over["state"]["stopReason"], over["capabilities"]) == ("cancelled", None)
        assert states(agent.editor)[-1] == "idle"
        assert agent.editor.said() == "It looks."


async def test_a_subagent_that_goes_on_behind_its_report_is_listed_again():
    waits = gate()
    means = Settings(mode="edit", delegate=DelegateSettings(worker_changes="whole"))
    model = ScriptedProvider(
        [calls("delegate", kind="worker", name="maker", task="Make.", background=True), *[says("Well.")] * 3],
        subagents={
            "maker": [calls("write_file", path="a.txt", content="a\n"), says("Made."), (waits, *says("Once more."))]
        },
    )
    async with running_agent(model, introduce=False, settings=means) as agent:
        await agent.editor.initialize({**SECOND, "capabilities": {"elicitation": {"form": {}}}})
        session = await agent.editor.open_session(str(agent.folder))
        words: JsonDict = {"answer": "Ask for changes", "own_words": "Once more."}
        agent.editor.form = {"action": "accept", "content": words}
        await send(agent.editor, session, "Go on")
        await waits.reached.wait()
        (child,) = subagents(agent.editor)
        await agent.editor.wait_until(lambda: beside(agent, session)[-1] == [child])
        agent.editor.form = {"action": "accept", "content": {"answer": "Accept", "own_words": ""}}
        waits.opened.set()
        await agent.editor.wait_until(lambda: (agent.folder / "a.txt").exists() and beside(agent, session)[-1] == [])


async def test_a_plan_without_entries_is_removed():
    step: JsonDict = {"content": "Look", "status": "pending"}
    model = ScriptedProvider([calls("update_plan", entries=[step]), calls("update_plan", entries=[]), says("Done.")])
    async with running_agent(model, introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Plan")
        await until_idle(agent.editor)
        (plan,) = agent.editor.of_kind("plan_update")
        (removed,) = agent.editor.of_kind("plan_removed")
        assert removed["planId"] == plan["plan"]["planId"]
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "replayFrom": {"type": "start"}}
        await agent.editor.request("session/resume", params)
        assert agent.editor.of_kind("plan_update") == []
