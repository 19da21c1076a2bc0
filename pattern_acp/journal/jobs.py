"""Background commands as the journal knows them.

Owns: which were started and how they ended, and the end of those that nobody saw end because the process died. Must not
know: how commands run; the caller of `close_lost_jobs` holds the session's lease.
"""

from collections.abc import Iterable

from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.events import JobEnded, JobStarted
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.writer import append

LOST = "lost"
"""The outcome of a command whose agent died: it was ended with it, as far as the platform lets, and nobody saw how."""


class RecordedJob(Struct, frozen=True):
    """One background command; `ended` is None while none is recorded. Times are milliseconds UTC."""

    started: JobStarted
    started_at_ms: int
    ended: JobEnded | None = None
    ended_at_ms: int | None = None


def recorded_jobs(recorded: Iterable[Recorded]) -> tuple[RecordedJob, ...]:
    """The background commands of a stream, oldest first."""
    jobs: dict[str, RecordedJob] = {}
    for entry in recorded:
        match entry.event:
            case JobStarted() as started:
                jobs[started.job_id] = RecordedJob(started, entry.at_ms)
            case JobEnded() as ended if ended.job_id in jobs:
                job = jobs[ended.job_id]
                jobs[ended.job_id] = RecordedJob(job.started, job.started_at_ms, ended, entry.at_ms)
            case _:
                pass
    return tuple(jobs.values())


def close_lost_jobs(
    tx: Transaction, stream: str, recorded: Iterable[Recorded], *, at_ms: int
) -> tuple[RecordedJob, ...]:
    """Record the end of commands that have none, since their process died; all commands of the stream afterwards.

    Raises:
        DatabaseError: an event could not be stored.
    """
    jobs: list[RecordedJob] = []
    for job in recorded_jobs(recorded):
        if job.ended is None:
            ended = JobEnded(job.started.job_id, LOST)
            append(tx, stream, ended, actor=Actor.PROCESS, origin=Origin.COMMAND, at_ms=at_ms)
            jobs.append(RecordedJob(job.started, job.started_at_ms, ended, at_ms))
        else:
            jobs.append(job)
    return tuple(jobs)
