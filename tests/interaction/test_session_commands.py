"""Renaming, forking, putting away, searching and bringing back sessions, as an editor sees it."""

from pathlib import Path

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.sessions import get_session
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.requests import refused, updates_of
from tests.support.scripts import calls, says


async def talked(agent: RunningAgent, *prompts: str) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    for prompt in prompts:
        await agent.editor.prompt(session, prompt)
    return session


def texts(agent: RunningAgent, session: str, kind: str = "agent_message_chunk") -> str:
    chunks = [u for u in updates_of(agent.editor, session) if u["sessionUpdate"] == kind]
    return "".join(str(chunk["content"]["text"]) for chunk in chunks)


async def listed(agent: RunningAgent, **pattern: bool) -> list[str]:
    params: JsonDict = {"_meta": {"pattern": pattern}} if pattern else {}
    return [row["sessionId"] for row in (await agent.editor.request("session/list", params))["sessions"]]


def opening(agent: RunningAgent, session: str, **more: object) -> JsonDict:
    return {"sessionId": session, "cwd": str(agent.folder), "mcpServers": [], **more}


async def test_a_new_title_reaches_the_editor_and_stays():
    async with running_agent(ScriptedProvider([says("Hello."), says("Again.")])) as agent:
        session = await talked(agent, "Hi", "/rename  The long\tway ", "More")
        titles = [u["title"] for u in updates_of(agent.editor, session) if u["sessionUpdate"] == "session_info_update"]
        assert titles == ["Hi", "The long way"]
        (row,) = (await agent.editor.request("session/list", {}))["sessions"]
        assert row["title"] == "The long way"


async def test_a_list_tells_status_preview_and_messages():
    async with running_agent(ScriptedProvider([says("The   answer\nis 42.")])) as agent:
        session = await talked(agent, "Tell me")
        (row,) = (await agent.editor.request("session/list", {}))["sessions"]
        assert row["_meta"]["pattern"] == {
            "status": "open",
            "preview": "The answer is 42.",
            "messages": 2,
            "archived": False,
            "persona": "default",
        }
        await agent.editor.request("session/close", {"sessionId": session})
        (row,) = (await agent.editor.request("session/list", {}))["sessions"]
        assert row["_meta"]["pattern"]["status"] == "idle"


async def test_what_is_put_away_is_a_list_of_its_own_until_its_next_prompt():
    async with running_agent(ScriptedProvider([says("One."), says("Two.")])) as agent:
        session = await talked(agent, "Hi", "/archive")
        assert await listed(agent) == []
        assert await listed(agent, archived=True) == [session]
        await agent.editor.prompt(session, "Back")
        assert await listed(agent) == [session]


async def test_a_fork_begins_behind_any_turn_and_shares_what_was_said_before():
    model = ScriptedProvider([says("One."), says("Two."), says("Mine."), says("Theirs.")])
    async with running_agent(model) as agent:
        session = await talked(agent, "First", "Second")
        answer = await agent.editor.request("session/fork", opening(agent, session, turn=1))
        fork = answer["sessionId"]
        assert answer["modes"]["currentModeId"] == "ask"
        assert texts(agent, fork) == ""
        await agent.editor.prompt(fork, "And in the fork?")
        assert [message.text for message in conversation(model.requests[-1])] == ["First", "One.", "And in the fork?"]
        await agent.editor.prompt(session, "And here?")
        assert "Second" in str(model.requests[-1].messages)
        assert "in the fork" not in str(model.requests[-1].messages)

        again = await agent.editor.request("_pattern/session/fork", opening(agent, fork))
        await agent.editor.request("session/delete", {"sessionId": session})
        await agent.editor.request("session/close", {"sessionId": again["sessionId"]})
        agent.editor.updates.clear()
        await agent.editor.request("session/load", opening(agent, again["sessionId"]))
        assert texts(agent, again["sessionId"]) == "One.Mine."
        assert texts(agent, again["sessionId"], "user_message_chunk") == "FirstAnd in the fork?"
        for stream in (session, fork, again["sessionId"]):
            assert (await agent.database.read(lambda tx, stream=stream: verify_stream(tx, stream))).ok


async def test_a_fork_of_a_parent_that_was_changed_does_not_verify():
    async with running_agent(ScriptedProvider([says("One.")])) as agent:
        session = await talked(agent, "First")
        fork = (await agent.editor.request("session/fork", opening(agent, session)))["sessionId"]

        def change(tx: Transaction) -> None:
            tx.execute("DROP TRIGGER events_are_not_updated")
            row = get_session(tx, SessionId(fork))
            assert row is not None
            tx.execute("UPDATE events SET hash = 'x' WHERE seq = :seq", {"seq": row.fork_seq})

        await agent.database.write(change)
        report = await agent.database.read(lambda tx: verify_stream(tx, fork))
        assert "shares" in report.problem


async def test_a_fork_behind_no_turn_is_refused():
    async with running_agent(ScriptedProvider([says("One.")])) as agent:
        session = await talked(agent, "First")
        for turn in (0, 2, "turn_none", "9" * 6000):
            error = await refused(agent.editor, "session/fork", opening(agent, session, turn=turn))
            assert error.code == INVALID_PARAMS
            assert "There is no turn" in error.message
        error = await refused(agent.editor, "session/fork", opening(agent, "ses_none"))
        assert error.code == RESOURCE_NOT_FOUND


async def test_a_session_is_opened_to_read_or_to_take_over():
    async with running_agent(ScriptedProvider([says("One."), says("Two.")])) as first:
        session = await talked(first, "First")
        model = ScriptedProvider([says("Here.")])
        async with running_agent(model, database=first.database.path) as second:
            for mode, changes_hands in (("read", False), ("take_over", True)):
                answer = await second.editor.request("_pattern/session/open", opening(first, session, mode=mode))
                assert answer["sessionId"] == session
                assert "One." in texts(second, answer["sessionId"])
                holders = await first.database.read(
                    lambda tx: tx.all("SELECT holder FROM leases WHERE session_id = :id", {"id": session})
                )
                assert (holders != [(first.sessions.constellation.holder.holder,)]) == changes_hands
            error = await refused(second.editor, "_pattern/session/open", opening(first, session, mode="steal"))
            assert error.code == INVALID_PARAMS
            await second.editor.prompt(session, "Go on")
            assert second.editor.asked == []


async def test_what_was_said_is_found_also_in_a_fork_whose_parent_is_gone_and_after_it_is_back():
    model = ScriptedProvider([says("The zebra is striped.")])
    async with running_agent(model) as agent:
        session = await talked(agent, "Tell me of animals")
        fork = (await agent.editor.request("session/fork", opening(agent, session)))["sessionId"]
        asking = await agent.editor.open_session(str(agent.folder))

        async def found() -> str:
            agent.editor.updates.clear()
            await agent.editor.prompt(asking, "/search zebra")
            return texts(agent, asking)

        assert f"](pattern-acp://session/{session}?turn=1)" in await found()
        await agent.editor.request("session/delete", {"sessionId": session})
        assert f"session/{fork}?turn=1" in await found()
        agent.editor.updates.clear()
        await agent.editor.prompt(asking, "/undelete")
        assert session in texts(agent, asking)
        await agent.editor.prompt(asking, f"/undelete {session}")
        assert f"session/{session}?turn=1" in await found()
        assert session in await listed(agent)
        await agent.editor.prompt(asking, "/fork")
        assert "begins with" in texts(agent, asking)


async def test_a_turn_has_one_number_for_rewind_fork_and_search_also_in_a_fork_of_it():
    answers = [says(f"Answer {word}.") for word in ("anise", "basil", "cumin", "dill", "elder")]
    async with running_agent(ScriptedProvider(answers)) as agent:
        session = await talked(agent, "First", "/status", "/remember me: " + "long " * 2000, "Second")

        async def said(opened: str, text: str) -> str:
            agent.editor.updates.clear()
            await agent.editor.prompt(opened, text)
            return texts(agent, opened)

        assert "?turn=2)" in await said(session, "/search basil")
        assert "| `/rewind 2` | before “Second” |" in await said(session, "/rewind")
        assert "There is no turn 3; the session has 2." in await said(session, "/fork 3")
        assert "begins with 1 turn of" in await said(session, "/fork 1")
        await said(session, "/rewind 2 yes")
        await said(session, "Third")
        assert "| `/rewind 3` | before “Third” |" in await said(session, "/rewind")
        assert "begins with 2 turns of" in await said(session, "/fork 2")
        answer = await agent.editor.request("session/fork", opening(agent, session, turn=3))
        fork = str(answer["sessionId"])
        assert "Back to before turn 2 (“Third”)" in await said(fork, "/rewind last conversation yes")
        await said(fork, "Fourth")
        assert "| `/rewind 3` | before “Fourth” |" in await said(fork, "/rewind")
        assert "The conversation continues in another session" in await said(fork, "/rewind 2 conversation yes")
        assert "?turn=3)" in await said(fork, "/search dill")
        assert "begins with 3 turns of" in await said(fork, "/fork 3")
        assert "**Back to before turn 3 (“Fourth”).**" in await said(fork, "/rewind last yes")


async def test_the_model_finds_in_which_session_and_turn_of_the_project_something_was_said(tmp_path: Path):
    asked = calls("session_search", query="zebra")
    model = ScriptedProvider([says("Hello."), says("The zebra is striped."), says("A zebra elsewhere."), asked])
    async with running_agent(model) as agent:
        session = await talked(agent, "Hi", "/rename Of\tanimals", "Which is striped?")
        elsewhere = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(elsewhere, "Which one?")
        asking = await talked(agent, "Where did we speak of the zebra?")
        uri = f"pattern-acp://session/{session}?turn=2"
        told = str(model.requests[-1].messages)
        assert "[Of animals, turn 2, " in told
        assert uri in told
        assert "A zebra elsewhere." not in told
        agent.editor.updates.clear()
        await agent.editor.request("session/close", {"sessionId": asking})
        await agent.editor.request("session/load", opening(agent, asking))
        contents = [
            item["content"]
            for update in updates_of(agent.editor, asking)
            for item in update.get("content") or ()
            if update["sessionUpdate"].startswith("tool_call")
        ]
        links = {(c["uri"], c["name"], c["description"][12:]) for c in contents if c["type"] == "resource_link"}
        assert (uri, "Of animals, turn 2", "assistant: The zebra is striped.") in links


async def test_a_search_of_sessions_that_finds_nothing_says_so():
    model = ScriptedProvider([calls("session_search", query="zebra")])
    async with running_agent(model) as agent:
        await talked(agent, "Look")
        assert "No other session of this project has it" in str(model.requests[-1].messages)
