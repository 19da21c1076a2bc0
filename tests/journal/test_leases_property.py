"""Leases against a model: any order of taking, taking over, renewing, writing, giving back, dying and clocks.

The model knows who has a session and when that was last said. Whoever is alive and was not robbed may write; nobody
else ever does, and what is in the journal of a session comes in stretches of one holder each.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal import leases
from pattern_acp.journal.codec import LeaseHeldError, LeaseLostError
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.leases import STALE_MS, Holder
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append

SESSIONS = (SessionId("a"), SessionId("b"))
HOLDERS = (
    Holder("one", 100, "mark-1", "desk"),
    Holder("two", 200, "mark-2", "desk"),
    # The id of a dead process that is used again.
    Holder("three", 100, "mark-3", "desk"),
    Holder("far", 100, "mark-1", "laptop"),
)


@dataclass(frozen=True, slots=True)
class Take:
    """A process opens a session, or takes it over."""

    holder: Holder
    session: SessionId
    by_force: bool


@dataclass(frozen=True, slots=True)
class Write:
    """A process adds to a session that it believes to have."""

    holder: Holder
    session: SessionId


@dataclass(frozen=True, slots=True)
class Renew:
    """A process says that it lives; with a session, for that one alone."""

    holder: Holder
    session: SessionId | None


@dataclass(frozen=True, slots=True)
class Release:
    """A process gives a session back; without one, all that it has."""

    holder: Holder
    session: SessionId | None


@dataclass(frozen=True, slots=True)
class Die:
    """A process is gone; it can come again under the same name, as one that slept does."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Wake:
    """A process that counted as dead is seen again."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Pass:
    """Time goes by, or somebody sets the clock back."""

    milliseconds: int


Step = Take | Write | Renew | Release | Die | Wake | Pass

holders = st.sampled_from(HOLDERS)
sessions = st.sampled_from(SESSIONS)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Take, holders, sessions, st.booleans()),
    st.builds(Take, holders, sessions, st.just(value=False)),
    st.builds(Write, holders, sessions),
    st.builds(Write, holders, sessions),
    st.builds(Renew, holders, st.none() | sessions),
    st.builds(Release, holders, st.none() | sessions),
    st.builds(Die, holders),
    st.builds(Wake, holders),
    st.builds(Pass, st.sampled_from([1, STALE_MS // 2, STALE_MS + 1, -STALE_MS, -10 * STALE_MS])),
)


@dataclass(slots=True)
class Model:
    """Who has what."""

    now_ms: int = 1_800_000_000_000
    dead: set[Holder] = field(default_factory=set[Holder])
    held: dict[SessionId, tuple[Holder, int]] = field(default_factory=dict[SessionId, tuple[Holder, int]])
    written: dict[SessionId, list[str]] = field(default_factory=dict[SessionId, list[str]])

    def is_alive(self, pid: int, mark: str) -> bool:
        return any((each.pid, each.process_started) == (pid, mark) for each in HOLDERS if each not in self.dead)

    def refuses(self, holder: Holder, session: SessionId) -> bool:
        """Whether the session is kept from the holder."""
        if session not in self.held or self.held[session][0] == holder:
            return False
        other, renewed_ms = self.held[session]
        if other.host != holder.host:
            return self.now_ms - renewed_ms <= STALE_MS
        return self.is_alive(other.pid, other.process_started)

    def has(self, holder: Holder, session: SessionId) -> bool:
        return session in self.held and self.held[session][0] == holder


@contextmanager
def constellation() -> Generator[ApswConnection, None, None]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver = ApswConnection(Path(folder) / "constellation.db", read_only=False, busy_seconds=1)
        driver.open()
        migrate(driver, load_migrations(), now_ms=1)
        for session in SESSIONS:
            driver.write(lambda tx, session=session: begin(tx, session))
        yield driver
        driver.close()


def begin(tx: Transaction, session: SessionId) -> None:
    seq = append(tx, session, SessionTitled("x"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
    create_session(tx, NewSession(session, "/w", (), "default", "identity", "offline/offline", "ask"), seq=seq, at_ms=1)


@settings(max_examples=25)
@given(st.lists(steps, min_size=5, max_size=30))
def test_only_who_has_a_session_writes_to_it_whatever_happens(taken: list[Step]):
    model = Model()
    with constellation() as driver:
        for step in taken:
            assert driver.write(lambda tx, step=step: really(tx, model, step)) == expected(model, step), step
        for session in SESSIONS:
            events = driver.read(lambda tx, session=session: [each.event for each in read_stream(tx, session)])
            titles = [event.title for event in events if isinstance(event, SessionTitled)]
            assert titles[1:] == model.written.get(session, [])
            assert driver.read(lambda tx, session=session: verify_stream(tx, session)).ok


def really(tx: Transaction, model: Model, step: Step) -> object:
    """Take the step with the database; what it answers. The model is what it was before the step."""
    now, alive = model.now_ms, model.is_alive
    match step:
        case Take(holder=holder, session=session, by_force=by_force):
            try:
                return leases.acquire(tx, session, holder, now, take_over=by_force, is_alive=alive)
            except LeaseHeldError as error:
                return error.pid
        case Write(holder=holder, session=session):
            try:
                leases.require(tx, session, holder)
            except LeaseLostError:
                return "lost"
            append(tx, session, SessionTitled(holder.holder), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=now)
            return "written"
        case Renew(holder=holder, session=session):
            return leases.renew_all(tx, holder, now) if session is None else leases.renew(tx, session, holder, now)
        case Release(holder=holder, session=session):
            return leases.release_all(tx, holder) if session is None else leases.release(tx, session, holder)
        case _:
            return None


def expected(model: Model, step: Step) -> object:
    """Take the step in the model; what the database has to answer."""
    match step:
        case Take(holder=holder, session=session, by_force=by_force):
            if not by_force and model.refuses(holder, session):
                return model.held[session][0].pid
            was_held = session in model.held and not model.has(holder, session)
            model.held[session] = (holder, model.now_ms)
            return was_held
        case Write(holder=holder, session=session):
            if not model.has(holder, session):
                return "lost"
            model.written.setdefault(session, []).append(holder.holder)
            return "written"
        case Renew(holder=holder, session=session):
            mine = [each for each in SESSIONS if model.has(holder, each) and session in (None, each)]
            model.held.update(dict.fromkeys(mine, (holder, model.now_ms)))
            return len(mine) if session is None else bool(mine)
        case Release(holder=holder, session=session):
            mine = [each for each in SESSIONS if model.has(holder, each) and session in (None, each)]
            for each in mine:
                del model.held[each]
            return len(mine) if session is None else bool(mine)
        case _:
            outside(model, step)
            return None


def outside(model: Model, step: Step) -> None:
    """What happens to the processes and the clock, of which the database is told nothing."""
    match step:
        case Die(holder=holder):
            model.dead.add(holder)
        case Wake(holder=holder):
            model.dead.discard(holder)
        case Pass(milliseconds=milliseconds):
            model.now_ms += milliseconds
        case _:
            pass
