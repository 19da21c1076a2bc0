"""Jobs that were agreed to, as `pattern-acp jobs`, /jobs and /job show them: lists, quotes, states and receipts.

Owns: which jobs are listed, and the words and parts. Must not know: how a job is worked on.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.commands.document import Column, ItemList, Paragraph, Part, Result, Table, columns, markdown
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import SessionId, local_minute
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.usage import amount_text
from pattern_acp.jobs import store
from pattern_acp.jobs.model import JobOutcome, JobRow, JobStage
from pattern_acp.jobs.quote import hold_for, hold_text, price_text
from pattern_acp.jobs.store import HoldRow, Meter
from pattern_acp.journal.job_events import JobQuoted, JobSettled, JobUse

MOST_LISTED = 100
"""Jobs of a list, the newest."""

LONGEST_GOAL = 80

SHOWN_GOAL = 300
"""Characters of the goal of one job."""

SHOWN_HASH = 12
"""Characters of a hash that a user reads."""


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


class JobView(Result, frozen=True):
    """One job, in its parts: its quotes, its state, or its receipt once it is over."""

    quoted: JobQuoted
    receipt: JobSettled | None
    parts: tuple[Part, ...]

    @property
    def document(self) -> Sequence[Part]:
        """The parts."""
        return self.parts

    @property
    def value(self) -> object:
        """The quotes, the receipt, and both in words."""
        return {"quoted": self.quoted, "receipt": self.receipt, "text": markdown(self.parts)}


def view_job(tx: Transaction, number: int, root: str = "", *, quotes: bool | None = None) -> JobView:
    """View a job as it is now, with files below `root` by their paths there.

    Its quotes are in view where `quotes` says so, otherwise until the user has agreed to one.

    Raises:
        JobNotFoundError: there is none, or its events are gone.
    """
    row = store.job_numbered(tx, number)
    quoted = store.quoted_of(tx, row)
    settled = next((one.event for one in store.events_of_job(tx, row) if isinstance(one.event, JobSettled)), None)
    is_open = settled is None and row.state is JobStage.QUOTED
    parts = quote_parts(quoted) if quotes or (quotes is None and is_open) else ()
    if settled is not None:
        parts += receipt_parts(row, quoted, settled, root)
    elif not is_open:
        parts += _state_parts(row, quoted, store.read_holds(tx, row.id))
    elif not parts:
        parts = (Paragraph(f"Job {number} is {row.state.value}."),)
    return JobView(quoted, settled, parts)


_UNITS = {Meter.TOKENS: "tokens", Meter.MONEY: "millionths of a US dollar", Meter.TIME: "ms"}


def _state_parts(row: JobRow, quoted: JobQuoted, holds: Sequence[HoldRow]) -> tuple[Part, ...]:
    used = ", ".join(
        f"{hold.spent + hold.over:,} of {hold.granted:,} {_UNITS[hold.meter]}"
        for hold in holds
        if hold.node == store.JOB and hold.granted is not None
    )
    return (
        Paragraph(f"**Job {row.number}: {row.state.value}.** {one_line(quoted.terms.goal, SHOWN_GOAL)}"),
        Paragraph(
            f"Used: {used or 'no limit was set'}. `/job resume {row.number}` continues it, `/job stop {row.number}` "
            "ends it with what exists."
        ),
    )


def quote_parts(quoted: JobQuoted) -> tuple[Part, ...]:
    """The quotes of a job, with plan, files, risks and the end of the offer."""
    rows = tuple(
        (
            str(number),
            quote.persona,
            quote.model,
            f"{price_text(quote)}, {quote.tokens:,} tokens",
            hold_text(hold_for(quoted.terms, quote)),
            f"{quote.percent} % of the estimate in {plural(quote.jobs, 'job')}" if quote.jobs else "none yet",
        )
        for number, quote in enumerate(quoted.quotes, 1)
    )
    heads = columns("", "persona", Column("model", code=True), "estimate", "budget", "past")
    return (
        Paragraph(f"**Job {quoted.number}: {one_line(quoted.terms.goal, SHOWN_GOAL)}**"),
        Table(heads, rows),
        ItemList(quoted.plan, numbered=True),
        ItemList(tuple(f"Risk: {risk}" for risk in quoted.risks or ("None to be seen.",))),
        Paragraph(
            f"Files in reach: {quoted.files:,}, with {plural(quoted.symbols, 'symbol')}. "
            f"The offer ends {local_minute(quoted.valid_until_ms)}."
        ),
    )


def receipt_parts(row: JobRow, quoted: JobQuoted, settled: JobSettled, root: str = "") -> tuple[Part, ...]:
    """The receipt of a job; files below `root` by their paths there."""
    if settled.outcome in {JobOutcome.DECLINED, JobOutcome.EXPIRED}:
        return (Paragraph(f"Job {row.number}: {settled.outcome}. Nothing was done, and nothing spent."),)
    released = "" if settled.released is None else hold_text(settled.released)
    over = "" if settled.over is None else hold_text(settled.over)
    by = "you" if settled.agreed_by == "person" else settled.agreed_by or "nobody"
    lines = [
        f"Goal: {one_line(quoted.terms.goal, SHOWN_GOAL)}",
        f"Agreed by {by} on {local_minute(settled.agreed_ms)}, with `{row.model}`",
        *((f"Given back: {released}",) if released else ()),
        *((f"Beyond the budget, by the last request: {over}",) if over and over != "no limit" else ()),
        *(
            f"Part {part.node}: {part.tokens:,} tokens, {amount_text(part.micro_units)}, "
            f"{plural(part.requests, 'model request')}"
            for part in settled.parts
        ),
    ]
    for check in settled.checks:
        ended = "did not end" if check.exit_code is None else f"exit code {check.exit_code}"
        lines.append(f"Check `{check.command}`: {ended}, output {check.output_hash[:SHOWN_HASH]}")
    if not settled.checks:
        lines.append("No check was agreed: nothing but the model says that it is done")
    files = ((display_path(file.path, root) if root else file.path, file.content_hash) for file in settled.files)
    lines += [f"`{path}` {content_hash[:SHOWN_HASH] or 'is gone'}" for path, content_hash in files]
    return Paragraph(f"**{_summary(row, settled)}**"), ItemList(tuple(lines))


def _summary(row: JobRow, settled: JobSettled) -> str:
    used = settled.used or JobUse("", 0, 0, 0)
    parts = [
        f"{used.tokens:,} tokens",
        amount_text(used.micro_units),
        f"{used.milliseconds / 1000:.1f} s",
        plural(used.requests, "model request"),
        plural(len(settled.files), "file"),
    ]
    if settled.checks:
        passed = sum(check.exit_code == 0 for check in settled.checks)
        parts.append(f"{passed} of {plural(len(settled.checks), 'check')} passed")
    return f"Job {row.number}: {settled.outcome}. {', '.join(parts)}."


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
