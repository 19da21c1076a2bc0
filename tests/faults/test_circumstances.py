"""What happens to a running agent from outside: other files under its name, a newer program, a clock that is set, a
folder that allows no writing, and a process that slept while its session was taken over."""

import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.errors import DatabaseBusyError
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import MessageRecorded, TurnEnded, TurnStarted
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent, temporary_folder
from tests.support.editor import JsonDict, choose
from tests.support.process import AgentProcess, Launch, read_events, running_process, write_script
from tests.support.scripts import says

WINDOWS = sys.platform == "win32"


def opening(session: str, folder: Path) -> JsonDict:
    return {"sessionId": session, "cwd": str(folder), "mcpServers": []}


async def prompted(agent: RunningAgent, session: str, text: str) -> str:
    """What is said to a prompt, whose turn ends as any other."""
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


def take_name(path: Path, ending: str, becomes: str) -> None:
    """Another file, or none, has the name of one of the constellation's."""
    file = Path(f"{path}{ending}")
    content = file.read_bytes()
    file.unlink()
    if becomes == "a copy":
        file.write_bytes(content)


@pytest.mark.skipif(WINDOWS, reason="Windows lets nobody delete an open file")
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("becomes", ["nothing", "a copy"])
async def test_files_that_lose_their_names_stop_the_turn_with_a_sentence(ending: str, becomes: str):
    model = ScriptedProvider([says("One."), says("Never.")])
    with temporary_folder() as folder:
        path = folder / "constellation.db"
        async with running_agent(model, database=path) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await prompted(agent, session, "Go.")
            take_name(path, ending, becomes)
            said = await prompted(agent, session, "Go on.")
            assert "deleted, moved or replaced while pattern-acp had it open" in said
            assert "start pattern-acp again" in said
            assert len(model.requests) == 1
        if ending == "-wal" and becomes == "nothing":
            # The log was still ours, and was moved into the file at the end.
            assert [type(event) for event in await read_events(path, session)].count(TurnEnded) == 1


async def test_a_newer_program_that_takes_the_constellation_over_stops_the_older_one_with_a_sentence():
    model = ScriptedProvider([says("One."), says("Never.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await prompted(agent, session, "Go.")
        async with open_database(agent.database.path, clock=SystemClock()) as newer:
            await newer.write(lambda tx: tx.all("PRAGMA user_version = 999"))
        said = await prompted(agent, session, "Go on.")
        assert "A newer pattern-acp has brought the constellation" in said
        assert "start pattern-acp again" in said
        assert len(model.requests) == 1


@dataclass(slots=True)
class SetClock:
    """The time of day of a machine that somebody sets; what is measured goes on."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        return SystemClock().monotonic()


@pytest.mark.parametrize("hours", [-30 * 24, -1, 10 * 365 * 24])
async def test_a_clock_that_is_set_changes_no_order_and_loses_nothing(hours: int):
    clock = SetClock()
    async with running_agent(ScriptedProvider([says(f"Answer {number}.") for number in range(4)])) as agent:
        agent.sessions.constellation.clock = clock
        session = await agent.editor.open_session(str(agent.folder))
        await prompted(agent, session, "Prompt 0")
        clock.ahead_ms = hours * 3_600_000
        await prompted(agent, session, "Prompt 1")
        other = await agent.editor.open_session(str(agent.folder))
        assert "Answer 2." in await prompted(agent, other, "Prompt 2")
        clock.ahead_ms = 0
        assert "Answer 3." in await prompted(agent, session, "Prompt 3")

        def look(tx: Transaction) -> list[str]:
            assert verify_stream(tx, session).ok
            assert not quick_check(tx)
            events = [each.event for each in read_stream(tx, session)]
            return [event.message.text for event in events if isinstance(event, TurnStarted | MessageRecorded)]

        told = ["Prompt 0", "Answer 0.", "Prompt 1", "Answer 1.", "Prompt 3", "Answer 3."]
        assert await agent.database.read(look) == told
        agent.editor.updates.clear()
        await agent.editor.request("session/load", opening(session, agent.folder))
        shown = [update["content"]["text"] for update in agent.editor.of_kind("user_message_chunk")]
        assert shown == ["Prompt 0", "Prompt 1", "Prompt 3"]
        listed = (await agent.editor.request("session/list", {}))["sessions"]
        assert {row["sessionId"] for row in listed} == {session, other}


def without_leave(folder: Path) -> bool:
    """Whether this process is kept from writing there."""
    return not os.access(folder, os.W_OK)


@pytest.mark.skipif(WINDOWS, reason="permission bits of POSIX")
@pytest.mark.parametrize("is_made", [False, True])
async def test_a_folder_that_may_not_be_written_is_said_and_works_once_it_may(*, is_made: bool, tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    await anyio.to_thread.run_sync(lambda: (home.mkdir(), work.mkdir()))
    script = write_script(tmp_path, [[{"text": "Hello."}]])
    launch = Launch(home, environment=script)
    if is_made:
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(work))
    folder = home / "constellations" / "default" if is_made else home
    await anyio.to_thread.run_sync(folder.chmod, 0o500)
    try:
        if not without_leave(folder):
            pytest.skip("this user may write everything")
        async with running_process(launch) as agent:
            with pytest.raises(Exception, match=r"(cannot be written|cannot be opened|writable)") as caught:
                await agent.editor.open_session(str(work))
            assert str(home) in str(caught.value)
            await anyio.to_thread.run_sync(folder.chmod, 0o700)
            session = await agent.editor.open_session(str(work))
            assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"
    finally:
        await anyio.to_thread.run_sync(folder.chmod, 0o700)


@pytest.mark.e2e
@pytest.mark.skipif(WINDOWS, reason="Windows suspends no process by a signal")
async def test_a_process_that_slept_while_its_session_was_taken_over_is_told_and_writes_nothing(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    await anyio.to_thread.run_sync(lambda: (home.mkdir(), work.mkdir()))
    slow = write_script(
        tmp_path,
        [
            [{"text": "First. "}, {"tool": "write_file", "arguments": {"path": "first.txt", "content": "1\n"}}],
            [
                {"text": "Second. "},
                {"wait_ms": 20_000},
                {"text": "Never recorded."},
                {"tool": "write_file", "arguments": {"path": "never.txt", "content": "2\n"}},
            ],
            [{"text": "Nor this."}],
        ],
    )
    quick = write_script(tmp_path, [[{"text": "Here now."}]])
    first_launch = Launch(home, ("--mode", "auto"), slow)
    second_launch = Launch(home, ("--mode", "auto"), quick, permission=choose("allow_always"))
    async with running_process(first_launch) as first, anyio.create_task_group() as tasks:
        session = await first.editor.open_session(str(work))
        answers: list[JsonDict] = []
        ended = anyio.Event()

        async def prompt() -> None:
            answers.append(await first.editor.prompt(session, "Look"))
            ended.set()

        tasks.start_soon(prompt)
        await first.editor.wait_until(lambda: "Second." in first.editor.said())
        await suspend(first)
        try:
            async with running_process(second_launch) as second:
                await second.editor.request("session/load", opening(session, work))
                assert (await second.editor.prompt(session, "Mine"))["stopReason"] == "end_turn"
                assert "taken over" in second.editor.said()
                assert len(second.editor.asked) == 1
                first.process.send_signal(signal.SIGCONT)
                with anyio.fail_after(30):
                    await ended.wait()
                # The look that it takes every second meets the other window, or else its next write does.
                told = {
                    "end_turn": "open in another window now",
                    "cancelled": "Another window took this session over",
                }
                assert told[answers[0]["stopReason"]] in first.editor.said()
        finally:
            first.process.send_signal(signal.SIGCONT)
        events = await read_events(first.constellation, session)
        texts = [event.message.text for event in events if isinstance(event, TurnStarted | MessageRecorded)]
        # How much of the message it slept in was kept depends on the moment.
        kept = [text for text in texts if not text.startswith((">", "Second."))]
        assert kept == ["Look", "First. ", "Mine", "Here now."]
        assert await anyio.to_thread.run_sync(lambda: sorted(each.name for each in work.iterdir())) == ["first.txt"]


async def suspend(agent: AgentProcess) -> None:
    """Stop the process at a moment when it holds no lock of the database."""
    with anyio.fail_after(30):
        while True:
            agent.process.send_signal(signal.SIGSTOP)
            try:
                async with open_database(agent.constellation, clock=SystemClock(), busy_seconds=0.2) as database:
                    await database.write(lambda tx: tx.one("SELECT 1"))
            except DatabaseBusyError:
                agent.process.send_signal(signal.SIGCONT)
            else:
                return


def test_copying_the_folder_of_a_constellation_that_runs_gives_one_that_works(tmp_path: Path):
    """Whoever backs up with `cp` while a turn runs gets the file and its log; both belong together."""

    async def run() -> str:
        async with running_agent(ScriptedProvider([says("One.")]), database=tmp_path / "a" / "c.db") as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await prompted(agent, session, "Go.")
            shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("*-shm"))
        assert [type(event) for event in await read_events(tmp_path / "b" / "c.db", session)].count(TurnEnded) == 1
        return session

    assert anyio.run(run)
