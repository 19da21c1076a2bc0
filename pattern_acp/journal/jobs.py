"""Background commands as the journal knows them.

Owns: which were started and how they ended, and the end of those that nobody saw end because the process died. Must not
know: how commands run; the caller of `close_lost_jobs` holds the session's lease.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import JobEnded, JobReported, JobStarted
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.writer import append

LOST = "lost"
"""The outcome of a command whose agent died: it was ended with it, as far as the platform lets, and nobody saw how."""


class RecordedJob(Struct, frozen=True):
    """One background command or subagent; `ended` is None while no end is recorded. Times are milliseconds UTC.

    `reported` is the result of a subagent that waits for a prompt.
    """

    started: JobStarted
    started_at_ms: int
    ended: JobEnded | None = None
    ended_at_ms: int | None = None
    reported: JobReported | None = None

    @property
    def is_lost(self) -> bool:
        """True for one that ended with its process, and left nothing."""
        return self.ended is None and self.reported is None


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
            case JobReported() as reported if reported.job_id in jobs:
                jobs[reported.job_id] = replace(jobs[reported.job_id], reported=reported)
            case _:
                pass
    return tuple(jobs.values())


def close_lost_jobs(
    tx: Transaction, stream: str, recorded: Iterable[Recorded], *, at_ms: int
) -> tuple[RecordedJob, ...]:
    """Record the end of what has none, since its process died; all of the stream afterwards.

    Raises:
        DatabaseError: an event could not be stored.
    """
    jobs: list[RecordedJob] = []
    for job in recorded_jobs(recorded):
        if job.is_lost:
            ended = JobEnded(job.started.job_id, LOST)
            append(tx, stream, ended, actor=Actor.PROCESS, origin=Origin.COMMAND, at_ms=at_ms)
            jobs.append(RecordedJob(job.started, job.started_at_ms, ended, at_ms))
        else:
            jobs.append(job)
    return tuple(jobs)
