"""The tool job: background commands that run already, and the words about them.

Owns: reading, writing, stopping and listing them. Must not know: how they run. Starting one is run_command's business.

What is written to a command is decided on like a command, in the form of the here-document that would give a program
the same text, and as a shell line of its own: so a shell or an interpreter in the background is no way around policy.
"""

from enum import StrEnum
from functools import partial
from typing import Annotated

import anyio
from msgspec import Meta, Struct

from pattern_acp.domain.access import Access, NoEffect, Origin, RunCommand
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.text_limits import cut_middle, fenced, one_line, plain_output, plural
from pattern_acp.domain.tool_calls import Advised, TerminalContent, TextContent, ToolContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.jobs import SEEN, SHOWN_LINE, Job, Jobs, job_sentence

STATUS_ROOM = 500
"""Characters of a result reserved for the sentences in front of the output."""

SHOWN_TAIL = 4_000
"""Characters of new output that the user sees."""


def input_advice(job: Job) -> Advised:
    """Describe what a job waits for, and advise on it, each behind a blank; both empty when it waits for nothing."""
    if not job.is_waiting_for_input():
        return Advised("", "")
    asked = one_line(job.output.last_line(), SHOWN_LINE)
    question = f" Its last line is {asked!r}." if asked else ""
    if job.takes_input:
        return Advised(question, " Answer with action write of the tool job, or stop it.")
    return Advised(
        f"{question} It runs in the editor's terminal, where only the user can type.",
        " Tell them, or stop it and run it with flags that need no answer, or with interactive.",
    )


def job_outcome(job: Job, *, limit: int, first: str = "", is_error: bool = False) -> ToolOutcome:
    """The state of a job and what it wrote since the last reading, which then counts as read.

    `first` is said before; `limit` is the characters of the whole result.
    """
    if not job.is_running:
        job.end_told = SEEN
    advice = input_advice(job)
    new = job.output.take_new()
    text, note = without_tokens(plain_output(new.text))
    cut = cut_middle(text, max(limit - STATUS_ROOM, 0))
    dropped = f" {new.bytes_dropped:,} bytes of older output are gone." if new.bytes_dropped else ""
    said, read = (
        " ".join(part for part in (first, job_sentence(job) + about + dropped, note) if part)
        for about in (advice.shown, advice.shown + advice.advice)
    )
    body = cut.text.rstrip("\n") or "(no new output)"
    return ToolOutcome(
        f"{read}\n{body}",
        is_error=is_error,
        content=_shown(job, said, text),
        full_output=without_tokens(new.text)[0] if cut.bytes_cut else "",
        origin=Origin.COMMAND,
    )


MASK = "[secret]"
MASKED = f"Tokens and passwords in the output are shown as {MASK}."


def without_tokens(output: str) -> tuple[str, str]:
    """Output with a mark instead of each token of a known shape, and a note when there is one."""
    # Late: its expressions take 10 ms to compile.
    from pattern_acp.memory.secrets import mask_tokens

    masked = mask_tokens(output, MASK)
    return masked, MASKED if masked != output else ""


def job_list(jobs: tuple[Job, ...]) -> str:
    """All jobs, one a line."""
    if not jobs:
        return "There are no background jobs."
    return "\n".join(f"{job_sentence(job)} {plural(job.output.new_lines, 'new line')}." for job in jobs)


def _shown(job: Job, sentence: str, text: str) -> tuple[ToolContent, ...]:
    command = job.command
    if command is not None and command.client_owned and job.is_running:
        return (TerminalContent(command.terminal_id, job.line, job.cwd, client_owned=True), TextContent(sentence))
    tail = text[-SHOWN_TAIL:].strip("\n")
    return (TextContent(fenced(tail, "console")), TextContent(sentence)) if tail else (TextContent(sentence),)


MOST_WAIT = 120
"""Longest wait for output, in seconds: as long as a command in the foreground may take."""

ANSWER_SECONDS = 5
"""Longest wait for the answer to an input."""

SETTLED_SECONDS = 0.5
"""Silence after which output counts as complete for now."""

LONGEST_LINE = 4_000
"""Characters of a line that a terminal passes on whole: Linux keeps 4,096 bytes of one (N_TTY_BUF_SIZE)."""


class JobAction(StrEnum):
    """The action on a job."""

    READ = "read"
    WRITE = "write"
    STOP = "stop"
    LIST = "list"


class JobKey(StrEnum):
    """A key to press behind the text."""

    ENTER = "enter"
    CTRL_C = "ctrl-c"
    CTRL_D = "ctrl-d"
    NONE = "none"


_BYTES = {JobKey.ENTER: b"\n", JobKey.CTRL_C: b"\x03", JobKey.CTRL_D: b"\x04", JobKey.NONE: b""}


class JobArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of job."""

    action: JobAction
    job: Annotated[str, Meta(min_length=1)] | None = None
    text: str = ""
    key: JobKey = JobKey.ENTER
    wait_seconds: Annotated[int, Meta(ge=0, le=MOST_WAIT)] | None = None


class JobTool:
    """Reads, answers, stops and lists background commands."""

    spec = ToolSpec(
        "job",
        "Control background commands.",
        input_schema(JobArguments, unlisted=("wait_seconds",)),
    )
    kind = ToolKind.EXECUTE
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, JobArguments)
        jobs = context.jobs
        if jobs is None:
            raise NotAvailableError("There are no background jobs here.")
        if asked.action is JobAction.LIST:
            return PreparedCall("List background jobs", (NoEffect(),), partial(_list, jobs))
        if asked.job is None:
            raise ToolInputError(
                f"There is no `job` to {asked.action}", advice="name one as in job1; action list shows them."
            )
        job = jobs.get(asked.job)
        shown = f"{job.job_id}: {one_line(job.line, SHOWN_LINE)}"
        match asked.action:
            case JobAction.READ:
                run = partial(_read, jobs, job, asked.wait_seconds or 0, context.result_limit)
                return PreparedCall(f"Read {shown}", (NoEffect(),), run)
            case JobAction.STOP:
                return PreparedCall(f"Stop {shown}", (NoEffect(),), partial(_stop, jobs, job, context.result_limit))
            case JobAction.WRITE:
                return await _prepare_write(asked, jobs, job, context)


async def _prepare_write(asked: JobArguments, jobs: Jobs, job: Job, context: ToolContext) -> PreparedCall:
    if any(len(line) > LONGEST_LINE for line in asked.text.split("\n")):
        raise ToolInputError(
            f"`text` has a line of more than {LONGEST_LINE:,} characters", advice="put it into a file instead."
        )
    if not asked.text and asked.key is JobKey.NONE:
        raise ToolInputError("There is nothing to write", advice="give `text`, a `key`, or both.")
    typed = one_line(asked.text, SHOWN_LINE) or asked.key.value
    folder = await anyio.to_thread.run_sync(resolve_path, job.cwd)
    write = partial(_write, asked, jobs, job, context.result_limit)
    return PreparedCall(
        f"Write to {job.job_id} ({one_line(job.line, SHOWN_LINE)}): {typed}",
        input_accesses(asked, job, folder),
        write,
        preview=_preview(asked, job),
        # What is typed runs where the job runs.
        run_confined=write if job.is_confined else None,
    )


def input_accesses(asked: JobArguments, job: Job, folder: str) -> tuple[Access, ...]:
    """Return the accesses for policy: none for a key that only ends a program, else the text as commands."""
    if not asked.text and asked.key in {JobKey.CTRL_C, JobKey.CTRL_D}:
        return (NoEffect(),)
    mark = "INPUT"
    while mark in asked.text:
        mark += "_"
    fed = RunCommand(f"{job.line} <<'{mark}'\n{asked.text}\n{mark}", folder)
    return (fed, RunCommand(asked.text, folder)) if asked.text.strip() else (fed,)


def _preview(asked: JobArguments, job: Job) -> tuple[ToolContent, ...]:
    written = fenced(asked.text) if asked.text else f"The key {asked.key}"
    return (TextContent(f"To {job.job_id}, `{one_line(job.line, SHOWN_LINE)}`:\n{written}"),)


async def _list(jobs: Jobs, _progress: Progress) -> ToolOutcome:
    for job in jobs.all():
        await jobs.refresh(job)
    text = job_list(jobs.all())
    return ToolOutcome(text, content=(TextContent(text),), origin=Origin.COMMAND)


async def _read(jobs: Jobs, job: Job, seconds: int, limit: int, _progress: Progress) -> ToolOutcome:
    await jobs.wait(job, seconds, until=_has_news)
    return job_outcome(job, limit=limit)


async def _stop(jobs: Jobs, job: Job, limit: int, _progress: Progress) -> ToolOutcome:
    first = "" if job.is_running else "It had ended already."
    await jobs.refresh(job)
    await jobs.stop(job)
    return job_outcome(job, limit=limit, first=first)


async def _write(asked: JobArguments, jobs: Jobs, job: Job, limit: int, _progress: Progress) -> ToolOutcome:
    if job.is_running and not job.takes_input:
        raise NotAvailableError(
            f"{job_sentence(job)} It runs in the editor's terminal, which takes no input from here",
            advice="stop it and start it with interactive.",
        )
    await jobs.write(job, asked.text.encode("utf-8", "replace") + _BYTES[asked.key])
    seconds = ANSWER_SECONDS if asked.wait_seconds is None else asked.wait_seconds
    before = job.output.bytes_written
    await jobs.wait(job, seconds, until=lambda one: one.output.bytes_written > before and has_settled(one))
    return job_outcome(job, limit=limit)


def has_settled(job: Job) -> bool:
    """Tell whether it wrote something and then nothing for a moment; a possible question gets more time."""
    written = bool(job.output.bytes_written) and not job.output.ends_with_prompt()
    return written and anyio.current_time() - job.quiet_since >= SETTLED_SECONDS


def _has_news(job: Job) -> bool:
    return job.output.bytes_unread > 0 and has_settled(job)
