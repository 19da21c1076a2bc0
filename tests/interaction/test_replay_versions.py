"""Version 1's session/load and version 2's session/resume show the same conversation."""

import base64
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pattern_acp.providers.scripted import ScriptedProvider
from tests.interaction.test_replay_property import joined, numbered, prompts
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.requests import updates_of
from tests.support.scripts import Turn, uses
from tests.support.second_editor import SECOND

WHO = {"user_message": "user", "agent_message": "agent", "agent_thought": "thought"}


def messages(updates: list[JsonDict]) -> dict[tuple[str, str], str]:
    """Each message of a replay with its text, in either version, in the order of their beginnings."""
    said: dict[tuple[str, str], str] = {}
    for update in updates:
        who = WHO.get(update["sessionUpdate"].removesuffix("_chunk"))
        if who is not None:
            content = update["content"]
            blocks = cast("list[JsonDict]", content if isinstance(content, list) else [content])
            message = (who, cast("str", update["messageId"]))
            said[message] = said.get(message, "") + "".join(block["text"] for block in blocks)
    return said


def tool_calls_of(updates: list[JsonDict]) -> dict[str, JsonDict]:
    """Each call of a replay as it is at its end, in either version; its terminals and the contents of diffs apart."""
    found: dict[str, JsonDict] = {}
    for update in updates:
        if update["sessionUpdate"] in {"tool_call", "tool_call_update"}:
            found.setdefault(update["toolCallId"], {}).update({k: v for k, v in update.items() if v is not None})
    for call in found.values():
        call.pop("sessionUpdate")
        content = call.pop("content", [])
        call["texts"] = [one["content"]["text"] for one in content if one["type"] == "content"]
        diffs = [one for one in content if one["type"] == "diff"]
        call["changed"] = [path for one in diffs for path in ([one["path"]] if "path" in one else paths_in(one))]
        if call["status"] == "cancelled":
            call["status"] = "failed"
        call.setdefault("locations", [])
    return found


def paths_in(diff: JsonDict) -> list[str]:
    return [change["path"] for change in diff["changes"]]


@pytest.mark.slow
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(prompts)
async def test_a_load_of_version_1_and_a_resume_of_version_2_show_the_same_conversation(
    conversation: list[tuple[str, list[tuple[list[Turn], list[Turn]]], tuple[list[Turn], bool]]],
):
    script: list[Turn] = []
    for _, work, (said, counted) in conversation:
        script += [joined(before) + numbered(asked) for before, asked in work]
        script.append(joined(said) + (uses(100, 10) if counted else ()))
    async with running_agent(ScriptedProvider(script)) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        for text, _, _ in conversation:
            await agent.editor.prompt(session, text)
        await agent.editor.request("session/close", {"sessionId": session})
        opening: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        agent.editor.updates.clear()
        await agent.editor.request("session/load", opening)
        first = updates_of(agent.editor, session)
        await agent.editor.request("session/close", {"sessionId": session})

        async with running_agent(ScriptedProvider([]), database=agent.database.path, introduce=False) as other:
            await other.editor.initialize(SECOND)
            await other.editor.request("session/resume", {**opening, "replayFrom": {"type": "start"}})
            second = updates_of(other.editor, session)

    assert list(messages(second).items()) == list(messages(first).items())
    before, after = tool_calls_of(first), tool_calls_of(second)
    assert list(after) == list(before)
    for call_id, call in before.items():
        if call["kind"] == "execute":
            # Version 1 has no terminals of an agent: what they showed is text there, without the files that changed.
            there = cast("list[str]", call.pop("texts"))
            assert set(cast("list[str]", after[call_id].pop("texts"))) <= set(there)
            assert all(output.strip() in "\n".join(there) for output in outputs_of(second, call_id))
            for each in (call, after[call_id]):
                each.pop("changed")
                each.pop("rawOutput", None)
        assert after[call_id] == call
    for kind in ("usage_update", "session_info_update"):
        assert [one for one in second if one["sessionUpdate"] == kind] == [
            one for one in first if one["sessionUpdate"] == kind
        ]
    plans = [one["plan"]["entries"] for one in second if one["sessionUpdate"] == "plan_update"]
    assert plans == [one["entries"] for one in first if one["sessionUpdate"] == "plan"]


def outputs_of(updates: list[JsonDict], call_id: str) -> list[str]:
    """The outputs of a call's terminal."""
    terminals = [one for one in updates if one["sessionUpdate"] == "terminal_update" and one["terminalId"] == call_id]
    return [base64.b64decode(one["output"]["data"]).decode() for one in terminals]
