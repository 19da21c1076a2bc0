"""Sessions, leases and forks under any order of what two windows do, against a plain model."""

import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, RandomIds, SessionId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.codec import LeaseHeldError, LeaseLostError, NotDeletedError
from pattern_acp.journal.events import SessionCreated, TurnEnded, TurnStarted
from pattern_acp.journal.history import read_history
from pattern_acp.journal.leases import this_process
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.sessions import NewSession
from pattern_acp.journal.turn_ends import close_interrupted
from pattern_acp.journal.writer import append
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.rewind.forks import fork_session
from pattern_acp.session.stored import DAY_MS, delete_session, restore_session
from pattern_acp.session.turn_stages import failed_end
from pattern_acp.turn.loop import TurnEnd
from tests.support.constellation import FakeClock

T = TypeVar("T")
WINDOWS = st.sampled_from((0, 1))


class DirectDatabase:
    """A database without threads, so that a step of the machine needs no event loop."""

    def __init__(self, path: Path) -> None:
        self.driver = ApswConnection(path, read_only=False, busy_seconds=1.0)
        self.driver.open()
        migrate(self.driver, load_migrations(), now_ms=0)

    async def write(self, function: Callable[[Transaction], T], *, quietly: bool = False) -> T:
        del quietly
        return self.driver.write(function)


def done(coroutine: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise AssertionError("It waited.")


@dataclass
class Known:
    """What the model knows of a session; `window` is None when no living window has it."""

    said: list[str] = field(default_factory=list[str])
    window: int | None = None
    deleted_ms: int | None = None


class TwoWindows(RuleBasedStateMachine):
    """Two windows create, prompt, close, delete, bring back, fork and take over; they crash, and the clock jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.direct = DirectDatabase(self.folder / "c.db")
        self.database = cast("Database", self.direct)
        self.clock, self.ids = FakeClock(), RandomIds()
        self.windows = [this_process(self.ids.new("run")) for _ in range(2)]
        self.known: dict[SessionId, Known] = {}

    def teardown(self) -> None:
        self.direct.driver.close()
        shutil.rmtree(self.folder)

    def pick(self, number: int) -> tuple[SessionId, Known]:
        return list(self.known.items())[number % len(self.known)]

    @rule(window=WINDOWS)
    def create(self, window: int) -> None:
        session_id, now = SessionId(self.ids.new("ses")), self.clock.now_ms()
        created = SessionCreated("/w", (), "default", "id", "offline/offline", "ask")

        def write(tx: Transaction) -> None:
            seq = append(tx, session_id, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now).seq
            new = NewSession(session_id, "/w", (), "default", "id", "offline/offline", "ask")
            sessions.create_session(tx, new, seq=seq, at_ms=now)
            leases.acquire(tx, session_id, self.windows[window], now)

        self.direct.driver.write(write)
        self.known[session_id] = Known(window=window)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), window=WINDOWS, whole=st.booleans())
    def prompt(self, number: int, window: int, *, whole: bool) -> None:
        session_id, known = self.pick(number)
        turn, now = TurnId(self.ids.new("turn")), self.clock.now_ms()
        message = Message(MessageId(turn), Role.USER, (TextPart(turn),))

        def write(tx: Transaction) -> None:
            leases.require(tx, session_id, self.windows[window])
            close_interrupted(tx, session_id, at_ms=now)
            started = TurnStarted(turn, message)
            seq = append(tx, session_id, started, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now).seq
            sessions.note_prompt(tx, session_id, seq=seq, at_ms=now)
            sessions.set_title(tx, session_id, turn, seq=seq, at_ms=now)
            if whole:
                ended = TurnEnded(turn, StopReason.END_TURN)
                append(tx, session_id, ended, actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=now)

        if known.window == window:
            self.direct.driver.write(write)
            known.said.append(turn if whole else f"cut {turn}")
        else:
            with pytest.raises(LeaseLostError):
                self.direct.driver.write(write)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), window=WINDOWS, take_over=st.booleans())
    def open(self, number: int, window: int, *, take_over: bool) -> None:
        session_id, known = self.pick(number)
        if known.deleted_ms is not None:
            return

        def write(tx: Transaction) -> None:
            leases.acquire(tx, session_id, self.windows[window], self.clock.now_ms(), take_over=take_over)
            close_interrupted(tx, session_id, at_ms=self.clock.now_ms())

        if known.window in (None, window) or take_over:
            self.direct.driver.write(write)
            known.window = window
            known.said = [each.removeprefix("cut ") for each in known.said]
        else:
            with pytest.raises(LeaseHeldError):
                self.direct.driver.write(write)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), window=WINDOWS)
    def close(self, number: int, window: int) -> None:
        session_id, known = self.pick(number)
        released = self.direct.driver.write(lambda tx: leases.release(tx, session_id, self.windows[window]))
        assert released == (known.window == window)
        known.window = None if released else known.window

    @rule(window=WINDOWS)
    def crash(self, window: int) -> None:
        dead = {"holder": self.windows[window].holder}
        sql = "UPDATE leases SET pid = 4194303, process_started = 'long ago' WHERE holder = :holder"
        self.direct.driver.write(lambda tx: tx.execute(sql, dead))
        self.windows[window] = this_process(self.ids.new("run"))
        for known in self.known.values():
            known.window = None if known.window == window else known.window

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9), window=WINDOWS)
    def delete(self, number: int, window: int) -> None:
        session_id, known = self.pick(number)
        asked = delete_session(self.database, session_id, self.windows[window], now=self.clock.now_ms())
        if known.deleted_ms is None and known.window not in (None, window):
            with pytest.raises(LeaseHeldError):
                done(asked)
            return
        assert done(asked) == (known.deleted_ms is None)
        if known.deleted_ms is None:
            self.direct.driver.write(lambda tx: leases.release(tx, session_id, self.windows[window]))
            known.deleted_ms, known.window = self.clock.now_ms(), None

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def bring_back(self, number: int) -> None:
        session_id, known = self.pick(number)
        asked = restore_session(self.database, session_id, now=self.clock.now_ms(), days=30)
        if known.deleted_ms is None or self.clock.now_ms() - known.deleted_ms > 30 * DAY_MS:
            with pytest.raises(NotDeletedError):
                done(asked)
            return
        done(asked)
        known.deleted_ms = None

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 9))
    def fork(self, number: int) -> None:
        session_id, known = self.pick(number)
        if known.deleted_ms is None:
            fork = done(fork_session(self.database, session_id, "", clock=self.clock, ids=self.ids))
            whole = known.said[:-1] if known.said and known.said[-1].startswith("cut ") else known.said
            self.known[fork.session_id] = Known(said=list(whole))

    @rule(days=st.integers(-20, 40))
    def jump(self, days: int) -> None:
        self.clock.advance(days * DAY_MS)

    @invariant()
    def everything_is_as_the_model_has_it(self) -> None:
        rows, _ = self.direct.driver.read(lambda tx: sessions.list_sessions(tx, cwd=None, cursor=None, limit=999))
        alive = {each for each, known in self.known.items() if known.deleted_ms is None and known.said}
        assert {row.session_id for row in rows} == alive
        for session_id, known in self.known.items():
            history = self.direct.driver.read(lambda tx, of=session_id: read_history(tx, of))
            said = [entry.event.turn_id for entry in history if isinstance(entry.event, TurnStarted)]
            assert said == [each.removeprefix("cut ") for each in known.said]
            assert self.direct.driver.read(lambda tx, of=session_id: verify_stream(tx, of)).ok


TwoWindows.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
test_two_windows_never_lose_or_mix_what_was_said = TwoWindows.TestCase


def test_a_turn_whose_client_went_away_ends_as_cancelled_without_a_sentence_in_the_session():
    assert failed_end(ConnectionClosedError("The peer closed the connection.")) == TurnEnd(StopReason.CANCELLED)
