"""The tool job: background commands that run already.

Owns: reading, writing, stopping and listing them. Must not know: how they run. Starting one is run_command's business.

What is written to a command is decided on like a command, in the form of the here-document that would give a program
the same text, and as a shell line of its own: so a shell or an interpreter in the background is no way around policy.
"""

from enum import StrEnum
from functools import partial
from typing import Annotated

import anyio
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TextContent, ToolContent, ToolKind
from pattern_acp.policy.access import Access, NoEffect, RunCommand
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.job_results import SHOWN_LINE, job_list, job_outcome, job_sentence
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.text_limits import fenced, one_line
from pattern_acp.workspace.jobs import Job, Jobs
from pattern_acp.workspace.paths import resolve_path

MOST_WAIT = 120
"""Longest wait for output, in seconds: as long as a command in the foreground may take."""

ANSWER_SECONDS = 5
"""How long the answer to what was written is waited for."""

SETTLED_SECONDS = 0.5
"""Silence after which output counts as complete for now."""

LONGEST_LINE = 4_000
"""Characters of a line that a terminal passes on whole: Linux keeps 4,096 bytes of one (N_TTY_BUF_SIZE)."""


class JobAction(StrEnum):
    """What to do."""

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
    text: Annotated[str, Meta(description="For write.")] = ""
    key: Annotated[JobKey, Meta(description="For write: pressed behind text.")] = JobKey.ENTER
    wait_seconds: Annotated[int, Meta(ge=0, le=MOST_WAIT, description="For new output or the end.")] | None = None


class JobTool:
    """Reads, answers, stops and lists background commands."""

    spec = ToolSpec(
        "job",
        "Background commands of run_command: read new output, write input, stop, or list them.",
        input_schema(JobArguments),
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
            raise ToolInputError(f"Name the `job` to {asked.action}, as in job1; action list shows them.")
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
        raise ToolInputError(f"`text` has a line of more than {LONGEST_LINE:,} characters; put it into a file instead.")
    if not asked.text and asked.key is JobKey.NONE:
        raise ToolInputError("There is nothing to write: give `text`, a `key`, or both.")
    typed = one_line(asked.text, SHOWN_LINE) or asked.key.value
    folder = await anyio.to_thread.run_sync(resolve_path, job.cwd)
    return PreparedCall(
        f"Write to {job.job_id} ({one_line(job.line, SHOWN_LINE)}): {typed}",
        input_accesses(asked, job, folder),
        partial(_write, asked, jobs, job, context.result_limit),
        preview=_preview(asked, job),
    )


def input_accesses(asked: JobArguments, job: Job, folder: str) -> tuple[Access, ...]:
    """What policy decides on: nothing for a key that only ends something, else the text as commands."""
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
            f"{job_sentence(job)} It runs in the editor's terminal, which takes no input from here; stop it and "
            "start it with interactive."
        )
    await jobs.write(job, asked.text.encode("utf-8", "replace") + _BYTES[asked.key])
    seconds = ANSWER_SECONDS if asked.wait_seconds is None else asked.wait_seconds
    before = job.output.bytes_written
    await jobs.wait(job, seconds, until=lambda one: one.output.bytes_written > before and has_settled(one))
    return job_outcome(job, limit=limit)


def has_settled(job: Job) -> bool:
    """Whether it wrote something and then nothing for a moment; what may be a question is given more time."""
    written = bool(job.output.bytes_written) and not job.output.ends_with_prompt()
    return written and anyio.current_time() - job.quiet_since >= SETTLED_SECONDS


def _has_news(job: Job) -> bool:
    return job.output.bytes_unread > 0 and has_settled(job)
