"""What requests that run have set aside, and when it no longer counts."""

from collections.abc import Callable

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.journal import leases
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.leases import STALE_MS, Holder
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.usage import LONGEST_MS, Reservation, Spent, SpentSoFar, reserve, reserved_now, settle
from pattern_acp.journal.writer import append
from tests.support.constellation import Constellation, temporary_constellation

MINE, OTHER = SessionId("mine"), SessionId("other")
TURN = TurnId("turn_1")
ONE = Holder("one", 100, "mark-1", "desk")
TWO = Holder("two", 200, "mark-2", "desk")
ELSEWHERE = Holder("three", 300, "mark-3", "laptop")


def alive(_pid: int, _mark: str) -> bool:
    return True


def dead(_pid: int, _mark: str) -> bool:
    return False


async def prepared(constellation: Constellation, other: Holder) -> None:
    """Two sessions, `mine` of ONE and the other one of `other`, with a reservation each."""

    def create(tx: Transaction) -> None:
        for session, holder in ((MINE, ONE), (OTHER, other)):
            seq = append(tx, session, SessionTitled("x"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
            create_session(
                tx, NewSession(session, "/w", (), "default", "i", "offline/offline", "ask"), seq=seq, at_ms=1
            )
            leases.acquire(tx, session, holder, 1)
            reserve(tx, Reservation(f"r_{session}", session, TURN, 10, 3), holder, 1)

    await constellation.database.write(create)


async def reserved(
    constellation: Constellation, turn: TurnId = TURN, now_ms: int = 2, is_alive: Callable[[int, str], bool] = alive
) -> SpentSoFar:
    return await constellation.database.read(lambda tx: reserved_now(tx, MINE, turn, ONE, now_ms, is_alive=is_alive))


async def test_what_runs_counts_for_its_turn_its_session_and_everywhere_until_it_is_settled():
    async with temporary_constellation() as constellation:
        await prepared(constellation, TWO)
        assert await reserved(constellation) == SpentSoFar(Spent(10, 3), Spent(10, 3), Spent(20, 6))
        assert await reserved(constellation, TurnId("turn_2")) == SpentSoFar(Spent(), Spent(10, 3), Spent(20, 6))
        await constellation.database.write(lambda tx: settle(tx, "r_mine"))
        assert await reserved(constellation) == SpentSoFar(Spent(), Spent(), Spent(10, 3))


async def test_what_a_process_left_behind_that_has_ended_does_not_count():
    async with temporary_constellation() as constellation:
        await prepared(constellation, TWO)
        assert (await reserved(constellation, is_alive=dead)).since == Spent(10, 3)
        await constellation.database.write(lambda tx: leases.release(tx, OTHER, TWO))
        assert (await reserved(constellation)).since == Spent(10, 3)
        assert (await reserved(constellation, now_ms=LONGEST_MS + 2)).since == Spent()


async def test_another_machine_counts_while_it_renews_its_lease():
    async with temporary_constellation() as constellation:
        await prepared(constellation, ELSEWHERE)
        assert (await reserved(constellation, is_alive=dead)).since == Spent(20, 6)
        assert (await reserved(constellation, now_ms=STALE_MS + 2, is_alive=dead)).since == Spent(10, 3)
