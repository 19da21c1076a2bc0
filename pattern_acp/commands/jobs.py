"""The list of agreed jobs, in all sessions: `pattern-acp jobs` and /jobs.

Owns: which jobs are listed, and the form of the list. Must not know: how a job is worked on.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, columns
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.usage import amount_text
from pattern_acp.jobs import store
from pattern_acp.jobs.model import JobRow

MOST_LISTED = 100
"""Jobs of a list, the newest."""

LONGEST_GOAL = 80


class ListedJob(Struct, frozen=True):
    """One job of a list."""

    number: int
    state: str
    outcome: str
    goal: str
    persona: str
    model: str
    session: str
    tokens: int
    micro_units: int


class JobList(Result, frozen=True):
    """Jobs in their order."""

    jobs: tuple[ListedJob, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """A table."""
        if not self.jobs:
            return (Paragraph("There are no jobs yet; `/job GOAL` in a session asks for an estimate."),)
        rows = tuple(
            (
                str(job.number),
                job.outcome or job.state,
                one_line(job.goal, LONGEST_GOAL),
                job.model,
                f"{job.tokens:,}",
                amount_text(job.micro_units),
            )
            for job in self.jobs
        )
        right = (Column(title, right=True) for title in ("Tokens", "Cost"))
        return (
            Table(columns(Column("Job", "cyan"), "State", Column("Goal", limit=LONGEST_GOAL), "Model", *right), rows),
        )


def newest_jobs(tx: Transaction) -> JobList:
    """The newest jobs of all sessions.

    Raises:
        DatabaseError: the file cannot be read.
    """
    return JobList(tuple(_listed(tx, row) for row in store.list_jobs(tx, limit=MOST_LISTED)))


def jobs_of_session(tx: Transaction, session_id: SessionId) -> JobList:
    """The jobs of a session, the oldest first.

    Raises:
        DatabaseError: the file cannot be read.
    """
    return JobList(tuple(_listed(tx, row) for row in store.jobs_of_session(tx, session_id)))


def _listed(tx: Transaction, row: JobRow) -> ListedJob:
    used = {hold.meter: hold.spent + hold.over for hold in store.read_holds(tx, row.id) if hold.node == store.JOB}
    return ListedJob(
        row.number,
        row.state.value,
        row.outcome,
        store.quoted_of(tx, row).terms.goal,
        row.persona,
        row.model,
        row.session_id,
        used.get(store.Meter.TOKENS, 0),
        used.get(store.Meter.MONEY, 0),
    )
