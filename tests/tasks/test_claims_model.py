"""Claims of two processes in any order, against a model that knows nothing of SQL."""

import tempfile
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import SessionCreated
from pattern_acp.journal.leases import acquire, release, this_process
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append
from pattern_acp.tasks.claims import (
    TTL_MS,
    ClaimKind,
    ClaimTarget,
    overlapping,
    read_claims,
    release_claims,
    take_claims,
    take_over,
)
from tests.support.constellation import FakeClock

FILES = ("/w/a.py", "/w/src/a.py", "/w/src/b.md", "/w/srcs/a.py")
TARGETS = (
    *map(ClaimTarget, FILES),
    ClaimTarget("/w/src", ClaimKind.FOLDER),
    ClaimTarget("/w", ClaimKind.FOLDER),
    ClaimTarget("/w/src/*.py", ClaimKind.GLOB),
)
MEANT = (
    *({path} for path in FILES),
    {"/w/src/a.py", "/w/src/b.md"},
    set(FILES),
    {"/w/src/a.py"},
)
"""Which of the files each target means: said by hand, not by the code under test."""

SESSIONS = (SessionId("ses_0"), SessionId("ses_1"))

OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["claim", "release", "release all", "take", "wait", "close", "open"]),
        st.integers(0, len(TARGETS) - 1),
    ),
    max_size=25,
)


class Model:
    """The claims of both sessions by target: when each was renewed, and who asks for it."""

    def __init__(self) -> None:
        self.claims: list[dict[int, int]] = [{}, {}]
        self.wanted: list[set[int]] = [set(), set()]
        self.open = [True, True]
        self.now = 0

    def active(self, side: int) -> set[int]:
        """The targets that a session claims, in force."""
        return {at for at, renewed in self.claims[side].items() if self.open[side] and self.now < renewed + TTL_MS}

    def claim(self, side: int, at: int) -> None:
        """As `take_claims`: what is claimed counts from now on."""
        for other in (0, 1):
            if not self.open[other]:
                self.claims[other].clear()
                self.wanted[other].clear()
        self.claims[side] = dict.fromkeys([*self.claims[side], at], self.now)

    def release(self, side: int, ats: set[int]) -> None:
        """As `release_claims`: who asked for one gets it."""
        for at in ats & set(self.claims[side]):
            if at in self.wanted[side] and self.open[1 - side]:
                self.claims[1 - side][at] = self.now
            del self.claims[side][at]
            self.wanted[side].discard(at)

    def take(self, side: int, at: int) -> None:
        """As `take_over`."""
        other = 1 - side
        if self.open[other]:
            met = {one for one in self.claims[other] if MEANT[one] & MEANT[at]}
            active = met & self.active(other)
            for one in met - active:
                del self.claims[other][one]
                self.wanted[other].discard(one)
            self.wanted[other] |= active
            if active:
                return
        self.claim(side, at)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS)
def test_claims_of_two_processes_equal_a_model(operations: list[tuple[int, str, int]]):
    anyio.run(compare, operations)


async def compare(operations: list[tuple[int, str, int]]) -> None:
    with tempfile.TemporaryDirectory(prefix="pattern-acp-", ignore_cleanup_errors=True) as folder:
        path, clock, model = Path(folder) / "c.db", FakeClock(), Model()
        async with open_database(path, clock=clock) as one, open_database(path, clock=clock) as other:
            sides = (one, other)
            for side, session in enumerate(SESSIONS):
                await sides[side].write(lambda tx, session=session: begin(tx, session, clock.now_ms()))
            for side, operation, at in operations:
                clock.advance(1)
                model.now = clock.now_ms()
                await perform(sides[side], side, operation, at, model, clock)
                for seen in (0, 1):
                    assert await met(sides[1 - seen], seen, model.now) == expected(model, seen), (operation, at)


async def met(database: Database, side: int, now_ms: int) -> list[bool]:
    """For each file, true if another session's claim in force means it."""
    return [
        bool(
            await database.read(
                lambda tx, file=file: overlapping(tx, SESSIONS[side], [ClaimTarget(file)], now_ms=now_ms)
            )
        )
        for file in FILES
    ]


def expected(model: Model, side: int) -> list[bool]:
    active = model.active(1 - side)
    return [any(file in MEANT[at] for at in active) for file in FILES]


async def perform(database: Database, side: int, operation: str, at: int, model: Model, clock: FakeClock) -> None:
    session, now_ms, target = SESSIONS[side], model.now, TARGETS[at]
    match operation:
        case "wait":
            clock.advance(TTL_MS // 2)
        case "open":
            await database.write(lambda tx: acquire(tx, session, this_process(session), now_ms))
            model.open[side] = True
        case _ if not model.open[side]:
            return
        case "close":
            await database.write(lambda tx: release(tx, session, this_process(session)))
            model.open[side] = False
        case "claim":
            await database.write(lambda tx: take_claims(tx, session, [target], now_ms=now_ms))
            model.claim(side, at)
        case "release":
            await database.write(lambda tx: release_claims(tx, session, target.path, now_ms=now_ms))
            model.release(side, {at})
        case "release all":
            await database.write(lambda tx: release_claims(tx, session, now_ms=now_ms))
            model.release(side, set(model.claims[side]))
        case _:
            await database.write(lambda tx: take_over(tx, session, target, now_ms=now_ms))
            model.take(side, at)
    assert await database.read(lambda tx: {one.session_id for one in read_claims(tx, now_ms=now_ms)}) <= set(SESSIONS)


def begin(tx: Transaction, session: SessionId, now_ms: int) -> None:
    event = SessionCreated("/w", (), "coder", "id", "m", "ask")
    created = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now_ms)
    create_session(tx, NewSession(session, "/w", (), "coder", "id", "m", "ask"), seq=created.seq, at_ms=now_ms)
    acquire(tx, session, this_process(session), now_ms)
