"""Leases live as long as their process."""

import anyio

from pattern_acp.db.connection import Transaction
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.lease_keeper import keep_leases, release_leases
from pattern_acp.testing.agent import running_agent


def renewed(tx: Transaction) -> list[object]:
    return [row[0] for row in tx.all("SELECT renewed_ms FROM leases")]


async def test_leases_are_renewed_at_every_turn_of_the_keeper_and_a_failure_is_survived():
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
        await agent.database.write(lambda tx: tx.execute("DROP TRIGGER no"))
        turns.release()
        with anyio.fail_after(5):
            await came.wait()
        assert await agent.database.read(renewed) != [1]
        tasks.cancel_scope.cancel()


async def test_leases_are_given_up_at_the_end():
    async with running_agent(ScriptedProvider([])) as agent:
        await agent.editor.open_session(str(agent.folder))
        assert len(await agent.database.read(renewed)) == 1
        await release_leases(agent.sessions.constellation)
        assert await agent.database.read(renewed) == []
