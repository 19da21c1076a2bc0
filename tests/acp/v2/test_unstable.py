"""The unstable part of ACP v2 that is offered: forks, archives, states, titles, and tokens at the end of a turn."""

from typing import cast

import pytest

from pattern_acp.domain.usage import Usage
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.scripts import says
from tests.support.second_editor import SECOND, kinds, send, states, until_idle


async def talked(agent: RunningAgent, *prompts: str) -> str:
    """Begin a session with these prompts; its id."""
    await agent.editor.initialize(SECOND)
    session = await agent.editor.open_session(str(agent.folder))
    for count, prompt in enumerate(prompts, 1):
        await send(agent.editor, session, prompt)
        await until_idle(agent.editor, count)
    return session


async def listed(agent: RunningAgent, **filters: object) -> list[tuple[str, bool]]:
    answer = await agent.editor.request("session/list", dict(filters))
    return [(one["sessionId"], one["archived"]) for one in cast("list[JsonDict]", answer["sessions"])]


async def code_of(agent: RunningAgent, method: str, **params: object) -> int:
    with pytest.raises(RemoteError) as raised:
        await agent.editor.request(method, dict(params))
    return raised.value.code


async def test_each_part_that_is_not_stable_is_offered_by_its_capability():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        offered = (await agent.editor.initialize(SECOND))["capabilities"]
        session = cast("JsonDict", offered)["session"]
        assert {"fork", "archive", "status", "title"} <= session.keys()


async def test_a_fork_has_its_options_and_commands_in_the_answer_and_nothing_is_replayed():
    model = ScriptedProvider([says("One."), says("Mine.")])
    async with running_agent(model, introduce=False) as agent:
        session = await talked(agent, "First")
        seen = len(agent.editor.updates)
        answer = await agent.editor.request("session/fork", {"sessionId": session, "cwd": str(agent.folder)})
        fork = answer["sessionId"]
        assert answer["configOptions"]
        assert answer["availableCommands"]
        assert len(agent.editor.updates) == seen
        await send(agent.editor, fork, "And in the fork?")
        await until_idle(agent.editor, 2)
        assert [message.text for message in conversation(model.requests[-1])] == ["First", "One.", "And in the fork?"]


async def test_an_archived_session_is_closed_and_listed_only_where_the_filter_asks_for_it():
    async with running_agent(ScriptedProvider([says("One.")]), introduce=False) as agent:
        session = await talked(agent, "First")
        for _ in range(2):
            assert await agent.editor.request("session/archive", {"sessionId": session}) == {}
        assert await code_of(agent, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Hi"}]) == (
            -32002
        )
        assert await listed(agent) == await listed(agent, archived="exclude") == []
        assert await listed(agent, archived="only") == await listed(agent, archived="include") == [(session, True)]
        assert await code_of(agent, "session/list", archived="_odd") == -32602
        assert await agent.editor.request("session/unarchive", {"sessionId": session}) == {}
        assert await listed(agent) == [(session, False)]


async def test_the_status_of_a_session_opens_and_changes_nothing():
    async with running_agent(ScriptedProvider([says("One.")]), introduce=False) as agent:
        session = await talked(agent, "First")
        seen = len(agent.editor.updates)
        status = await agent.editor.request("session/status", {"sessionId": session})
        assert status == {"status": "open", "state": {"state": "idle", "background": []}}
        await agent.editor.request("session/close", {"sessionId": session})
        assert (await agent.editor.request("session/status", {"sessionId": session}))["status"] == "saved"
        assert agent.sessions.find(session) is None
        assert len(agent.editor.updates) == seen


async def test_a_title_is_stored_and_shown_and_stays_when_the_session_goes_on():
    async with running_agent(ScriptedProvider([says("One."), says("Two.")]), introduce=False) as agent:
        session = await talked(agent)
        answer = await agent.editor.request("session/set_title", {"sessionId": session, "title": "  About\nnothing "})
        assert answer == {"title": "About nothing"}
        assert agent.editor.of_kind("session_info_update")[-1]["title"] == "About nothing"
        assert await code_of(agent, "session/set_title", sessionId=session, title=" \n ") == -32602
        await send(agent.editor, session, "First")
        await until_idle(agent.editor)
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/set_title", {"sessionId": session, "title": "Another"})
        (row,) = cast("list[JsonDict]", (await agent.editor.request("session/list", {}))["sessions"])
        assert row["title"] == "Another"


@pytest.mark.parametrize("method", ["archive", "unarchive", "status", "set_title", "fork"])
async def test_a_session_that_is_not_there_is_named_by_each_of_them(method: str):
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        params: JsonDict = {"sessionId": "nowhere", "cwd": str(agent.folder), "title": "x"}
        with pytest.raises(RemoteError) as raised:
            await agent.editor.request(f"session/{method}", params)
        assert raised.value.code == -32002
        assert cast("JsonDict", raised.value.data)["sessionId"] == "nowhere"


async def test_the_end_of_a_turn_has_the_tokens_of_its_requests_and_a_snapshot_has_none():
    used = Usage(input_tokens=100, output_tokens=30, cache_read_tokens=50, thinking_tokens=10)
    script = [(*says("One."), UsageKnown(used)), says("Two.")]
    async with running_agent(ScriptedProvider(script), introduce=False) as agent:
        session = await talked(agent, "First")
        assert agent.editor.of_kind("state_update")[-1]["usage"] == {
            "totalTokens": 180,
            "inputTokens": 100,
            "outputTokens": 20,
            "thoughtTokens": 10,
            "cachedReadTokens": 50,
        }
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder)}
        await agent.editor.request("session/resume", params)
        assert kinds(agent.editor) == ["state_update"]
        assert states(agent.editor) == ["idle"]
        assert "usage" not in agent.editor.of_kind("state_update")[0]


@pytest.mark.parametrize("cursor", [{"type": "_checkpoint", "id": "x"}, {"type": "end"}, {}, "start"])
async def test_a_replay_from_a_place_that_is_unknown_is_refused_and_opens_nothing(cursor: object):
    async with running_agent(ScriptedProvider([says("One.")]), introduce=False) as agent:
        session = await talked(agent, "First")
        await agent.editor.request("session/close", {"sessionId": session})
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "replayFrom": cursor}
        assert await code_of(agent, "session/resume", **params) == -32602
        assert agent.sessions.find(session) is None
