"""Checking jobs against the journal: rows, holds and receipts follow from events whose chain holds.

Owns: what is compared, and the sentence that names what is not as it was. Must not know: who asks.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import asdict

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.errors import JournalError
from pattern_acp.jobs.errors import JobMoveError
from pattern_acp.jobs.model import JobEvent, JobRow, row_of
from pattern_acp.jobs.store import JOB, Meter, events_of_job, list_jobs, read_holds
from pattern_acp.journal.events import SubagentRecorded, ToolCallFinished, UsageReported
from pattern_acp.journal.job_events import JobHold, JobMoved, JobSettled
from pattern_acp.journal.reader import read_stream, recorded_here, verify_stream

_ALL = 1_000_000


class JobReport(Struct, frozen=True):
    """The result for one job: problems in sentences, none where all is as it was recorded."""

    number: int
    problems: tuple[str, ...]


def verify_jobs(tx: Transaction, number: int | None = None) -> tuple[JobReport, ...]:
    """Check one job, or all of them, the newest first.

    Raises:
        DatabaseError: the file cannot be read.
    """
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
