"""States of a job, the moves between them, and the row that follows from its events.

Owns: the table of transitions, and which event leads to which row. Must not know: SQL. The database has the same table
as a CHECK; a test compares the two.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import JobError
from pattern_acp.journal.job_events import JobMoved, JobQuoted, JobSettled

JobEvent: TypeAlias = JobQuoted | JobMoved | JobSettled

MOST_ROUNDS = 3
"""Estimates of one job: the first, and two with narrower terms."""


class JobStage(StrEnum):
    """States of a job."""

    QUOTED = "quoted"
    AGREED = "agreed"
    WORKING = "working"
    SETTLING = "settling"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """True where nothing follows."""
        return self in {JobStage.COMPLETED, JobStage.FAILED}

    @property
    def is_agreed(self) -> bool:
        """True while a hold is set aside."""
        return self in {JobStage.AGREED, JobStage.WORKING, JobStage.SETTLING}


class JobOutcome(StrEnum):
    """Ends of a job; only the first is a success."""

    COMPLETED = "completed"
    CHECKS_FAILED = "checks failed"
    BUDGET_EXHAUSTED = "budget exhausted"
    STOPPED = "stopped"
    DECLINED = "declined"
    EXPIRED = "expired"

    @property
    def state(self) -> JobStage:
        """The state with it."""
        return JobStage.COMPLETED if self is JobOutcome.COMPLETED else JobStage.FAILED


MOVES: dict[JobStage | None, frozenset[JobStage]] = {
    None: frozenset({JobStage.QUOTED}),
    JobStage.QUOTED: frozenset({JobStage.QUOTED, JobStage.AGREED, JobStage.FAILED}),
    JobStage.AGREED: frozenset({JobStage.WORKING, JobStage.FAILED}),
    # To itself with a larger hold, or in another turn after an interruption.
    JobStage.WORKING: frozenset({JobStage.WORKING, JobStage.SETTLING}),
    # Back to work where a check failed and there is something left of the hold.
    JobStage.SETTLING: frozenset({JobStage.WORKING, JobStage.SETTLING, JobStage.COMPLETED, JobStage.FAILED}),
    JobStage.COMPLETED: frozenset(),
    JobStage.FAILED: frozenset(),
}
"""The table of transitions."""


class JobRow(Struct, frozen=True):
    """The row of a job: see `jobs` in db/schema.sql."""

    id: str
    number: int
    session_id: SessionId
    state: JobStage
    before: JobStage | None
    outcome: str
    round: int
    persona: str
    model: str
    estimate: int
    turn_id: str
    valid_until_ms: int
    quoted_seq: int
    agreed_seq: int | None
    settled_seq: int | None
    last_seq: int


def row_after(row: JobRow | None, event: JobEvent, *, session_id: SessionId, seq: int) -> JobRow:
    """The row of a job behind one more event. Raises JobMoveError where the event may not follow."""
    match event:
        case JobQuoted():
            return _quoted(row, event, session_id, seq)
        case JobMoved():
            row = _after_move(row, JobStage(event.state), seq)
            is_agreed = row.state is JobStage.AGREED
            return replace(row, turn_id=event.turn_id, agreed_seq=seq if is_agreed else row.agreed_seq)
        case JobSettled():
            outcome = JobOutcome(event.outcome)
            was_quoted = row is not None and row.state is JobStage.QUOTED
            if row is not None and was_quoted != (outcome in {JobOutcome.DECLINED, JobOutcome.EXPIRED}):
                raise JobMoveError(row.number, row.state, outcome.value)
            row = _after_move(row, outcome.state, seq)
            return replace(row, turn_id=event.turn_id, outcome=outcome.value, settled_seq=seq)


def row_of(events: Iterable[tuple[int, JobEvent]], session_id: SessionId) -> JobRow | None:
    """The row of one job by all of its events, each with its number."""
    row: JobRow | None = None
    quoted: JobQuoted | None = None
    for seq, event in events:
        row = row_after(row, event, session_id=session_id, seq=seq)
        quoted = event if isinstance(event, JobQuoted) else quoted
        if isinstance(event, JobMoved) and event.quote is not None and quoted is not None:
            row = with_quote(row, quoted, event.quote)
    return row


def with_quote(row: JobRow, quoted: JobQuoted, index: int) -> JobRow:
    """The row with the quote that was chosen."""
    quote = quoted.quotes[index]
    estimate = quote.tokens * 100 // max(quote.percent, 1)
    return replace(row, persona=quote.persona, model=quote.model, estimate=estimate)


def _quoted(row: JobRow | None, event: JobQuoted, session_id: SessionId, seq: int) -> JobRow:
    if row is not None and (JobStage.QUOTED not in MOVES[row.state] or event.round != row.round + 1):
        raise JobMoveError(row.number, row.state, JobStage.QUOTED)
    if event.round > MOST_ROUNDS or not event.quotes:
        raise JobMoveError(event.number, JobStage.QUOTED, JobStage.QUOTED)
    quoted = JobRow(
        id=event.job_id,
        number=event.number,
        session_id=session_id,
        state=JobStage.QUOTED,
        before=row.state if row is not None else None,
        outcome="",
        round=event.round,
        persona="",
        model="",
        estimate=0,
        turn_id=event.turn_id,
        valid_until_ms=event.valid_until_ms,
        quoted_seq=seq,
        agreed_seq=None,
        settled_seq=None,
        last_seq=seq,
    )
    return with_quote(quoted, event, 0)


def _after_move(row: JobRow | None, state: JobStage, seq: int) -> JobRow:
    if row is None or state not in MOVES[row.state]:
        raise JobMoveError(row.number if row is not None else 0, row.state if row is not None else "", state)
    return replace(row, state=state, before=row.state, last_seq=seq)


class JobNotFoundError(JobError):
    """There is no job of this number."""

    failure_code = "jobs.job-missing"

    def __init__(self, number: int) -> None:
        """Name the number."""
        super().__init__(f"There is no job {number}; `pattern-acp jobs` lists them.")


class JobMoveError(JobError):
    """A job cannot go from its state to another one."""

    failure_code = "jobs.move-refused"

    def __init__(self, number: int, before: str, after: str) -> None:
        """Name the job and both states."""
        now = f"is {before}" if before else "is not quoted"
        super().__init__(f"Job {number} {now}, so it cannot be {after}; `/job {number}` shows it.")


class JobTermsError(JobError):
    """The terms of a job cannot be met or read."""

    failure_code = "jobs.terms-wrong"
