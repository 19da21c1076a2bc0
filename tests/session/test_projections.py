"""Rows follow their events, in the events' own transaction (rule R1)."""

from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import DiskFullError
from pattern_acp.domain.clock import MessageId, SystemClock, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.journal.events import ContextAdded, MessageRecorded, TurnStarted
from pattern_acp.journal.sessions import SessionRow, get_session
from pattern_acp.providers.history import CONTINUE_NOTE
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.redaction import RedactionWanted, redact_session
from pattern_acp.session.session import Session
from pattern_acp.session.stored import index_all, restore_session
from pattern_acp.turn.recorder import NewEvent
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import Turn, calls, says


async def row_of(agent: RunningAgent, session: Session) -> SessionRow:
    row = await agent.database.read(lambda tx: get_session(tx, session.session_id))
    assert row is not None
    return row


async def test_the_row_of_a_session_is_never_ahead_of_its_events():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        before = await row_of(agent, session)
        await agent.editor.prompt(session.session_id, "Say hello")
        after = await row_of(agent, session)
        assert (before.prompt_count, after.prompt_count) == (0, 1)
        assert after.title == "Say hello"
        assert after.updated_ms >= before.updated_ms

        def newest(tx: Transaction) -> object:
            found = tx.one("SELECT max(seq) FROM events WHERE stream = :s", {"s": session.session_id})
            return found[0] if found else None

        assert before.last_seq < after.last_seq
        assert after.last_seq <= int(str(await agent.database.read(newest)))


async def test_messages_are_found_and_the_programs_own_words_are_not():
    async with running_agent(ScriptedProvider([says("The zeppelin is green.")])) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "What colour?")
        await agent.editor.prompt(first, "/status")
        second = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        found = await second.memory.search("zeppelin", 5)
        assert found[0].text == "The zeppelin is green."
        assert not any(
            "/status" in hit.text or "Persona" in hit.text for hit in await second.memory.search("Persona", 5)
        )


async def test_a_grant_outlives_the_process_in_its_session():
    model = ScriptedProvider([calls("write_file", path="a.txt", content="x"), says("Done.")])

    async def always(params: dict[str, object]) -> dict[str, object]:
        del params
        return {"outcome": "selected", "optionId": "allow_always"}

    async with running_agent(model, permission=always) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write")
        grants = agent.sessions.get(session).state.policy.grants
        assert len(grants) == 1
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/resume", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        assert agent.sessions.get(session).state.policy.grants == grants


async def test_the_last_plan_is_found_again_when_its_session_is_undeleted_and_when_the_index_is_made_anew():
    def plan(step: str) -> Turn:
        return calls("update_plan", entries=[{"content": step, "status": "pending", "priority": "high"}])

    model = ScriptedProvider([plan("Feed the gnu"), plan("Feed the zebras"), says("Done.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Plan.")
        other = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))

        async def steps() -> list[str]:
            found = await other.memory.search("feed zebras gnu", 9)
            return [hit.text for hit in found if hit.text.startswith("Feed")]

        assert await steps() == ["Feed the zebras"]
        await agent.editor.request("session/delete", {"sessionId": session})
        assert await steps() == []
        await restore_session(agent.database, session, now=SystemClock().now_ms(), days=30)
        assert await steps() == ["Feed the zebras"]

        def index_anew(tx: Transaction) -> None:
            tx.execute("DELETE FROM search_entries")
            index_all(tx)

        await agent.database.write(index_anew)
        assert await steps() == ["Feed the zebras"]


async def test_a_message_that_the_index_lost_is_found_again_and_the_others_stay_as_they_are():
    async with running_agent(ScriptedProvider([says("Gnus graze."), says("Zebras too.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "What do gnus do?")
        await agent.editor.prompt(session, "And zebras?")

        def messages(tx: Transaction) -> dict[str, int]:
            rows = tx.all("SELECT text, id FROM search_entries WHERE kind IN ('user', 'assistant')")
            return {str(text): int(str(entry)) for text, entry in rows}

        before = await agent.database.read(messages)
        await agent.database.write(lambda tx: tx.execute("DELETE FROM search_entries WHERE text = 'Gnus graze.'"))
        await agent.database.write(index_all)
        after = await agent.database.read(messages)
        assert after.keys() == before.keys()
        assert [text for text in before if after[text] != before[text]] == ["Gnus graze."]


async def test_words_that_were_forgotten_do_not_come_back_into_the_index(tmp_path: Path):
    folder = tmp_path / "folder-of"
    folder.mkdir()
    model = ScriptedProvider([calls("write_file", path="a.txt", content="x\n"), says("Done.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "Write.")
        await redact_session(agent.database, RedactionWanted(session, match="folder-of"), at_ms=1)
        await agent.database.write(index_all)
        rows = await agent.database.read(lambda tx: tx.all("SELECT text FROM search_entries WHERE kind = 'call'"))
        assert [str(row[0]).count("folder-of") for row in rows] == [0]


async def test_an_answer_in_two_parts_is_found_whole_after_its_first_commit_failed():
    async with running_agent(ScriptedProvider([])) as agent:
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        turn, user, assistant = TurnId("turn_1"), Role.USER, Role.ASSISTANT
        first, note, second = (
            Message(MessageId(f"msg_{number}"), role, (TextPart(text),))
            for number, (role, text) in enumerate(
                ((assistant, "The zeppelin is "), (user, CONTINUE_NOTE), (assistant, "green."))
            )
        )
        prompt = Message(MessageId("msg_prompt"), user, (TextPart("What colour?"),))
        await session.recorder.record(NewEvent(TurnStarted(turn, prompt)), NewEvent(MessageRecorded(turn, first)))
        await session.recorder.record(NewEvent(ContextAdded(turn, note)))
        await session.recorder.record_soon(NewEvent(MessageRecorded(turn, second)))

        def fail(_tx: Transaction) -> None:
            raise DiskFullError("The disk is full.")

        with pytest.raises(DiskFullError):
            await session.recorder.record(behind=fail)
        await session.recorder.record()
        texts = await agent.database.read(lambda tx: tx.all("SELECT text FROM search_entries WHERE kind = 'assistant'"))
        assert texts == [("The zeppelin is green.",)]
