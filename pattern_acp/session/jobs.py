"""The background commands of one session.

Owns: their records in the journal, what the model learns of them with every request, and /background. Must not know:
how a command runs or ends (`workspace.jobs`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.document import Column, Result, Table, as_result, columns
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.journal.events import (
    ErrorReported,
    Event,
    JobEnded,
    JobMoved,
    JobQuoted,
    JobSettled,
    JobStarted,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    WatchSwitched,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.turn_ends import RecordedJob
from pattern_acp.session.ports import SessionView
from pattern_acp.turn.recorder import JobOver, JobShown, JobStreamed, JournalRecorder, NewEvent
from pattern_acp.workspace.jobs import SEEN, SHOWN_LINE, Job, JobState, job_sentence, running_of, state_of
from pattern_acp.workspace.terminal import ExitStatus

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.workspace.jobs import Jobs

SHOWN_GOAL = 200
"""Characters of a command that a notice repeats."""

CUT_CODES = frozenset({"turn.interrupted", "session.taken-over"})
"""Codes of turns that the end of a process or of a lease cut off."""

NO_JOBS = "Nothing runs in the background of this session."


class JobRecords:
    """`JobObserver` over the session's journal and view."""

    def __init__(self, recorder: JournalRecorder, view: SessionView) -> None:
        self._recorder = recorder
        self._view = view
        self.after_change: Callable[[], None] = lambda: None
        """Called once a command has begun or ended, with all that was recorded and shown of it."""

    async def started(self, job: Job) -> None:
        """See `JobObserver.started`."""
        await self._recorder.record(NewEvent(JobStarted(job.job_id, job.line, job.cwd), Actor.TOOL))
        if job.call_id:
            size = job.command.size if job.command is not None else None
            await self._view.show(JobShown(ToolCallId(job.call_id), job.line, job.cwd, job.output.text, size))

    async def wrote(self, job: Job, text: str) -> None:
        """See `JobObserver.wrote`."""
        if job.call_id:
            await self._view.show(JobStreamed(ToolCallId(job.call_id), text))

    async def ended(self, job: Job) -> None:
        """See `JobObserver.ended`."""
        status = job.status or ExitStatus(None)
        last = one_line(job.output.last_line(), SHOWN_LINE)
        ended = JobEnded(job.job_id, job.state.value, status.exit_code, status.signal, last)
        try:
            # A command that does not want to end takes longer than the lease lasts when the process ends.
            await self._recorder.record_late(NewEvent(ended, Actor.PROCESS, Origin.COMMAND))
        finally:
            if job.call_id:
                await self._view.show(JobOver(ToolCallId(job.call_id), status.exit_code, status.signal))

    async def counted(self, running: int) -> None:
        """See `JobObserver.counted`."""
        await self._view.show_jobs(running)
        self.after_change()


def known_jobs(recorded: Sequence[RecordedJob], lost: Collection[str]) -> tuple[Job, ...]:
    """The jobs of a session that is opened again. All have ended; of `lost` ones nobody learned yet."""
    return tuple(_known(job, is_news=job.started.job_id in lost) for job in recorded)


def _known(recorded: RecordedJob, *, is_news: bool) -> Job:
    ended = recorded.ended or JobEnded(recorded.started.job_id, JobState.LOST.value)
    job = Job(
        recorded.started.job_id,
        recorded.started.line,
        recorded.started.cwd,
        recorded.started_at_ms,
        state=JobState(ended.outcome),
        status=ExitStatus(ended.exit_code, ended.signal),
        ended_at_ms=recorded.ended_at_ms,
        end_told="" if is_news else SEEN,
    )
    job.output.append(ended.last_line)
    job.output.take_new()
    return job


def unfinished_notices(recorded: Iterable[Recorded]) -> list[str]:
    """A sentence for each job that the user agreed to in this session, or was asked about, and that is not over."""
    numbers: dict[str, int] = {}
    states: dict[str, str] = {}
    for event in (entry.event for entry in recorded if entry.session_seq):
        if isinstance(event, JobQuoted):
            numbers[event.job_id], states[event.job_id] = event.number, "quoted"
        elif isinstance(event, JobMoved):
            states[event.job_id] = event.state
        elif isinstance(event, JobSettled):
            states.pop(event.job_id, None)
    return [
        f"Job {number} is {states[job_id]}: `/job resume {number}` continues it, `/job stop {number}` ends it."
        for job_id, number in numbers.items()
        if job_id in states
    ]


def cut_group_notices(events: Iterable[Event]) -> list[str]:
    """A sentence about the run of a group that the end of a process cut off in the last turn of a conversation."""
    name, ends, text, was_cut = "", dict[ToolCallId, bool](), "", False
    names: dict[ToolCallId, str] = {}
    for event in events:
        match event:
            case TurnStarted():
                name, text, was_cut = "", event.message.text, False
                names, ends = {}, {}
            case ToolCallStarted() if (group := event.call.raw_input.get("group")) and isinstance(group, str):
                name = group
                names[event.call.call_id] = str(event.call.raw_input.get("name", ""))
            case ToolCallFinished():
                ends[event.call_id] = event.status is ToolCallStatus.COMPLETED
            case ErrorReported():
                was_cut = event.code in CUT_CODES
            case _:
                pass
    if not name or not was_cut:
        return []
    finished = [one for call_id, one in names.items() if ends.get(call_id)]
    lost = [one for call_id, one in names.items() if not ends.get(call_id)]
    states = [f"{', '.join(each)} {word}" for each, word in ((finished, "finished"), (lost, "did not finish")) if each]
    return [
        f"The run of the group {name} was cut off and does not continue: {'; '.join(states)}. "
        f"Its reports are in the journal; `{one_line(text, SHOWN_GOAL)}` runs all of it again."
    ]


def restored_watches(recorded: Iterable[Recorded]) -> dict[str, WatchSwitched]:
    """The watches that were on in a session when it was closed; a fork begins without."""
    found: dict[str, WatchSwitched] = {}
    for event in (entry.event for entry in recorded if entry.session_seq):
        if isinstance(event, WatchSwitched):
            found.pop(event.name, None)
            if event.on:
                found[event.name] = event
    return found


def lost_notices(jobs: Sequence[Job]) -> list[str]:
    """Notices to the user about commands that ended with the last process."""
    return [
        f"{job.job_id} (`{one_line(job.line, SHOWN_LINE)}`) was lost when the agent's process ended; start it again if "
        "it is still needed."
        for job in jobs
        if not job.end_told
    ]


def running_warnings(jobs: "Jobs | None") -> tuple[str, ...]:
    """Warnings to the user about running commands when files go back."""
    return tuple(
        f"{job.job_id} (`{one_line(job.line, SHOWN_LINE)}`) still runs and may change files again; "
        f"`/background stop {job.job_id}` ends it."
        for job in (jobs.all() if jobs is not None else ())
        if job.is_running
    )


def ended_notices(jobs: "Jobs | None") -> list[str]:
    """Notices to the user about commands that ended on their own since the last turn."""
    ended = jobs.untold_ends() if jobs is not None else ()
    return [f"Background job {job_sentence(job)}" for job in ended] if ended else []


async def job_notes(jobs: "Jobs | None", turn_id: TurnId) -> tuple[str, ...]:
    """Notes for the model on background commands: those that run, and once how each ended.

    Numbers and states only. What a command wrote is data, which the model reads with the tool.
    """
    notes: list[str] = []
    for job in jobs.all() if jobs is not None else ():
        if job.is_running and jobs is not None:
            await jobs.refresh(job)
            new = f" {plural(job.output.new_lines, 'new line')} of output." if job.output.new_lines else ""
            notes.append(f"Background job {job_sentence(job)}{new}")
        elif job.end_told in {"", turn_id}:
            job.end_told = turn_id
            unread = " Its last output was not read yet." if job.output.bytes_unread else ""
            notes.append(f"Background job {job_sentence(job)}{unread}")
    return tuple(notes)


async def run_background(jobs: "Jobs | None", shared: "Constellation", argument: str) -> Result:
    """List background commands, or stop one."""
    if jobs is None:
        return as_result(NO_JOBS)
    words = argument.split()
    if words and (words[0] != "stop" or len(words) != 2):
        raise CommandMisusedError("`/background` lists background commands; `/background stop ID` ends one.")
    if words:
        job = jobs.get(words[1])
        if not job.is_running:
            return as_result(f"{job_sentence(job)} There is nothing to stop.")
        await jobs.stop(job)
        return as_result(job_sentence(job))
    for job in jobs.all():
        await jobs.refresh(job)
    if not jobs.all():
        return as_result(NO_JOBS)
    now = shared.clock.now_ms()
    line, last = Column("Command", code=True), Column("Last line", code=True)
    rows = tuple(_cells(job, now) for job in jobs.all())
    return as_result(Table(columns("Job", line, "State", "For", last), rows), "Stop one with `/background stop ID`.")


def jobs_summary(jobs: "Jobs | None") -> str:
    """Numbers of running and ended commands, for /status; empty when there were none."""
    known = jobs.all() if jobs is not None else ()
    running = running_jobs(jobs)
    return f"{running} running, {len(known) - running} ended" if known else ""


def running_jobs(jobs: "Jobs | None") -> int:
    """Number of running background commands."""
    return running_of(jobs.all()) if jobs is not None else 0


def _cells(job: Job, now: int) -> tuple[str, ...]:
    seconds = ((job.ended_at_ms or now) - job.started_at_ms) // 1000
    last = one_line(job.output.last_line(), SHOWN_LINE)
    return job.job_id, one_line(job.line, SHOWN_LINE), state_of(job), duration(seconds), last


def duration(seconds: int) -> str:
    """A duration in its two largest units, as `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
