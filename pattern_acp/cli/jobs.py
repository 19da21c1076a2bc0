"""`pattern-acp jobs`: jobs of all sessions, their receipts, and whether these are what was recorded.

Owns: each verb and what it answers. Must not know: how a job is worked on (`/job` does).
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import constellation_path
from pattern_acp.commands.document import Paragraph, Part, Result
from pattern_acp.commands.jobs import JobList, newest_jobs
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import Database, Transaction, open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.jobs import store
from pattern_acp.jobs.checking import JobReport, verify_jobs
from pattern_acp.jobs.errors import JobNotFoundError
from pattern_acp.jobs.showing import quote_text, receipt_text
from pattern_acp.journal.job_events import JobQuoted, JobSettled


class JobDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database


@asynccontextmanager
async def open_jobs(call: TypedCommand, process: Process) -> AsyncGenerator[JobDesk, None]:
    """Open the services of the verbs.

    Raises:
        DatabaseError: the constellation cannot be used.
    """
    del call
    async with open_for_reading(constellation_path(process), clock=SystemClock()) as database:
        yield JobDesk(database)


class JobView(Result, frozen=True):
    """One job: its quotes, and its receipt once it is over."""

    quoted: JobQuoted
    receipt: JobSettled | None
    text: str

    @property
    def document(self) -> Sequence[Part]:
        """The same in words."""
        return (Paragraph(self.text),)


class JobsChecked(Result, frozen=True):
    """The result of checking jobs."""

    jobs: tuple[JobReport, ...]
    sound: bool = True

    @property
    def document(self) -> Sequence[Part]:
        """A sentence for each problem, or one for all."""
        wrong = [f"Job {job.number}: {problem}." for job in self.jobs for problem in job.problems]
        if wrong:
            return tuple(Paragraph(sentence) for sentence in wrong)
        return (Paragraph(f"{len(self.jobs)} checked: rows, holds and receipts are what was recorded."),)

    @property
    def is_failure(self) -> bool:
        """True when something is not what was recorded."""
        return not self.sound


async def list_jobs(desk: JobDesk) -> JobList:
    """List the newest jobs."""
    return await desk.database.read(newest_jobs)


async def show(desk: JobDesk, number: int) -> JobView:
    """Show the terms and quotes of a job, and its receipt."""
    return await desk.database.read(lambda tx: _shown(tx, number, both=True))


async def receipt(desk: JobDesk, number: int) -> JobView:
    """Show the receipt of a job that is over."""
    return await desk.database.read(lambda tx: _shown(tx, number, both=False))


def _shown(tx: Transaction, number: int, *, both: bool) -> JobView:
    row = store.job_numbered(tx, number)
    quoted = store.quoted_of(tx, row)
    settled = next((one.event for one in store.events_of_job(tx, row) if isinstance(one.event, JobSettled)), None)
    written = receipt_text(row, quoted, settled) if settled is not None else f"Job {number} is {row.state.value}."
    return JobView(quoted, settled, f"{quote_text(quoted)}\n\n{written}" if both else written)


async def verify(desk: JobDesk, number: int | None) -> JobsChecked:
    """Check one job, or all.

    Raises:
        JobNotFoundError: there is no job of the number.
    """
    found = await desk.database.read(lambda tx: verify_jobs(tx, number))
    if number is not None and not found:
        raise JobNotFoundError(number)
    return JobsChecked(found, not any(job.problems for job in found))
