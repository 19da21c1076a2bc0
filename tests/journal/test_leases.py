from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId, local_minute
from pattern_acp.journal import leases
from pattern_acp.journal.codec import LeaseHeldError
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.leases import STALE_MS, Holder
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append
from tests.support.constellation import Constellation, temporary_constellation

SESSION = SessionId("s")
ONE = Holder("one", 100, "mark-1", "desk")
TWO = Holder("two", 200, "mark-2", "desk")
ELSEWHERE = Holder("three", 300, "mark-3", "laptop")


def alive(pid: int, mark: str) -> bool:
    return (pid, mark) in {(100, "mark-1"), (200, "mark-2")}


def dead(pid: int, mark: str) -> bool:
    return False


async def prepared(constellation: Constellation, *names: str) -> None:
    def create(tx: Transaction) -> None:
        for name in names or (SESSION,):
            seq = append(tx, name, SessionTitled("x"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
            new = NewSession(SessionId(name), "/w", (), "default", "identity", "offline/offline", "ask")
            create_session(tx, new, seq=seq, at_ms=1)

    await constellation.database.write(create)


async def take(
    constellation: Constellation, holder: Holder, now_ms: int, is_alive: Callable[[int, str], bool] = alive
) -> bool:
    return await constellation.database.write(lambda tx: leases.acquire(tx, SESSION, holder, now_ms, is_alive=is_alive))


async def test_a_free_session_is_taken_and_taken_again_by_its_holder():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        assert not await take(constellation, ONE, 10)
        assert not await take(constellation, ONE, 20)


async def test_taking_a_session_again_renews_its_lease():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, ELSEWHERE, 10)
        await take(constellation, ELSEWHERE, 10 + STALE_MS)
        with pytest.raises(LeaseHeldError):
            await take(constellation, ONE, 20 + STALE_MS)


async def test_a_session_in_use_is_refused_with_who_holds_it_since_when():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, ONE, 1_800_000_000_000)
        await constellation.database.write(lambda tx: leases.renew(tx, SESSION, ONE, 1_800_000_500_000))
        with pytest.raises(
            LeaseHeldError, match=f"process 100 on desk since {local_minute(1_800_000_000_000)}"
        ) as caught:
            await take(constellation, TWO, 1_800_000_600_000)
        held = caught.value
        assert (held.session_id, held.pid, held.host, held.since_ms) == (SESSION, 100, "desk", 1_800_000_000_000)


async def test_the_session_of_a_dead_process_is_taken_over():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, ONE, 10)
        assert await take(constellation, TWO, 20, dead)
        with pytest.raises(LeaseHeldError):
            await take(constellation, ONE, 30)


async def test_a_process_id_used_again_does_not_keep_the_lease_alive():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, replace(ONE, process_started="an older mark"), 10)
        assert await take(constellation, TWO, 20)


async def test_a_lease_of_another_machine_lasts_while_it_is_renewed():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, ELSEWHERE, 0)
        await constellation.database.write(lambda tx: leases.renew_all(tx, ELSEWHERE, 1000))
        with pytest.raises(LeaseHeldError):
            await take(constellation, ONE, 1000 + STALE_MS)
        assert await take(constellation, ONE, 1001 + STALE_MS)


async def test_a_holder_that_lost_its_session_is_told_when_it_renews_or_releases():
    async with temporary_constellation() as constellation:
        await prepared(constellation)
        await take(constellation, ONE, 10)
        await take(constellation, TWO, 20, dead)
        assert not await constellation.database.write(lambda tx: leases.renew(tx, SESSION, ONE, 30))
        assert not await constellation.database.write(lambda tx: leases.release(tx, SESSION, ONE))
        assert await constellation.database.write(lambda tx: leases.release(tx, SESSION, TWO))


async def test_all_sessions_of_a_process_are_released_at_once():
    async with temporary_constellation() as constellation:
        await prepared(constellation, "a", "b", "c")

        def use(tx: Transaction) -> tuple[int, bool]:
            leases.acquire(tx, SessionId("a"), ONE, 1)
            leases.acquire(tx, SessionId("b"), ONE, 1)
            leases.acquire(tx, SessionId("c"), TWO, 1)
            released = leases.release_all(tx, ONE)
            return released, leases.acquire(tx, SessionId("a"), TWO, 2)

        assert await constellation.database.write(use) == (2, False)


async def test_a_session_that_does_not_exist_has_no_lease():
    async with temporary_constellation() as constellation:
        with pytest.raises(ConstraintError):
            await take(constellation, ONE, 1)
