"""Jobs in the constellation: their rows, the holds that they draw on, and checking both against the journal.

Owns: the tables `jobs` and `job_holds`, what of them is compared with events whose chain holds, and the sentence that
names what is not as it was. Must not know: what is worked on, what a token costs, or who asks. All of it follows from
events in their own transaction (rule R1); CHECKs refuse what the model of states refuses, too.

A hold has three meters, which are counted alike. A part of a job, such as a subagent, draws on its own hold and on
those of all above it, and never gets more than they have left.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.errors import JournalError
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.jobs.model import (
    JobEvent,
    JobMoveError,
    JobNotFoundError,
    JobRow,
    JobStage,
    row_after,
    row_of,
    with_quote,
)
from pattern_acp.journal.events import SubagentRecorded, ToolCallFinished, UsageReported
from pattern_acp.journal.job_events import JobHold, JobMoved, JobQuoted, JobSettled
from pattern_acp.journal.reader import Recorded, read_item, read_stream, recorded_here, verify_stream

_QUERIES = load_queries("pattern_acp.jobs")

JOB = ""
"""The node of the job itself."""

_PAST = 10


class Meter(StrEnum):
    """Meters of a hold. Money is in millionths of a US dollar, time in milliseconds."""

    TOKENS = "tokens"
    MONEY = "money"
    TIME = "time"

    def of(self, hold: JobHold) -> int | None:
        """Its part of a hold."""
        return {Meter.TOKENS: hold.tokens, Meter.MONEY: hold.micro_units, Meter.TIME: hold.milliseconds}[self]


class HoldRow(Struct, frozen=True):
    """One meter of a job or of a part of it: see `job_holds` in db/schema.sql."""

    job_id: str
    node: str
    meter: Meter
    parent: str | None
    granted: int | None
    spent: int
    over: int
    released: int

    @property
    def left(self) -> int | None:
        """The rest; None without a limit."""
        return None if self.granted is None else self.granted - self.spent - self.released


def follow_job(tx: Transaction, session_id: SessionId, event: JobEvent, *, seq: int, at_ms: int) -> JobRow:
    """Move a job by its event, with its hold.

    Raises:
        JobMoveError: the event may not follow; nothing of its transaction is committed then.
    """
    before = read_job(tx, event.job_id)
    row = row_after(before, event, session_id=session_id, seq=seq)
    match event:
        case JobMoved(hold=JobHold() as hold, quote=int() as quote, state="agreed"):
            quoted = quoted_of(tx, row)
            if at_ms > row.valid_until_ms or not 0 <= quote < len(quoted.quotes):
                raise JobMoveError(row.number, "not on offer any more", JobStage.AGREED)
            row = with_quote(row, quoted, quote)
            _store(tx, before, row)
            open_hold(tx, row.id, JOB, None, hold, seq=seq)
        case JobMoved(state="agreed"):
            raise JobMoveError(row.number, "without a hold", JobStage.AGREED)
        case JobMoved(hold=hold):
            _store(tx, before, row)
            draw(tx, row.id, JOB, Meter.TIME, event.spent_ms, seq=seq)
            if hold is not None:
                extend(tx, row.id, hold, seq=seq)
        case JobQuoted():
            _store(tx, before, row)
        case JobSettled():
            _store(tx, before, row)
            draw(tx, row.id, JOB, Meter.TIME, event.spent_ms, seq=seq)
            tx.execute(_QUERIES["release_holds"], {"job": row.id, "seq": seq})
    return row


def read_job(tx: Transaction, job_id: str) -> JobRow | None:
    """The job of an id; None when there is none."""
    row = tx.one(_QUERIES["read_job"], {"id": job_id})
    return None if row is None else _row(row)


def job_numbered(tx: Transaction, number: int) -> JobRow:
    """The job of a number. Raises JobNotFoundError where there is none."""
    row = tx.one(_QUERIES["job_numbered"], {"number": number})
    if row is None:
        raise JobNotFoundError(number)
    return _row(row)


def next_number(tx: Transaction) -> int:
    """The number of the next job."""
    row = tx.one(_QUERIES["next_job"], {})
    return 1 if row is None else integer(row[0])


def events_of_job(tx: Transaction, row: JobRow) -> list[Recorded]:
    """The events of a job, in order. Raises JournalError where one cannot be understood."""
    return [entry for entry in read_item(tx, row.session_id, row.id) if isinstance(entry.event, JobEvent)]


def quoted_of(tx: Transaction, row: JobRow) -> JobQuoted:
    """The terms and quotes of a job that are in force.

    Raises:
        JournalError: they cannot be understood.
        JobNotFoundError: they are not in the journal.
    """
    for entry in reversed(events_of_job(tx, row)):
        if isinstance(entry.event, JobQuoted):
            return entry.event
    raise JobNotFoundError(row.number)


def list_jobs(tx: Transaction, *, limit: int) -> tuple[JobRow, ...]:
    """The newest jobs, newest first."""
    return tuple(map(_row, tx.all(_QUERIES["list_jobs"], {"limit": limit})))


def jobs_of_session(tx: Transaction, session_id: SessionId) -> tuple[JobRow, ...]:
    """The jobs of a session, oldest first."""
    return tuple(map(_row, tx.all(_QUERIES["jobs_of_session"], {"session": session_id})))


def past_jobs(tx: Transaction, persona: str, model: str) -> tuple[tuple[int, int], ...]:
    """Estimated and used tokens of the newest jobs of a persona and model."""
    found = tx.all(_QUERIES["past_jobs"], {"persona": storable(persona), "model": storable(model), "limit": _PAST})
    return tuple((integer(row[0]), integer(row[1])) for row in found)


def open_hold(tx: Transaction, job_id: str, node: str, parent: str | None, hold: JobHold, *, seq: int) -> None:
    """Set aside a hold for a job, or a part of what `parent` has left for a part of it."""
    for meter in Meter:
        granted = meter.of(hold)
        if parent is not None:
            rest = remaining(tx, job_id, parent, meter)
            granted = rest if granted is None else granted if rest is None else min(granted, rest)
        values: dict[str, SqlValue] = {"job": job_id, "node": node, "meter": meter.value, "parent": parent}
        tx.execute(_QUERIES["open_hold"], {**values, "granted": granted, "seq": seq})


def remaining(tx: Transaction, job_id: str, node: str, meter: Meter) -> int | None:
    """The rest that a node may use, which is the least of its own and those above it; None without any limit."""
    rests: list[int] = []
    while (hold := _hold(tx, job_id, node, meter)) is not None:
        if hold.left is not None:
            rests.append(hold.left)
        if hold.parent is None:
            break
        node = hold.parent
    return min(rests, default=None)


def draw(tx: Transaction, job_id: str, node: str, meter: Meter, amount: int, *, seq: int) -> None:
    """Use an amount of a node's hold and of all above it."""
    while amount and (hold := _hold(tx, job_id, node, meter)) is not None:
        values: dict[str, SqlValue] = {"job": job_id, "node": node, "meter": meter.value, "amount": amount, "seq": seq}
        tx.execute(_QUERIES["draw_hold"], values)
        if hold.parent is None:
            break
        node = hold.parent


def draw_usage(tx: Transaction, job_id: str, node: str, usage: Usage, cost: Cost | None, *, seq: int) -> None:
    """Use what a request of a job used; a subagent that asks the first time gets the rest of the job as its hold."""
    if node != JOB and _hold(tx, job_id, node, Meter.TOKENS) is None:
        open_hold(tx, job_id, node, JOB, JobHold(), seq=seq)
    draw(tx, job_id, node, Meter.TOKENS, usage.context_tokens, seq=seq)
    draw(tx, job_id, node, Meter.MONEY, 0 if cost is None else cost.micro_units, seq=seq)


def extend(tx: Transaction, job_id: str, hold: JobHold, *, seq: int) -> None:
    """Raise the hold of a job; what has no limit stays without one, and nothing gets less."""
    for meter in Meter:
        values: dict[str, SqlValue] = {"job": job_id, "meter": meter.value, "granted": meter.of(hold), "seq": seq}
        tx.execute(_QUERIES["extend_hold"], values)


def read_holds(tx: Transaction, job_id: str) -> tuple[HoldRow, ...]:
    """All meters of a job and of its parts."""
    return tuple(map(_hold_row, tx.all(_QUERIES["list_holds"], {"job": job_id})))


def _hold(tx: Transaction, job_id: str, node: str, meter: Meter) -> HoldRow | None:
    row = tx.one(_QUERIES["read_hold"], {"job": job_id, "node": node, "meter": meter.value})
    return None if row is None else _hold_row(row)


def _hold_row(row: Row) -> HoldRow:
    return HoldRow(
        text(row[0]),
        text(row[1]),
        Meter(text(row[2])),
        None if row[3] is None else text(row[3]),
        None if row[4] is None else integer(row[4]),
        integer(row[5]),
        integer(row[6]),
        integer(row[7]),
    )


def _store(tx: Transaction, before: JobRow | None, row: JobRow) -> None:
    values: dict[str, SqlValue] = {
        "id": row.id,
        "state": row.state.value,
        "round": row.round,
        "persona": storable(row.persona),
        "model": storable(row.model),
        "estimate": row.estimate,
        "turn": row.turn_id,
        "valid_until_ms": row.valid_until_ms,
        "seq": row.last_seq,
    }
    if before is None:
        tx.execute(_QUERIES["insert_job"], {**values, "number": row.number, "session": row.session_id})
        return
    values |= {"outcome": row.outcome, "quoted": row.quoted_seq, "agreed": row.agreed_seq, "settled": row.settled_seq}
    tx.execute(_QUERIES["move_job"], values)


def _row(row: Row) -> JobRow:
    return JobRow(
        id=text(row[0]),
        number=integer(row[1]),
        session_id=SessionId(text(row[2])),
        state=JobStage(text(row[3])),
        before=JobStage(text(row[4])) if text(row[4]) else None,
        outcome=text(row[5]),
        round=integer(row[6]),
        persona=text(row[7]),
        model=text(row[8]),
        estimate=integer(row[9]),
        turn_id=text(row[10]),
        valid_until_ms=integer(row[11]),
        quoted_seq=integer(row[12]),
        agreed_seq=None if row[13] is None else integer(row[13]),
        settled_seq=None if row[14] is None else integer(row[14]),
        last_seq=integer(row[15]),
    )


_ALL = 1_000_000


class JobReport(Struct, frozen=True):
    """The result for one job: problems in sentences, none where all is as it was recorded."""

    number: int
    problems: tuple[str, ...]


def verify_jobs(tx: Transaction, number: int | None = None) -> tuple[JobReport, ...]:
    """Check one job, or all of them, the newest first."""
    rows = [row for row in list_jobs(tx, limit=_ALL) if number in {None, row.number}]
    return tuple(JobReport(row.number, tuple(_problems(tx, row))) for row in rows)


def _problems(tx: Transaction, row: JobRow) -> Iterator[str]:
    chain = verify_stream(tx, row.session_id)
    if not chain.ok:
        yield f"event {chain.first_bad_seq or '?'} of its session was changed: {chain.problem}"
        return
    try:
        recorded = events_of_job(tx, row)
        events = [(entry.seq, entry.event) for entry in recorded if isinstance(entry.event, JobEvent)]
        replayed = row_of(events, row.session_id)
    except (JournalError, JobMoveError) as error:
        yield f"its events cannot be followed: {error.sentence}"
        return
    if replayed is None:
        yield "its events are gone"
        return
    expected = asdict(replayed)
    if row.number != replayed.number and len(recorded_here(tx, recorded)) < len(recorded):
        # Another job had the number where it came to.
        expected["number"] = row.number
    for name, stored in asdict(row).items():
        if stored != expected[name]:
            yield f"its {name.replace('_', ' ')} is {stored!s}, by its events {expected[name]!s}"
    turns = {TurnId(event.turn_id) for _, event in events}
    used = _used(tx, row, turns, agreed_seq=row.agreed_seq or 0)
    yield from _wrong_holds(tx, row, events, used)
    for _, event in events:
        if isinstance(event, JobSettled) and event.used is not None:
            yield from _wrong_sums(event, used)
            # Outputs whose words were taken out have another hash.
            yield from () if chain.redacted else _wrong_checks(tx, row, event, turns)


def _wrong_sums(receipt: JobSettled, used: dict[Meter, int]) -> Iterator[str]:
    said = {Meter.TOKENS: receipt.used.tokens, Meter.MONEY: receipt.used.micro_units} if receipt.used else {}
    for meter, amount in said.items():
        if amount != used[meter]:
            yield f"its receipt names {amount:,} of {meter.value}, its requests {used[meter]:,}"


def _used(tx: Transaction, row: JobRow, turns: set[TurnId], *, agreed_seq: int) -> dict[Meter, int]:
    """The use by the requests of the job: in its turns, and since the user agreed."""
    tokens = money = 0
    for entry in read_stream(tx, row.session_id, kinds=(UsageReported, SubagentRecorded)):
        event = entry.event.event if isinstance(entry.event, SubagentRecorded) else entry.event
        if isinstance(event, UsageReported) and event.turn_id in turns and entry.seq > agreed_seq:
            tokens += event.usage.context_tokens
            money += event.spent.micro_units if event.spent is not None else 0
    return {Meter.TOKENS: tokens, Meter.MONEY: money}


def _wrong_holds(
    tx: Transaction, row: JobRow, events: list[tuple[int, JobEvent]], used: dict[Meter, int]
) -> Iterator[str]:
    granted: JobHold | None = None
    for _, event in events:
        if isinstance(event, JobMoved) and event.hold is not None:
            granted = event.hold
    if granted is None:
        return
    known = {hold.meter: hold for hold in read_holds(tx, row.id) if hold.node == JOB}
    for meter in Meter:
        hold = known.get(meter)
        if hold is None:
            yield f"its hold of {meter.value} is gone"
            continue
        if hold.granted != meter.of(granted):
            yield f"its hold of {meter.value} is {hold.granted}, by its events {meter.of(granted)}"
        spent = hold.spent + hold.over
        if meter in used and spent != used[meter]:
            yield f"its hold has {spent:,} of {meter.value} spent, its requests {used[meter]:,}"


def _wrong_checks(tx: Transaction, row: JobRow, receipt: JobSettled, turns: set[TurnId]) -> Iterator[str]:
    outputs = {
        sha256_hex((entry.event.full_output or entry.event.result_text).encode())
        for entry in read_stream(tx, row.session_id, kinds=(ToolCallFinished,))
        if isinstance(entry.event, ToolCallFinished) and entry.event.turn_id in turns
    }
    for check in receipt.checks:
        if check.output_hash not in outputs:
            yield f"no recorded output is that of the check `{check.command}`"
