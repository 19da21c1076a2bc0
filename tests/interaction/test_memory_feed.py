"""Memory live over ACP: `_pattern/memory/subscribe`."""

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, METHOD_NOT_FOUND
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import refused
from tests.support.scripts import calls, says


def events(agent: RunningAgent, subscription: str = "") -> list[JsonDict]:
    told = agent.editor.memory_events
    return [one["event"] for one in told if subscription in {"", one["subscriptionId"]}]


async def looking_on(agent: RunningAgent, **more: object) -> tuple[str, str]:
    """A session with its memory, and a subscription to it."""
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, "/memory")
    return session, await subscribe(agent, session, **more)


async def subscribe(agent: RunningAgent, session: str, **more: object) -> str:
    answer = await agent.editor.request("_pattern/memory/subscribe", {"sessionId": session, **more})
    return str(answer["subscriptionId"])


async def test_what_is_there_comes_first_and_then_each_write_with_its_author():
    async with running_agent(ScriptedProvider([])) as agent:
        session, _ = await looking_on(agent)
        await agent.editor.wait_until(lambda: len(events(agent)) == 3)
        assert [event["type"] for event in events(agent)] == ["block_available"] * 3
        assert [event["block"]["label"] for event in events(agent)] == ["persona", "human", "project"]

        await agent.editor.prompt(session, "/remember Likes tea.")
        await agent.editor.wait_until(lambda: len(events(agent)) == 4)
        delta = events(agent)[3]
        assert (delta["type"], delta["label"], delta["actor"], delta["text"]) == (
            "delta",
            "human",
            "human",
            "Likes tea.",
        )
        assert delta["sessionId"] == session
        assert delta["version"] == events(agent)[1]["version"] + 1
        assert delta["update"]


async def test_a_write_of_another_process_is_seen_live():
    writer = ScriptedProvider(
        [calls("memory_write", label="human", operation="append", text="Prefers tabs.", reason="told"), says("Noted.")]
    )
    async with running_agent(ScriptedProvider([])) as first:
        await looking_on(first)
        await first.editor.wait_until(lambda: len(events(first)) == 3)
        async with running_agent(writer, database=first.database.path) as second:
            session = await second.editor.open_session(str(second.folder))
            await second.editor.prompt(session, "I prefer tabs")
        await first.editor.wait_until(lambda: len(events(first)) > 3)
        delta = events(first)[3]
        assert (delta["actor"], delta["reason"], delta["text"]) == ("persona", "told", "Prefers tabs.")
        assert delta["sessionId"] == session


async def test_own_writes_are_left_out_when_asked():
    async with running_agent(ScriptedProvider([])) as agent:
        session, _ = await looking_on(agent)
        other = await agent.editor.open_session(str(agent.folder))
        quiet = await subscribe(agent, session, withoutSessions=[session])
        await agent.editor.prompt(session, "/remember Likes tea.")
        await agent.editor.prompt(other, "/remember Speaks Dutch.")
        await agent.editor.wait_until(lambda: len(events(agent, quiet)) == 4)
        delta = events(agent, quiet)[3]
        assert (delta["sessionId"], delta["text"]) == (other, "Likes tea.\nSpeaks Dutch.")


async def test_a_subscriber_that_comes_back_gets_only_what_it_missed():
    async with running_agent(ScriptedProvider([])) as agent:
        session, first = await looking_on(agent)
        await agent.editor.wait_until(lambda: len(events(agent)) == 3)
        since = {event["block"]["blockId"]: event["version"] for event in events(agent)}
        await agent.editor.request("_pattern/memory/unsubscribe", {"subscriptionId": first})
        await agent.editor.prompt(session, "/remember Likes tea.")
        again = await subscribe(agent, session, since=since)
        await agent.editor.wait_until(lambda: len(events(agent, again)) == 1)
        assert events(agent, again)[0]["type"] == "delta"


async def test_what_a_block_is_and_that_it_is_gone_are_told():
    async with running_agent(ScriptedProvider([])) as agent:
        _, subscription = await looking_on(agent)
        await agent.editor.wait_until(lambda: len(events(agent)) == 3)

        def rename(tx: Transaction) -> None:
            tx.execute("UPDATE blocks SET description = 'Everything.' WHERE label = 'human'")
            tx.execute("UPDATE blocks SET deleted = 1 WHERE label = 'project'")

        await agent.database.write(rename)
        await agent.editor.wait_until(lambda: len(events(agent)) == 5)
        changed, gone = events(agent, subscription)[3:]
        assert (changed["type"], changed["block"]["description"]) == ("metadata_changed", "Everything.")
        assert (gone["type"], gone["label"]) == ("block_gone", "project")


@pytest.mark.parametrize("how", ["unsubscribed", "session_closed"])
async def test_an_end_is_told(how: str):
    async with running_agent(ScriptedProvider([])) as agent:
        session, subscription = await looking_on(agent)
        if how == "unsubscribed":
            await agent.editor.request("_pattern/memory/unsubscribe", {"subscriptionId": subscription})
        else:
            await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.wait_until(lambda: {"type": "done", "reason": how} in events(agent))
        error = await refused(agent.editor, "_pattern/memory/unsubscribe", {"subscriptionId": subscription})
        assert error.code == INVALID_PARAMS


async def test_a_plugin_has_no_way_to_write():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for name in ("write", "commit", "delta", "create", "edit"):
            params: JsonDict = {"sessionId": session, "label": "human", "text": "The person said so."}
            assert (await refused(agent.editor, f"_pattern/memory/{name}", params)).code == METHOD_NOT_FOUND


async def test_only_the_memory_of_the_sessions_own_project_is_seen():
    async with running_agent(ScriptedProvider([])) as agent:
        here, there = agent.folder / "here", agent.folder / "there"
        here.mkdir()
        there.mkdir()
        other = await agent.editor.open_session(str(there))
        await agent.editor.prompt(other, "/remember project: A secret of there.")
        session = await agent.editor.open_session(str(here))
        await agent.editor.prompt(session, "/memory")
        await subscribe(agent, session)
        await agent.editor.wait_until(lambda: len(events(agent)) == 3)
        assert "A secret of there." not in str(events(agent))
