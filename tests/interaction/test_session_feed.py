"""A session that another window has is followed live: by subscription, and by opening it."""

import anyio
import pytest

from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import FakeEditor, JsonDict
from tests.support.scripts import calls, gate, says

pytestmark = pytest.mark.first_version("what follows has the form of version 1")


def followed(editor: FakeEditor) -> list[JsonDict]:
    """The events of subscriptions, in order."""
    return [event["event"] for event in editor.session_events]


def text_of(updates: list[JsonDict]) -> str:
    """The answers' text."""
    chosen = [each for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
    return "".join(each["content"]["text"] for each in chosen)


async def test_a_subscription_has_the_conversation_so_far_then_what_is_added_and_ends_with_its_reason() -> None:
    model = ScriptedProvider([says("First."), says("Let me look.") + calls("list_directory", path="."), says("Done.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "one")
        path = agent.database.path
        async with running_agent(ScriptedProvider([]), database=path) as other:
            answer = await other.editor.request("_pattern/session/subscribe", {"sessionId": session})
            await other.editor.wait_until(lambda: bool(followed(other.editor)))
            await agent.editor.prompt(session, "two")
            await agent.editor.request("session/close", {"sessionId": session})
            await other.editor.wait_until(lambda: followed(other.editor)[-1]["type"] == "done")
            assert followed(other.editor)[-1] == {"type": "done", "reason": "closed"}
            updates = [event["update"] for event in followed(other.editor)[:-1]]
            assert text_of(updates) == "First.Let me look.Done."
            assert {event["subscriptionId"] for event in other.editor.session_events} == {answer["subscriptionId"]}
            assert [each["status"] for each in updates if "status" in each] == ["pending", "completed"]


async def test_unsubscribing_ends_with_its_reason_and_unknown_sessions_are_refused() -> None:
    async with running_agent(ScriptedProvider([says("First.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "one")
        answer = await agent.editor.request("_pattern/session/subscribe", {"sessionId": session})
        await agent.editor.wait_until(lambda: bool(followed(agent.editor)))
        await agent.editor.request("_pattern/session/unsubscribe", answer)
        await agent.editor.wait_until(lambda: followed(agent.editor)[-1] == {"type": "done", "reason": "unsubscribed"})
        with pytest.raises(RemoteError, match="no such subscription"):
            await agent.editor.request("_pattern/session/unsubscribe", answer)
        with pytest.raises(RemoteError, match="not found"):
            await agent.editor.request("_pattern/session/subscribe", {"sessionId": "nobody"})


async def test_a_window_on_a_session_of_another_one_sees_the_same_turn_and_is_asked_nothing() -> None:
    waits = gate()
    model = ScriptedProvider(
        [says("First."), (waits, *says("Look. "), *calls("run_command", command="touch x")), says("Done.")]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "one")
        async with running_agent(ScriptedProvider([]), database=agent.database.path) as other:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.editor.prompt, session, "two")
                await waits.reached.wait()
                where: JsonDict = {
                    "sessionId": session,
                    "cwd": str(agent.folder),
                    "mcpServers": [],
                    "_meta": {"pattern": {"live": True}},
                }
                await other.editor.request("session/load", where)
                waits.opened.set()
                await other.editor.wait_until(lambda: other.editor.said().endswith("Done."))
            assert other.editor.said().count("First.") == 1
            assert other.editor.said().count("Look. ") == 1
            assert [each["status"] for each in other.editor.of_kind("tool_call")] == ["pending"]
            assert [each["content"]["text"] for each in other.editor.of_kind("user_message_chunk")] == ["one", "two"]
            assert len(agent.editor.asked) == 1
            assert other.editor.asked == []
