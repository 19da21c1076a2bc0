"""Two processes on one constellation: sessions run in one of them, and memory is shared by all."""

import subprocess
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import MessageRecorded, TurnStarted
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.both_versions import spoken
from tests.support.editor import JsonDict, choose
from tests.support.requests import begin_prompt, refused, updates_of
from tests.support.scripts import Turn, calls, gate, says

HOLDER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import anyio
    from pattern_acp.db.connection import open_database
    from pattern_acp.domain.clock import SystemClock
    from pattern_acp.journal import leases
    from pattern_acp.journal.leases import this_process

    async def main(path, session):
        async with open_database(Path(path), clock=SystemClock()) as database:
            holder = this_process("run_other")
            await database.write(lambda tx: leases.acquire(tx, session, holder, SystemClock().now_ms()))
            print("held", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)

    anyio.run(main, *sys.argv[1:])
""")


@contextmanager
def holding(path: Path, session: str) -> Generator[int, None, None]:
    """Another process that runs the session, by its id; it is killed at the end, so its lease stays behind."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), session], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline().strip() == b"held"
            yield child.pid
        finally:
            child.kill()


def opening(agent: RunningAgent, session: str) -> JsonDict:
    return {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}


def said(agent: RunningAgent, session: str) -> str:
    """All that the agent said in a session, in the editor."""
    chunks = [u for u in updates_of(agent.editor, session) if u["sessionUpdate"] == "agent_message_chunk"]
    return "".join(str(chunk["content"]["text"]) for chunk in chunks)


async def test_a_session_of_a_dead_process_is_taken_over_without_a_question():
    async with running_agent(ScriptedProvider([says("Hello."), says("Hello again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        with holding(agent.database.path, session):
            pass
        await agent.editor.request("session/load", opening(agent, session))
        assert (await agent.editor.prompt(session, "Go on"))["stopReason"] == "end_turn"
        assert agent.editor.asked == []


@pytest.mark.first_version("a prompt that was withdrawn is answered with an error")
async def test_a_session_of_another_window_is_shown_and_nothing_is_sent_when_the_person_only_reads():
    async with running_agent(ScriptedProvider([says("Hello.")]), permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        before = await agent.database.read(lambda tx: len(read_stream(tx, session)))
        with holding(agent.database.path, session) as pid:
            agent.editor.updates.clear()
            await agent.editor.request("session/load", opening(agent, session))
            assert "Hello." in said(agent, session)
            assert "Another window has this session open." in said(agent, session)
            assert (await agent.editor.prompt(session, "May I?"))["stopReason"] == "end_turn"
            assert "Nothing was sent" in said(agent, session)
            (asked,) = agent.editor.asked
            assert f"Process {pid} " in str(asked)
            assert [option["kind"] for option in asked["options"]] == ["allow_once", "allow_always", "reject_once"]
            error = await refused(agent.editor, "session/set_mode", {"sessionId": session, "modeId": "auto"})
            assert "open in another window" in error.message
            await agent.editor.request("session/close", {"sessionId": session})
        assert await agent.database.read(lambda tx: len(read_stream(tx, session))) == before


async def test_a_session_that_is_taken_over_goes_on_here_and_the_first_window_asks_at_its_next_prompt():
    first_model = ScriptedProvider([says("Blue."), says("Back here.")])
    async with running_agent(first_model, permission=choose("allow_always")) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Name a colour")
        second_model = ScriptedProvider([says("I said blue.")])
        async with running_agent(
            second_model, database=first.database.path, permission=choose("allow_always")
        ) as second:
            await second.editor.request("session/load", opening(first, session))
            assert (await second.editor.prompt(session, "What did you say?"))["stopReason"] == "end_turn"
            assert "taken over" in said(second, session)
            assert "Blue." in str(second_model.requests[0].messages)
            error = await refused(first.editor, "session/set_mode", {"sessionId": session, "modeId": "auto"})
            assert "open in another window" in error.message

            assert (await first.editor.prompt(session, "And now?"))["stopReason"] == "end_turn"
            assert len(first.editor.asked) == 1
            assert "I said blue." in str(first_model.requests[-1].messages)
        assert (await first.database.read(lambda tx: verify_stream(tx, session))).ok


async def test_a_fork_goes_on_in_the_window_and_leaves_the_other_its_session():
    first_model = ScriptedProvider([says("Blue."), says("Still mine.")])
    async with running_agent(first_model) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Name a colour")
        second_model = ScriptedProvider([says("I said blue."), says("More.")])
        async with running_agent(second_model, database=first.database.path, permission=choose("allow_once")) as second:
            await second.editor.request("session/load", opening(first, session))
            before = await first.database.read(lambda tx: len(read_stream(tx, session)))
            await second.editor.prompt(session, "What did you say?")
            assert "Name a colour" in str(second_model.requests[0].messages)
            assert await first.database.read(lambda tx: len(read_stream(tx, session))) == before
            assert (await first.editor.prompt(session, "Are you there?"))["stopReason"] == "end_turn"
            assert first.editor.asked == []
            listed = (await second.editor.request("session/list", {}))["sessions"]
            assert {row["title"] for row in listed} == {"Name a colour", "Name a colour (fork)"}
            forked = next(row for row in listed if row["title"].endswith("(fork)"))
            assert forked["_meta"]["pattern"]["parent"] == session
            assert forked["_meta"]["pattern"]["messages"] == (5 if spoken() == 1 else 4)
            await second.editor.prompt(session, "Go on")
            assert len(second.editor.asked) == 1

        third = ScriptedProvider([says("Yes.")])
        async with running_agent(third, database=first.database.path) as later:
            await later.editor.request("session/load", opening(first, forked["sessionId"]))
            shown = "Blue.> This continues in “Name a colour (fork)”" if spoken() == 1 else "Blue.I said blue."
            assert said(later, forked["sessionId"]).startswith(shown)
            await later.editor.prompt(forked["sessionId"], "Remember?")
            assert "Name a colour" in str(third.requests[0].messages)


async def test_a_turn_whose_session_is_taken_over_ends_with_a_sentence_and_keeps_what_was_recorded():
    waiting = gate()
    model = ScriptedProvider([says("First. ") + calls("read_file", path="a.txt"), (waiting, *says("Never recorded."))])
    async with running_agent(model) as first, anyio.create_task_group() as tasks:
        (first.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await first.editor.open_session(str(first.folder))
        running = begin_prompt(tasks, first.editor, session, "Look")
        with anyio.fail_after(30):
            await waiting.reached.wait()
        async with running_agent(
            ScriptedProvider([says("Here now.")]), database=first.database.path, permission=choose("allow_always")
        ) as second:
            await second.editor.request("session/load", opening(first, session))
            await second.editor.prompt(session, "Mine")
            waiting.opened.set()
            answer = await running.end()
            assert isinstance(answer, dict)
            assert answer["stopReason"] == "end_turn"
            assert "open in another window now" in said(first, session)
            events = await first.database.read(lambda tx: [entry.event for entry in read_stream(tx, session)])
            texts = [e.message.text for e in events if isinstance(e, TurnStarted | MessageRecorded)]
            assert [text for text in texts if not text.startswith(">")] == ["Look", "First. ", "Mine", "Here now."]


async def test_a_session_that_another_window_has_cannot_be_deleted():
    async with running_agent(ScriptedProvider([says("Hello.")])) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Hi")
        async with running_agent(ScriptedProvider([]), database=first.database.path) as second:
            error = await refused(second.editor, "session/delete", {"sessionId": session})
            assert "close it there first, then delete it" in error.message
            await first.editor.request("session/close", {"sessionId": session})
            await second.editor.request("session/delete", {"sessionId": session})
            assert (await second.editor.request("session/list", {}))["sessions"] == []


async def test_two_agents_that_write_at_once_lose_nothing():
    def writes(who: str) -> ScriptedProvider:
        turns: list[Turn] = []
        for number in range(5):
            text = f"Line {number} of {who}."
            turns += [calls("memory_write", label="human", operation="append", text=text, reason="x"), says("ok")]
        return ScriptedProvider(turns)

    async with (
        running_agent(writes("one")) as first,
        running_agent(writes("two"), database=first.database.path) as second,
    ):
        agents = (first, second)
        sessions = [await agent.editor.open_session(str(first.folder)) for agent in agents]
        for _ in range(5):
            async with anyio.create_task_group() as tasks:
                for agent, session in zip(agents, sessions, strict=True):
                    tasks.start_soon(agent.editor.prompt, session, "Write")

        def look(tx: Transaction) -> tuple[list[bool], object]:
            return [verify_stream(tx, session).ok for session in sessions], quick_check(tx)

        sound, problems = await first.database.read(look)
        assert sound == [True, True]
        assert not problems
        await first.editor.prompt(sessions[0], "/memory human")
        said = first.editor.said()
        assert all(f"Line {number} of {who}." in said for number in range(5) for who in ("one", "two"))
