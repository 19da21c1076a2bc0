"""`pattern-acp sessions watch`: a session of another process is followed, read-only, to its end."""

import json

import anyio
import pytest

from pattern_acp.cli.command_runner import full_id
from pattern_acp.cli.sessions import TerminalDesk, watch
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, gate, says


def desk(agent: RunningAgent, *, as_json: bool = True) -> TerminalDesk:
    return TerminalDesk(agent.database, SystemClock(), RandomIds(), 30, "", full_id=full_id, json=as_json)


def lines(capsys: pytest.CaptureFixture[str]) -> list[JsonDict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_what_a_running_session_does_is_followed_once_and_in_order_until_it_is_closed(
    capsys: pytest.CaptureFixture[str],
):
    waits = gate()
    model = ScriptedProvider([says("Let me look.") + calls("list_directory", path="."), (waits, *says("Here it is."))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Find it")
            await waits.reached.wait()
            tasks.start_soon(watch, desk(agent), session)
            waits.opened.set()
            await agent.editor.wait_until(lambda: "Here it is." in agent.editor.said())
            await agent.editor.request("session/close", {"sessionId": session})
        shown = lines(capsys)
        assert shown[-1] == {"done": "closed"}
        kinds = [one["sessionUpdate"] for one in shown[:-1]]
        of_interest = [kind for kind in kinds if kind not in {"session_info_update", "usage_update"}]
        assert of_interest[:4] == ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"]
        texts = [one["content"]["text"] for one in shown[:-1] if one["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(texts) == "Let me look.Here it is."
        assert [one["status"] for one in shown[:-1] if "status" in one] == ["pending", "completed"]


async def test_a_session_that_nobody_has_open_is_shown_and_ends_at_once(capsys: pytest.CaptureFixture[str]):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        assert await watch(desk(agent, as_json=False), session) == 0
        shown = capsys.readouterr().out
        assert "Hello." in shown
        assert shown.endswith("No process has this session open any more.\n")


async def test_a_session_that_was_deleted_is_not_there(capsys: pytest.CaptureFixture[str]):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/delete", {"sessionId": session})
        with pytest.raises(MissingSessionError):
            await watch(desk(agent), session)
        assert lines(capsys) == []
