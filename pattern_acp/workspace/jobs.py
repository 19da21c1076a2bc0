"""Background commands of a session, and their output.

Owns: `Jobs`, the background commands of one session: starting them or taking over one that runs, following their
output, waiting, writing and stopping. Each is driven by one task in the task group of the jobs, and ends with it. Must
not know: tools, the journal, or what the editor shows; a `JobObserver` learns of it.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import one_line
from pattern_acp.workspace.errors import InputClosedError, JobRefusedError
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

OUTPUT_BYTES = 1_000_000
"""Limit on stored output of one background command, in bytes."""

_OVERLAP = 400
"""Characters by which the position in a shortened output is found again."""

_TAIL = 2_000
"""Bytes at the end that are searched for the last line."""

_ESCAPES = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>])")

_PROMPT = late_pattern(
    r"(?:\[[yY]/[nN](?:/\w+)*\]|\([yY](?:es)?/[nN]o?(?:/[^)]*)?\)|\(END\)|--More--(?:\(\d+%\))?|(?:pass(?:word|phrase|code)|username|"
    r"login|token|pin)\b[^:]*:|press\s+\S.*|hit\s+(?:enter|any)\b.*|^\?\s\S.*|[:?]\s\([^()]*\)|^\(\w+\)|[?:>$#»])\s*$",
    re.IGNORECASE,
)
"""Ends of lines that wait for an answer: a choice, a default, a secret, a pager, a shell or interpreter."""


_SCREEN_TAKEN, _SCREEN_LEFT = "\x1b[?1049h", "\x1b[?1049l"
"""The sequences with which pagers, editors and dialogs take the whole screen, and give it back (xterm)."""

_BAR = late_pattern(r"\x1b\[7m[^\x1b\r\n]+\x1b\[(?:0|27)?m(?:\x1b\[K)?\Z")
"""A bar in reverse at the very end, with which `less` and `more` wait for a key."""


SHOWN_LINE = 120
"""Characters of a command that a sentence quotes."""


class NewOutput(Struct, frozen=True):
    """Output since the last reading, and the number of bytes before it that were dropped."""

    text: str
    bytes_dropped: int = 0


class JobOutput:
    """The newest `limit` bytes of output as UTF-8, and the position up to which it was read."""

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._first = 0
        """Number of the first byte that is stored."""
        self._read = 0
        self.new_lines = 0
        """Line ends since the last reading."""

    @property
    def bytes_written(self) -> int:
        """All bytes so far, stored or dropped."""
        return self._first + len(self._kept)

    @property
    def bytes_unread(self) -> int:
        """Bytes since the last reading, stored or dropped."""
        return self.bytes_written - self._read

    def append(self, text: str) -> None:
        """Add output."""
        self.new_lines += text.count("\n")
        self._kept += text.encode("utf-8", "surrogatepass")
        surplus = len(self._kept) - self._limit
        if surplus > 0:
            while surplus < len(self._kept) and self._kept[surplus] & 0xC0 == 0x80:
                surplus += 1  # a character is not cut in two
            del self._kept[:surplus]
            self._first += surplus

    def take_whole(self, output: CommandOutput) -> bool:
        """Add the new part of an output that comes as a whole each time; return whether there was any."""
        known = self._text(self._first)
        whole = output.text
        if not output.truncated and whole.startswith(known) and not self._first:
            fresh = whole[len(known) :]
        else:
            fresh = _behind(known[-_OVERLAP:], whole)
        if fresh:
            self.append(fresh)
        return bool(fresh)

    def take_new(self) -> NewOutput:
        """Return the unread output, and mark it as read."""
        start = max(self._read, self._first)
        new = NewOutput(self._text(start), start - self._read)
        self._read = self.bytes_written
        self.new_lines = 0
        return new

    def last_line(self) -> str:
        """The last line with text, without control sequences."""
        lines = self._tail().splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @property
    def text(self) -> str:
        """All output that is stored."""
        return self._text(self._first)

    def ends_with_prompt(self) -> bool:
        """Return whether the output ends in a line that seems to ask for an answer."""
        return ends_with_prompt(self._tail())

    def _tail(self) -> str:
        return _plain(self._kept[-_TAIL:].decode("utf-8", "replace"))

    def _text(self, start: int) -> str:
        return self._kept[start - self._first :].decode("utf-8", "replace")


def ends_with_prompt(output: str) -> bool:
    """Return whether output ends in a line that seems to ask for an answer."""
    if output.rfind(_SCREEN_TAKEN) > output.rfind(_SCREEN_LEFT):
        return True
    tail = _plain(output[-_TAIL:])
    if _BAR.search(output[-_TAIL:]) is not None:
        return True
    # A prompt leaves the cursor behind it; a line with an end is a statement, not a question.
    return not tail.endswith("\n") and _PROMPT.search(tail.rsplit("\n", 1)[-1]) is not None


def _behind(end: str, whole: str) -> str:
    """The part of `whole` after the text that ends in `end`; `whole` may have lost its own beginning."""
    place = whole.rfind(end) if end else -1
    if place >= 0:
        return whole[place + len(end) :]
    shared = next((size for size in range(min(len(end), len(whole)), 0, -1) if end.endswith(whole[:size])), 0)
    return whole[shared:]


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text).replace("\r\n", "\n")


logger = logging.getLogger(__name__)

MOST_RUNNING = 16
"""Limit on background commands of one session that run at once."""

QUIET_SECONDS = 1.0
"""Silence of a command after which its last line may count as a question."""

POLL_SECONDS = 0.5
"""Interval between two looks at the output of a client's terminal, which does not report new output."""

CLOSE_SECONDS = 2.5
"""Longest wait for the end of stopped commands: a second to clean up, and their records."""

WRITE_SECONDS = 5.0
"""Longest wait for a command that does not take its input."""

_RECORD_SECONDS = 1.5

SEEN = "seen"


class JobState(StrEnum):
    """State of a job."""

    RUNNING = "running"
    EXITED = "exited"
    STOPPED = "stopped"
    LOST = "lost"
    """The process of the agent died, and its command with it, or its end is unknown."""


class Job(Struct):
    """One background command."""

    job_id: str
    line: str
    cwd: str
    started_at_ms: int
    command: RunningCommand | None = None
    """None for one of an earlier process."""
    is_confined: bool = False
    """True when it runs in the sandbox, and so does what is typed into it."""
    call_id: str = ""
    """The tool call that started it; empty for one of an earlier process."""
    state: JobState = JobState.RUNNING
    status: ExitStatus | None = None
    ended_at_ms: int | None = None
    output: JobOutput = field(default_factory=JobOutput)
    quiet_since: float = 0.0
    """Time of the last output, by the event loop's clock."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, at new output and at the end."""
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    end_told: str = ""
    """The turn in which the model learned how it ended, or `SEEN` when it saw so on its own."""

    @property
    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self.state is JobState.RUNNING

    @property
    def takes_input(self) -> bool:
        """Return whether it accepts input."""
        return self.is_running and self.command is not None and self.command.input is not None

    def is_waiting_for_input(self) -> bool:
        """Return whether it was silent for a while and either is seen to read its input or ends in a question."""
        if not self.is_running or anyio.current_time() - self.quiet_since < QUIET_SECONDS:
            return False
        typed = self.command.input if self.command is not None else None
        return self.output.ends_with_prompt() or (typed is not None and typed.is_awaited())

    def note(self) -> None:
        """Wake everybody who waits for a change."""
        self.changed.set()
        self.changed = anyio.Event()


class JobObserver(Protocol):
    """Observer of jobs; the record comes before anything else is done with a job (rule R2)."""

    async def started(self, job: Job) -> None:
        """A command runs in the background from now on."""
        ...

    async def wrote(self, job: Job, text: str) -> None:
        """It wrote something."""
        ...

    async def ended(self, job: Job) -> None:
        """It ended."""
        ...

    async def counted(self, running: int) -> None:
        """Report the number of running commands; not called for a session that ends."""
        ...


class Jobs:
    """The background commands of one session, by id."""

    def __init__(
        self, terminal: Terminal, tasks: TaskGroup, observer: JobObserver, clock: Clock, known: Sequence[Job] = ()
    ) -> None:
        """`known` are the jobs of earlier processes; their ids are not used again."""
        self._terminal = terminal
        self._tasks = tasks
        self._observer = observer
        self._clock = clock
        self._jobs = {job.job_id: job for job in known}
        self._closed = False

    def all(self) -> tuple[Job, ...]:
        """Every job of the session, oldest first."""
        return tuple(self._jobs.values())

    def untold_ends(self) -> tuple[Job, ...]:
        """Those that ended on their own since the model was last told of any."""
        if not self._jobs:
            return ()
        return tuple(job for job in self._jobs.values() if job.state is JobState.EXITED and not job.end_told)

    def get(self, job_id: str) -> Job:
        """The job of this id. Raises WorkspaceError where there is none."""
        job = self._jobs.get(job_id) or self._jobs.get(f"job{job_id}")
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise JobRefusedError(f"There is no job {job_id[:40]!r}; this session has {known}.")
        return job

    async def start(self, request: CommandRequest, call_id: str = "") -> Job:
        """Start a command in the background. Raises WorkspaceError where it could not be started, or too many run."""
        self.check_room()
        async with AsyncExitStack() as stack:
            command = await stack.enter_async_context(self._terminal.start(request))
            return await self.adopt(command, stack, request, call_id)

    def check_room(self) -> None:
        """Check that one more may run.

        Raises:
            WorkspaceError: too many run, or the session ends.
        """
        if self._closed:
            raise JobRefusedError("The session ends; nothing can be started in the background.")
        if running_of(self._jobs.values()) >= MOST_RUNNING:
            raise JobRefusedError(f"{MOST_RUNNING} background commands run already; stop one first.")

    async def adopt(
        self,
        command: RunningCommand,
        stack: AsyncExitStack,
        request: CommandRequest,
        call_id: str = "",
        so_far: str = "",
    ) -> Job:
        """Take over a running command that wrote `so_far`; `stack` is closed at its end, and no longer by the caller.

        Raises:
            DatabaseError: it could not be recorded; the caller still has the command.
        """
        is_confined = request.profile is not None
        job_id = f"job{len(self._jobs) + 1}"
        job = Job(job_id, request.line, request.cwd, self._clock.now_ms(), command, is_confined, call_id)
        job.output.append(so_far)
        job.quiet_since = anyio.current_time()
        self._jobs[job.job_id] = job
        try:
            # Cancelled in the middle, it could be recorded without ever getting an end.
            with anyio.CancelScope(shield=True):
                await self._observer.started(job)
        except BaseException:
            del self._jobs[job.job_id]
            raise
        self._tasks.start_soon(self._drive, job, stack.pop_all(), name=f"background command {job.job_id}")
        await self._observer.counted(running_of(self._jobs.values()))
        return job

    async def refresh(self, job: Job) -> None:
        """Read the command's new output; only terminals of the client have to be asked."""
        if job.command is None or not job.command.client_owned or not job.is_running:
            return
        try:
            taken = job.output.take_whole(await job.command.output())
        except PatternError as error:
            logger.info("the output of a background command is not known: %s", error.sentence)
            return
        if taken:
            job.quiet_since = anyio.current_time()

    async def wait(self, job: Job, seconds: float, *, until: Callable[[Job], bool]) -> None:
        """Wait until `until` holds, the job ended, or it seems to wait for input; at most so many seconds."""
        with anyio.move_on_after(seconds):
            while True:
                await self.refresh(job)
                if not job.is_running or until(job) or job.is_waiting_for_input():
                    return
                with anyio.move_on_after(POLL_SECONDS):
                    await job.changed.wait()

    async def write(self, job: Job, data: bytes) -> None:
        """Write to the command's input. Raises InputClosedError where it takes none."""
        typed = job.command.input if job.command is not None and job.is_running else None
        if typed is None:
            raise InputClosedError(f"{job.job_id} takes no input{'' if job.is_running else ': it has ended'}.")
        with anyio.move_on_after(WRITE_SECONDS) as scope:
            await typed.write(data)
        if scope.cancelled_caught:
            raise InputClosedError(f"{job.job_id} did not take the input within {WRITE_SECONDS:g} s.")
        job.quiet_since = anyio.current_time()

    async def stop(self, job: Job) -> None:
        """End the command with everything that it started; harmless when it has ended."""
        if not job.is_running or job.command is None:
            return
        job.state = JobState.STOPPED
        job.scope.cancel()
        with anyio.move_on_after(CLOSE_SECONDS):
            await job.done.wait()

    def close(self) -> None:
        """Ask all commands to end, and start no more. Idempotent, and does not wait."""
        self._closed = True
        for job in self._jobs.values():
            if job.is_running and job.command is not None:
                job.state = JobState.STOPPED
                job.scope.cancel()

    async def wait_closed(self) -> None:
        """Wait, a bounded time, until the stopped commands are gone."""
        with anyio.move_on_after(CLOSE_SECONDS):
            for job in self._jobs.values():
                if job.command is not None and not job.is_running:
                    await job.done.wait()

    async def _drive(self, job: Job, stack: AsyncExitStack) -> None:
        try:
            with job.scope:
                job.status = await self._follow(job)
        except PatternError as error:
            logger.info("the end of a background command is not known: %s", error.sentence)
        except Exception:
            logger.exception("following a background command failed")
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(job, stack)

    async def _follow(self, job: Job) -> ExitStatus:
        command = job.command
        if command is None:
            return ExitStatus(None)
        if command.client_owned:
            status = await command.wait_for_exit()
            await self.refresh(job)
            return status
        while text := await command.next_output():
            job.output.append(text)
            job.quiet_since = anyio.current_time()
            job.note()
            await self._observer.wrote(job, text)
        return await command.wait_for_exit()

    async def _end(self, job: Job, stack: AsyncExitStack) -> None:
        if job.state is JobState.RUNNING:
            job.state = JobState.EXITED if job.status is not None else JobState.LOST
        try:
            await stack.aclose()
        except Exception:
            logger.exception("a background command could not be ended")
        job.ended_at_ms = self._clock.now_ms()
        try:
            with anyio.move_on_after(_RECORD_SECONDS):
                await self._observer.ended(job)
        except PatternError:
            logger.exception("the end of a background command could not be recorded")
        job.done.set()
        job.note()
        if not self._closed:
            with anyio.move_on_after(_RECORD_SECONDS):
                await self._observer.counted(running_of(self._jobs.values()))


def running_of(jobs: Iterable[Job]) -> int:
    """The number of running ones."""
    return sum(job.is_running for job in jobs)


def state_of(job: Job) -> str:
    """Describe the state of a job, as the end of a sentence."""
    match job.state:
        case JobState.RUNNING:
            return "is waiting for input" if job.is_waiting_for_input() else "is running"
        case JobState.STOPPED:
            return "was stopped"
        case JobState.LOST:
            return "was lost: the agent's process ended, or its end could not be seen"
        case JobState.EXITED:
            status = job.status
            if status is not None and status.signal is not None:
                return f"was ended by {status.signal}"
            code = "an unknown code" if status is None or status.exit_code is None else f"code {status.exit_code}"
            return f"exited with {code}"


def job_sentence(job: Job) -> str:
    """One sentence about a job."""
    return f"{job.job_id} (`{one_line(job.line, SHOWN_LINE)}`) {state_of(job)}."
