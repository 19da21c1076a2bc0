"""Jobs in the constellation: their rows, and the holds that they draw on.

Owns: the tables `jobs` and `job_holds`. Must not know: what is worked on, or what a token costs. All of it follows from
events in their own transaction (rule R1); CHECKs refuse what the model of states refuses, too.

A hold has three meters, which are counted alike. A part of a job, such as a subagent, draws on its own hold and on
those of all above it, and never gets more than they have left.
"""

from enum import StrEnum

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.jobs.errors import JobMoveError, JobNotFoundError
from pattern_acp.jobs.model import JobEvent, JobRow, JobStage, row_after, with_quote
from pattern_acp.journal.job_events import JobHold, JobMoved, JobQuoted, JobSettled
from pattern_acp.journal.reader import Recorded, read_item

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
        DatabaseError: the file cannot be written.
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
    """The job of a number.

    Raises:
        JobNotFoundError: there is none.
    """
    row = tx.one(_QUERIES["job_numbered"], {"number": number})
    if row is None:
        raise JobNotFoundError(number)
    return _row(row)


def next_number(tx: Transaction) -> int:
    """The number of the next job."""
    row = tx.one(_QUERIES["next_job"], {})
    return 1 if row is None else integer(row[0])


def events_of_job(tx: Transaction, row: JobRow) -> list[Recorded]:
    """The events of a job, in order.

    Raises:
        JournalError: one cannot be understood.
    """
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
