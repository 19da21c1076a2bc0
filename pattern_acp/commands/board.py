"""Lists as answers: the open sessions (`pattern-acp board`, /board) and agreed jobs (`pattern-acp jobs`, /jobs).

Owns: which jobs are listed, and the form of both lists. Must not know: how the board is read (`tasks.claims`), or how a
job is worked on.
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
from pattern_acp.tasks.claims import TTL_MS, BoardRow, Claim

SHOWN_TEXT = 200
"""Characters of a cell that Markdown shows."""

_COLUMNS = tuple(
    Column(title, style, limit=SHOWN_TEXT)
    for title, style in {
        "Session": "cyan",
        "Where": "",
        "Agent": "",
        "Last step": "",
        "Waits for its user": "yellow",
        "Task": "",
        "Claims": "",
        "Used": "",
    }.items()
)


class Board(Result, frozen=True):
    """The open sessions."""

    rows: tuple[BoardRow, ...] = ()
    now_ms: int = 0

    @property
    def document(self) -> Sequence[Part]:
        """A table, a row a session, without columns that nobody has anything in."""
        if not self.rows:
            return (Paragraph("No session is open."),)
        rows = [self._cells(row) for row in self.rows]
        wanted = [at for at in range(len(_COLUMNS)) if any(row[at] for row in rows)]
        shown = tuple(tuple(row[at] for at in wanted) for row in rows)
        return (Table(tuple(_COLUMNS[at] for at in wanted), shown),)

    @property
    def value(self) -> object:
        """The sessions."""
        return self.rows

    def _cells(self, row: BoardRow) -> tuple[str, ...]:
        return (
            one_line(row.title, 60) or "Untitled",
            f"{_place(row)}, {row.cwd}",
            f"{row.persona}, {row.model}",
            _step(row, self.now_ms),
            "; ".join(one_line(question, 120) for question in row.waits_for),
            row.task,
            "; ".join(_claim(claim, self.now_ms) for claim in row.claims),
            row.budget_text,
        )


def _place(row: BoardRow) -> str:
    dead = "" if row.alive else " (its process is gone)"
    return f"{one_line(row.editor, 60)}, process {row.pid}{dead}" if row.editor else f"process {row.pid}{dead}"


def _step(row: BoardRow, now_ms: int) -> str:
    ago = _ago(now_ms - row.step_ms)
    return f"{ago}: {one_line(row.step, 100)}" if row.step else ago


def _claim(claim: Claim, now_ms: int) -> str:
    left = f"{max(0, claim.renewed_ms + TTL_MS - now_ms) // 60_000} min left"
    notes = [left if claim.state == "active" else claim.state]
    notes += [f"subagent {one_line(claim.agent, 80)}"] if claim.agent else []
    notes += [f"“{one_line(claim.wanted, 80)}” asks for it"] if claim.wanted else []
    return f"{claim.target.shown} ({', '.join(notes)})"


def _ago(milliseconds: int) -> str:
    minutes = milliseconds // 60_000
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


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
