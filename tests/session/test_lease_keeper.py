"""Leases live as long as their process."""

import anyio
import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal import leases
from pattern_acp.journal.leases import this_process
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session_conflict import keep_leases, release_leases, stop_taken, watch_leases
from tests.support.agent import running_agent
from tests.support.requests import begin_prompt
from tests.support.scripts import calls, says


def renewed(tx: Transaction) -> list[object]:
    return [row[0] for row in tx.all("SELECT renewed_ms FROM leases")]


async def test_leases_are_renewed_at_every_turn_of_the_keeper_and_a_failure_is_survived(
    caplog: pytest.LogCaptureFixture,
):
    turns = anyio.Semaphore(0)
    came = anyio.Event()
    count = 0

    async def wait() -> None:
        nonlocal count
        count += 1
        if count == 4:
            came.set()
        await turns.acquire()

    async with running_agent(ScriptedProvider([])) as agent, anyio.create_task_group() as tasks:
        await agent.editor.open_session(str(agent.folder))
        await agent.database.write(lambda tx: tx.execute("UPDATE leases SET renewed_ms = 1"))
        tasks.start_soon(keep_leases, agent.sessions.constellation, wait)
        await agent.database.write(
            lambda tx: tx.execute("CREATE TRIGGER no BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'no'); END")
        )
        turns.release()
        turns.release()
        while count < 3:
            await anyio.lowlevel.checkpoint()
        assert await agent.database.read(renewed) == [1]
        assert caplog.messages.count("Leases could not be renewed.") == 1
        await agent.database.write(lambda tx: tx.execute("DROP TRIGGER no"))
        turns.release()
        with anyio.fail_after(30):
            await came.wait()
        assert await agent.database.read(renewed) != [1]
        tasks.cancel_scope.cancel()


async def test_leases_are_given_up_at_the_end():
    async with running_agent(ScriptedProvider([])) as agent:
        await agent.editor.open_session(str(agent.folder))
        assert len(await agent.database.read(renewed)) == 1
        await release_leases(agent.sessions.constellation)
        assert await agent.database.read(renewed) == []


async def test_a_command_is_stopped_when_another_window_takes_its_session_over():
    model = ScriptedProvider([calls("run_command", command="sleep 60; echo done > ended.txt")])
    async with running_agent(model, settings=Settings(mode="auto")) as first, anyio.create_task_group() as tasks:
        session = await first.editor.open_session(str(first.folder))
        running = begin_prompt(tasks, first.editor, session, "Run it")
        await first.editor.wait_until(lambda: "in_progress" in str(first.editor.updates))
        looked = anyio.Semaphore(0)
        tasks.start_soon(watch_leases, first.sessions, looked.acquire)
        looked.release()
        other = this_process("run_other")
        await first.database.write(lambda tx: leases.acquire(tx, SessionId(session), other, 1, take_over=True))
        looked.release()
        assert await running.end() == {"stopReason": "cancelled"}
        assert "took this session over" in first.editor.said()
        assert not (first.folder / "ended.txt").exists()
        tasks.cancel_scope.cancel()


async def test_a_turn_says_before_its_answer_that_another_window_stopped_it():
    model = ScriptedProvider([calls("run_command", command="sleep 60")])
    async with running_agent(model, settings=Settings(mode="auto")) as first, anyio.create_task_group() as tasks:
        session = await first.editor.open_session(str(first.folder))
        running = begin_prompt(tasks, first.editor, session, "Run it")
        await first.editor.wait_until(lambda: "in_progress" in str(first.editor.updates))
        stop_taken(first.sessions.get(SessionId(session)))
        assert await running.end() == {"stopReason": "cancelled"}
        assert "took this session over" in first.editor.said()


async def test_a_turn_that_ended_during_the_look_says_nothing_behind_its_answer():
    async with running_agent(ScriptedProvider([says("Hello."), says("Again.")])) as first:
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Hello?")
        stop_taken(first.sessions.get(SessionId(session)))
        assert (await first.editor.prompt(session, "Again?"))["stopReason"] == "end_turn"
        assert "took this session over" not in first.editor.said()


async def test_nothing_looks_for_takeovers_while_no_turn_runs():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(agent.folder))
        looked = anyio.Event()

        async def wait() -> None:
            looked.set()
            await anyio.sleep_forever()

        tasks.start_soon(watch_leases, agent.sessions, wait)
        await anyio.wait_all_tasks_blocked()
        assert not looked.is_set()
        await agent.editor.prompt(session, "Hello?")
        assert looked.is_set()
        tasks.cancel_scope.cancel()
