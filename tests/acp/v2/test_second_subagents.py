"""Subagents as sessions of their own beside the one that they work for."""

from collections.abc import Mapping

from pattern_acp.config.settings import Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, gate, says
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
