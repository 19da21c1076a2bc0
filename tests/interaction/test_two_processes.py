"""Two processes on one constellation: sessions run in one of them, and memory is shared by all."""

import subprocess
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from pattern_acp.db.connection import Transaction
from pattern_acp.db.integrity import quick_check
from pattern_acp.journal.reader import verify_stream
from pattern_acp.jsonrpc.errors import INTERNAL_ERROR
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.testing.agent import RunningAgent, running_agent
from pattern_acp.testing.editor import JsonDict
from pattern_acp.testing.requests import refused, updates_of
from pattern_acp.testing.scripts import Turn, calls, says

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


async def test_a_session_runs_in_one_process_and_is_taken_over_when_that_one_is_dead():
    async with running_agent(ScriptedProvider([says("Hello."), says("Hello again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        with holding(agent.database.path, session) as pid:
            for method in ("session/load", "session/resume"):
                error = await refused(agent.editor, method, opening(agent, session))
                assert error.code == INTERNAL_ERROR
                assert f"process {pid} " in error.message
                assert error.data == {"details": error.message}
            other = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(other, "A session of my own works")

        await agent.editor.request("session/load", opening(agent, session))
        assert await agent.editor.prompt(session, "Go on") == {"stopReason": "end_turn"}


async def test_two_agents_of_one_machine_respect_each_other_too():
    async with running_agent(ScriptedProvider([says("Hello.")])) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Hi")
        async with running_agent(ScriptedProvider([]), database=first.database.path) as second:
            error = await refused(second.editor, "session/load", opening(first, session))
            assert "in use by process" in error.message
            await first.editor.request("session/close", {"sessionId": session})
            await second.editor.request("session/load", opening(first, session))
            assert updates_of(second.editor, session) != []


async def test_what_one_process_remembers_the_next_prompt_of_the_other_sees():
    writer = ScriptedProvider(
        [calls("memory_write", label="human", operation="append", text="Prefers tabs.", reason="told"), says("Noted.")]
    )
    reader = ScriptedProvider([says("one"), says("two")])
    async with (
        running_agent(writer) as first,
        running_agent(reader, database=first.database.path) as second,
    ):
        mine = await second.editor.open_session(str(second.folder))
        await second.editor.prompt(mine, "Before")
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "I prefer tabs")
        await second.editor.prompt(mine, "After")

        before, after = reader.requests
        assert "Prefers tabs." not in before.volatile
        assert "Prefers tabs." in after.volatile
        assert before.system == after.system
        assert before.tools == after.tools
        assert after.messages[: len(before.messages)] == before.messages


async def test_what_the_person_asks_to_remember_reaches_a_later_session():
    async with running_agent(ScriptedProvider([])) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "/remember I live in Lisbon.")
        path = first.database.path
        model = ScriptedProvider([says("You live in Lisbon.")])
        async with running_agent(model, database=path) as second:
            session = await second.editor.open_session(str(second.folder))
            await second.editor.prompt(session, "Where do I live?")
            assert "I live in Lisbon." in model.requests[0].messages[0].text


async def test_a_project_block_is_seen_in_its_project_only():
    async with running_agent(ScriptedProvider([says("one"), says("two")])) as agent:
        here, there = agent.folder / "here", agent.folder / "there"
        here.mkdir()
        there.mkdir()
        first = await agent.editor.open_session(str(here))
        await agent.editor.prompt(first, "/remember project: Tests run with make check.")
        await agent.editor.prompt(first, "How do tests run?")
        second = await agent.editor.open_session(str(there))
        await agent.editor.prompt(second, "How do tests run?")
        assert "make check" in agent.model.requests[0].messages[0].text
        assert "make check" not in str(agent.model.requests[1])


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
