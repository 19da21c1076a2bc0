"""Jobs in the constellation: moves, holds, and what the database refuses by itself."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import LiteralString

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pattern_acp.db
from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.jobs import store
from pattern_acp.jobs.model import MOVES, JobEvent, JobMoveError, JobNotFoundError, JobOutcome, JobRow, JobStage, row_of
from pattern_acp.jobs.store import JOB, Meter
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.job_events import JobHold, JobMoved, JobQuote, JobQuoted, JobSettled, JobTerms
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append
from tests.support.constellation import Constellation, temporary_constellation

pytestmark = pytest.mark.anyio

SESSION, TURN = SessionId("s1"), TurnId("t1")
QUOTES = (JobQuote("coder", "a/large", 10, 40_000, 200_000), JobQuote("coder", "a/small", 10, 20_000, 5_000, 200, 4))
HOLD = JobHold(60_000, 2_000_000)


def quoted(number: int = 1, round_: int = 1, valid_until_ms: int = 1 << 60) -> JobQuoted:
    return JobQuoted(
        TURN, f"job{number}", number, round_, JobTerms("Do it"), QUOTES, 3, 9, ("Read.",), (), valid_until_ms
    )


def moved(state: JobStage, hold: JobHold | None = None, quote: int | None = None, spent_ms: int = 0) -> JobMoved:
    return JobMoved(TURN, "job1", state.value, "person", hold, quote, spent_ms)


AGREED = moved(JobStage.AGREED, HOLD, 1)


@asynccontextmanager
async def opened() -> AsyncGenerator[Constellation]:
    async with temporary_constellation() as constellation:
        new = NewSession(SESSION, "/w", (), "coder", "i", "a/large", "ask")
        await constellation.database.write(lambda tx: create_session(tx, new, seq=_begin(tx), at_ms=0))
        yield constellation


def _begin(tx: Transaction) -> int:
    return append(tx, SESSION, SessionTitled("x"), actor=Actor.SYSTEM, origin=Origin.AGENT, at_ms=0).seq


async def record(constellation: Constellation, *events: JobEvent) -> JobRow:
    """Record events as a session does: each with what follows from it."""

    def write(tx: Transaction) -> JobRow:
        now = constellation.clock.now_ms()
        rows = [
            store.follow_job(
                tx,
                SESSION,
                event,
                seq=append(tx, SESSION, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now).seq,
                at_ms=now,
            )
            for event in events
        ]
        return rows[-1]

    return await constellation.database.write(write)


async def test_a_job_goes_its_way_and_its_row_follows_from_its_events():
    async with opened() as constellation:
        await record(constellation, quoted())
        agreed = await record(constellation, AGREED)
        # The estimate without what the past has taught: it is compared with what comes.
        assert (agreed.model, agreed.estimate) == ("a/small", 10_000)
        await record(constellation, moved(JobStage.WORKING), moved(JobStage.SETTLING, spent_ms=70))
        row = await record(constellation, JobSettled(TURN, "job1", "completed", "engine"))
        read, events = await constellation.database.read(
            lambda tx: (store.job_numbered(tx, 1), store.events_of_job(tx, row))
        )
        assert read == row
        assert (row.state, row.before, row.outcome) == (JobStage.COMPLETED, JobStage.SETTLING, "completed")
        replayed = row_of(((entry.seq, entry.event) for entry in events if isinstance(entry.event, JobEvent)), SESSION)
        assert replayed == row


async def test_an_offer_ends_and_another_job_is_named():
    async with opened() as constellation:
        await record(constellation, quoted(valid_until_ms=constellation.clock.now_ms()))
        constellation.clock.advance(1)
        with pytest.raises(JobMoveError, match="not on offer any more"):
            await record(constellation, AGREED)
        with pytest.raises(JobNotFoundError, match="no job 7"):
            await constellation.database.read(lambda tx: store.job_numbered(tx, 7))
        with pytest.raises(JobMoveError, match="without a hold"):
            await record(constellation, moved(JobStage.AGREED))


async def test_three_rounds_are_the_most():
    async with opened() as constellation:
        await record(constellation, *(quoted(round_=number) for number in (1, 2, 3)))
        with pytest.raises(JobMoveError):
            await record(constellation, quoted(round_=4))


def _events() -> dict[str, JobEvent]:
    return {
        **{state.value: moved(state) for state in (JobStage.WORKING, JobStage.SETTLING)},
        "agreed": AGREED,
        **{outcome.value: JobSettled(TURN, "job1", outcome.value, "engine") for outcome in JobOutcome},
    }


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["quoted", *sorted(_events())]), max_size=9))
def test_moves_in_any_order_come_to_what_the_table_allows(names: Sequence[str]):
    """A model in three lines: the state, the rounds, and which end may come when."""

    async def run() -> None:
        async with opened() as constellation:
            state: JobStage | None = None
            rounds = 0
            for name in names:
                event = quoted(round_=rounds + 1) if name == "quoted" else _events()[name]
                ends = JobOutcome(name) if name in set(JobOutcome) else None
                target = ends.state if ends is not None else JobStage(name)
                allowed = target in MOVES[state] and not (target is JobStage.QUOTED and rounds == 3)
                if ends is not None:
                    unagreed = ends in {JobOutcome.DECLINED, JobOutcome.EXPIRED}
                    allowed = allowed and unagreed == (state is JobStage.QUOTED)
                try:
                    row = await record(constellation, event)
                except JobMoveError:
                    assert not allowed
                else:
                    assert allowed
                    assert row.state is target
                    state, rounds = target, rounds + (target is JobStage.QUOTED)
            if state is not None:
                stored = await constellation.database.read(lambda tx: store.job_numbered(tx, 1))
                assert stored.state is state

    anyio.run(run)


def test_the_check_of_the_database_is_the_table_of_moves():
    schema = (Path(pattern_acp.db.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    listed = schema.partition("state IN (\n            ' quoted'")[2].partition("\n        )")[0]
    pairs = {*re.findall(r"'([a-z]* [a-z]+)'", listed), " quoted"}
    assert pairs == {f"{before or ''} {after}" for before, states in MOVES.items() for after in states}


@pytest.mark.parametrize("state", ["working", "completed", "nonsense"])
async def test_the_database_itself_refuses_a_move_that_is_not_in_the_table(state: str):
    async with opened() as constellation:
        await record(constellation, quoted())
        outcome = "completed" if state == "completed" else ""
        with pytest.raises(ConstraintError):
            await constellation.database.write(
                lambda tx: tx.execute("UPDATE jobs SET before = state, state = ?, outcome = ?", (state, outcome))
            )


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE job_holds SET spent = granted + 1",
        "UPDATE job_holds SET spent = -1",
        "UPDATE job_holds SET over = 1",
        "UPDATE job_holds SET released = granted + 1",
    ],
)
async def test_the_database_itself_refuses_a_hold_that_does_not_add_up(change: LiteralString):
    async with opened() as constellation:
        await record(constellation, quoted(), AGREED)
        with pytest.raises(ConstraintError):
            await constellation.database.write(lambda tx: tx.execute(change))


async def test_zero_means_zero_and_no_limit_means_none():
    async with opened() as constellation:
        await record(constellation, quoted(), moved(JobStage.AGREED, JobHold(tokens=0), 0))

        def write(tx: Transaction) -> tuple[int | None, int | None, int | None]:
            store.draw_usage(tx, "job1", "thread", Usage(5), Cost(7), seq=1)
            child = store.remaining(tx, "job1", "thread", Meter.TOKENS)
            store.extend(tx, "job1", JobHold(tokens=3), seq=1)
            return (
                child,
                store.remaining(tx, "job1", JOB, Meter.TOKENS),
                store.remaining(tx, "job1", "thread", Meter.MONEY),
            )

        assert await constellation.database.write(write) == (0, 0, None)
        tokens = next(
            hold
            for hold in await constellation.database.read(lambda tx: store.read_holds(tx, "job1"))
            if (hold.node, hold.meter) == (JOB, Meter.TOKENS)
        )
        # What was used beyond counts first when there is more.
        assert (tokens.granted, tokens.spent, tokens.over) == (3, 3, 2)


NODES = ("", "a", "b", "a1")
PARENTS = {"a": "", "b": "", "a1": "a"}
STEPS = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(NODES[1:]), st.one_of(st.none(), st.integers(0, 60))),
    st.tuples(st.just("draw"), st.sampled_from(NODES), st.integers(0, 50)),
    st.tuples(st.just("extend"), st.just(""), st.integers(0, 200)),
)


@settings(max_examples=20, deadline=None)
@given(st.one_of(st.none(), st.integers(0, 120)), st.lists(STEPS, max_size=14))
def test_holds_of_parts_draw_on_those_above_as_a_model_of_them_does(  # noqa: C901  the model and its steps
    first: int | None, steps: Sequence[tuple[str, str, int | None]]
):
    """The model: for each node its limit and all it used; a node has left what the least above it has."""
    limits: dict[str, int | None] = {"": first}
    used: dict[str, int] = dict.fromkeys(NODES, 0)

    def left(node: str) -> int | None:
        own = limits[node]
        rest = None if own is None else max(0, own - used[node])
        above = left(PARENTS[node]) if node else None
        return min((one for one in (rest, above) if one is not None), default=None)

    def step_on(tx: Transaction, step: str, node: str, amount: int | None) -> None:
        if step == "open" and node not in limits and PARENTS[node] in limits:
            rest = left(PARENTS[node])
            limits[node] = min((one for one in (amount, rest) if one is not None), default=None)
            store.open_hold(tx, "job1", node, PARENTS[node], JobHold(amount), seq=1)
        elif step == "draw" and node in limits:
            for each in _chain(node):
                used[each] += amount or 0
            store.draw(tx, "job1", node, Meter.TOKENS, amount or 0, seq=1)
        elif step == "extend" and limits[""] is not None and amount is not None and amount >= limits[""]:
            limits[""] = amount
            store.extend(tx, "job1", JobHold(amount), seq=1)

    def write(tx: Transaction) -> None:
        for step, node, amount in steps:
            step_on(tx, step, node, amount)
            for each in limits:
                assert store.remaining(tx, "job1", each, Meter.TOKENS) == left(each)

    async def run() -> None:
        async with opened() as constellation:
            await record(constellation, quoted(), moved(JobStage.AGREED, JobHold(first), 0))
            await constellation.database.write(write)
            await record(constellation, moved(JobStage.WORKING), moved(JobStage.SETTLING))
            await record(constellation, JobSettled(TURN, "job1", "stopped", "person"))
            for hold in await constellation.database.read(lambda tx: store.read_holds(tx, "job1")):
                if hold.meter is Meter.TOKENS:
                    assert hold.spent + hold.over == used[hold.node]
                    assert hold.left in {0, None}

    anyio.run(run)


def _chain(node: str) -> Sequence[str]:
    return (node, *_chain(PARENTS[node])) if node else ("",)
