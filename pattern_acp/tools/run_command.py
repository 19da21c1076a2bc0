"""The tool run_command.

Owns: what the user sees while a command runs and what the model reads when it ended. Must not know: which shell runs
it, or whether the editor or we own the terminal beyond what `RunningCommand` says.

A command that ends with another exit code than 0 is a result for the model, not an error: tests that fail are what it
wanted to know. The user sees it as failed, as clients show it of other agents. For the model the call fails only when
the command could not start, hit its time limit, or waits for input in a terminal of the client, where nobody may be
able to type. Our own commands in the foreground have no input and no terminal to ask
on.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Protocol

import anyio
import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Origin, RunCommand
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import PLATFORM
from pattern_acp.domain.text_limits import cut_middle, fenced, one_line, plain_output
from pattern_acp.domain.tool_calls import Advised, TerminalContent, TextContent, ToolContent, ToolKind
from pattern_acp.policy.nested_lines import program_on_screen
from pattern_acp.processes.confinement import Profile, stopped_by_sandbox
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    COMMAND_SECONDS,
    CodeTarget,
    NotAvailableError,
    PreparedCall,
    Progress,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
    WrongTargetError,
    confirm_target,
    find_target,
)
from pattern_acp.tools.job import has_settled, job_outcome, without_tokens
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.git import program_setting
from pattern_acp.workspace.jobs import OUTPUT_BYTES, ends_with_prompt
from pattern_acp.workspace.kinds import inspect_path
from pattern_acp.workspace.shell import reading_variables
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand

DEFAULT_SECONDS = COMMAND_SECONDS
"""Time limit when neither the model nor the user sets one (issue 2, section 4)."""

MOST_SECONDS = 1_800
"""Longest time limit that the model may ask for: half an hour covers long test runs, and a turn must end."""

OUTPUT_LIMIT = 4_000_000
"""Bytes of output stored for the journal; the newest when there is more."""

SHOWN_TAIL = 4_000
"""Characters of output shown while the command runs; each showing sends them all again (zed#60134)."""

SHOW_SECONDS = 1.0
"""Least time between two showings of running output."""

AFTERMATH_SECONDS = 3.0
"""Longest wait for the end of a command that was asked to end."""

FIRST_LOOK_SECONDS = 3.0
"""Time to watch a command in the background before the model continues: a failure at once is reported at once."""

FIRST_PROMPT_LOOK_SECONDS = 1.0
"""Time until a client's terminal is first checked for a question; each next check comes after twice the time."""

LAST_PROMPT_LOOK_SECONDS = 30.0
"""The longest time between two such looks: each brings the whole output over the wire."""

NO_OUTPUT = "(no output)"

_SUCCEEDED = re.compile(r"\AExit code 0 after [\d.]+ s\.\n")

STATUS_ROOM = 300
"""Characters of the result reserved for exit code and duration."""


class RunCommandArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of run_command."""

    command: Annotated[str, Meta(min_length=1)]
    timeout_seconds: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] | None = None
    cwd: Annotated[str, Meta(min_length=1)] | None = None
    background: bool = False
    interactive: bool = False
    description: str = ""


class RunCommandTool:
    """Runs one shell line and waits for its end."""

    spec = ToolSpec(
        "run_command",
        f"Run a shell command, {DEFAULT_SECONDS} s by default (interactive: you type with job). "
        "Read, search and edit with other tools.",
        input_schema(RunCommandArguments),
    )
    kind = ToolKind.EXECUTE
    changes_things = True

    def __init__(
        self,
        *,
        show_seconds: float = SHOW_SECONDS,
        prompt_look_seconds: float = FIRST_PROMPT_LOOK_SECONDS,
        first_look_seconds: float = FIRST_LOOK_SECONDS,
    ) -> None:
        """`show_seconds` is the least time between two showings of running output; see the constants."""
        self._show_seconds = show_seconds
        self._prompt_look_seconds = prompt_look_seconds
        self._first_look_seconds = first_look_seconds

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, RunCommandArguments)
        require_command_text(asked.command)
        folder = await find_target(asked.cwd or context.cwd, context)
        reading, git_setting = await anyio.to_thread.run_sync(_reading_facts, asked, folder)
        goes_on = asked.background or asked.interactive
        if not goes_on:
            _require_no_screen(asked.command)
        variables = reading_variables() if reading else {}
        run = (
            partial(start_job, look_seconds=self._first_look_seconds, variables=variables, call_id=call_id)
            if goes_on
            else partial(self._run, variables=variables, call_id=call_id)
        )
        limits = context.limits
        return PreparedCall(
            # In front, since a long command is cut behind.
            title=one_line(f"In the background: {asked.command}" if goes_on else asked.command),
            accesses=(RunCommand(asked.command, folder.resolved, git_setting),),
            run=partial(run, asked, folder, context),
            preview=_preview(asked, folder, context),
            run_confined=partial(_run_confined, run, limits, asked, folder, context) if limits is not None else None,
        )

    async def _run(
        self,
        asked: RunCommandArguments,
        folder: CodeTarget,
        context: ToolContext,
        progress: Progress,
        *,
        variables: Mapping[str, str],
        call_id: ToolCallId,
        profile: Profile | None = None,
    ) -> ToolOutcome:
        await _check_folder(folder)
        request = CommandRequest(asked.command, folder.path, variables, output_limit=OUTPUT_LIMIT, profile=profile)
        began = anyio.current_time()
        try:
            async with AsyncExitStack() as stack:
                command = await stack.enter_async_context(context.terminal.start(request))
                content = _terminal_content(command, asked, folder)
                limit = asked.timeout_seconds or context.command_seconds
                run = _Run(content, limit, began, self._show_seconds, self._prompt_look_seconds)
                # The client keeps a terminal's output only if it was embedded before its release (ACP, terminals).
                await progress.show((run.terminal,))
                status = await _wait(command, run, progress)
                if status is None and context.jobs is not None and (run.asks or context.keeps_slow_commands):
                    return await _move_to_background(run, command, stack, request, context, call_id)
                if status is None:
                    status = await _end(command, run, progress)
                seconds = anyio.current_time() - began
                output = await command.output()
        finally:
            context.command_ended()
        limit = max(context.result_limit - STATUS_ROOM, 0)
        outcome = _outcome(run, _how_it_ended(run, status, seconds), output, limit, status)
        if profile is not None and status.exit_code:
            stopped = await anyio.to_thread.run_sync(stopped_by_sandbox, output.text, profile, folder.path)
            outcome = replace(outcome, stopped=stopped)
        return replace(_marked(outcome, status), raw_output={"exit_code": None if run.timed_out else status.exit_code})


class _Runs(Protocol):
    async def __call__(
        self,
        asked: RunCommandArguments,
        folder: CodeTarget,
        context: ToolContext,
        progress: Progress,
        *,
        profile: Profile | None = None,
    ) -> ToolOutcome:
        """Run a command, within `profile` if there is one."""
        ...


async def _run_confined(
    run: _Runs,
    limits: Callable[[], Awaitable[Profile]],
    asked: RunCommandArguments,
    folder: CodeTarget,
    context: ToolContext,
    progress: Progress,
) -> ToolOutcome:
    try:
        profile = await limits()
    except OSError as error:
        raise ToolFailedError(f"The sandbox could not be prepared ({error}); the command was not run.") from error
    return await run(asked, folder, context, progress, profile=profile)


def _reading_facts(asked: RunCommandArguments, folder: CodeTarget) -> tuple[bool, str]:
    """Return whether the line only reads, and the setting of its repositories by which git would run a program."""
    if folder.is_elsewhere:
        # Its programs and the settings of its repositories cannot be seen.
        return False, ""
    # Late: the grammar is read with it.
    from pattern_acp.policy.reading import git_folders, surely_reads

    setting = program_setting(git_folders(asked.command, folder.resolved))
    # Confined or not: what policy makes of it, and whether it asks, is not known here.
    return not setting and surely_reads(asked.command, windows=PLATFORM.windows, confined=True), setting


async def start_job(
    asked: RunCommandArguments,
    folder: CodeTarget,
    context: ToolContext,
    progress: Progress,
    *,
    look_seconds: float,
    variables: Mapping[str, str],
    call_id: ToolCallId,
    profile: Profile | None = None,
) -> ToolOutcome:
    """Start a command in the background, and look at it for `look_seconds` at most.

    Raises:
        ToolFailedError: there is no background here.
        WorkspaceError: the command could not be started.
    """
    if context.jobs is None:
        raise NotAvailableError("Nothing can be run in the background here", advice="run the command without it.")
    await _check_folder(folder)
    request = CommandRequest(
        asked.command,
        folder.path,
        variables,
        output_limit=OUTPUT_BYTES,
        takes_input=asked.interactive,
        is_background=True,
        profile=profile,
    )
    job = await context.jobs.start(request, call_id)
    if job.command is not None and job.command.client_owned:
        await progress.show((_terminal_content(job.command, asked, folder),))
    await context.jobs.wait(job, look_seconds, until=has_settled)
    outcome = _marked(job_outcome(job, limit=context.result_limit), job.status)
    if profile is not None and job.status is not None and job.status.exit_code:
        stopped = await anyio.to_thread.run_sync(stopped_by_sandbox, outcome.text, profile, folder.path)
        outcome = replace(outcome, stopped=stopped)
    return outcome


def _marked(outcome: ToolOutcome, status: ExitStatus | None) -> ToolOutcome:
    """The result with the code of a failure, if the command ended badly."""
    if status is None or outcome.is_error or not (status.exit_code or status.signal is not None):
        return outcome
    return replace(outcome, failure="tool.command-failed")


async def _move_to_background(
    run: "_Run",
    command: RunningCommand,
    stack: AsyncExitStack,
    request: CommandRequest,
    context: ToolContext,
    call_id: ToolCallId,
) -> ToolOutcome:
    jobs = context.jobs
    if jobs is None:
        raise NotAvailableError("Nothing can be run in the background here.")
    jobs.check_room()
    job = await jobs.adopt(command, stack, request, call_id, run.tail)
    await jobs.refresh(job)
    why = "" if run.asks else f"After {run.time_limit} s it continues in the background; stop it if it hangs."
    return job_outcome(job, limit=context.result_limit, first=why, is_error=run.asks)


async def _check_folder(folder: CodeTarget) -> None:
    await confirm_target(folder)
    if folder.is_elsewhere:
        return
    facts = await anyio.to_thread.run_sync(inspect_path, folder.path)
    if facts.kind != "directory":
        raise WrongTargetError(f"{folder.shown} is not a folder; the command was not run.")


def require_command_text(command: str) -> None:
    """Check that a shell can take the text of the command.

    Raises:
        ToolInputError: it holds NUL or half of a surrogate pair, at which a shell or a script would end or change.
    """
    if "\0" in command or any("\ud800" <= character <= "\udfff" for character in command):
        raise ToolInputError(
            "`command` holds a NUL character or half of a surrogate pair, which no shell takes", advice="leave it out."
        )


def _require_no_screen(command: str) -> None:
    name = program_on_screen(command, windows=PLATFORM.windows)
    if name:
        raise ToolInputError(
            f"`{name}` waits for keys of a user who sees its screen, so it was not run.",
            advice="Change files with edit_file, read them with read_file, use an option with which it needs no "
            "screen, or set interactive.",
        )


class _Run(Struct):
    """The state of one run so far."""

    terminal: TerminalContent
    time_limit: int
    shown_at: float
    show_seconds: float
    prompt_look_seconds: float
    tail: str = ""
    timed_out: bool = False
    asks: bool = False
    """True if it ended in a question that nobody answered."""


def _preview(asked: RunCommandArguments, folder: CodeTarget, context: ToolContext) -> tuple[ToolContent, ...]:
    where = "" if folder.path == context.cwd else f"In {folder.shown}:"
    lines = [text for text in (one_line(asked.description), where, fenced(asked.command, "sh")) if text]
    return (TextContent("\n".join(lines)),)


def _terminal_content(command: RunningCommand, asked: RunCommandArguments, folder: CodeTarget) -> TerminalContent:
    return TerminalContent(command.terminal_id, asked.command, folder.path, client_owned=command.client_owned)


async def _wait(command: RunningCommand, run: _Run, progress: Progress) -> ExitStatus | None:
    """Wait for its end; None when its time is over or it asks something."""
    with anyio.move_on_after(run.time_limit):
        if not command.client_owned:
            return await _follow(command, run, progress)
        return await _wait_in_client(command, run)
    run.timed_out = True
    return None


async def _wait_in_client(command: RunningCommand, run: _Run) -> ExitStatus | None:
    ended: list[ExitStatus] = []
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_watch_for_question, command, run, group.cancel_scope)
            ended.append(await command.wait_for_exit())
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return ended[0] if ended else None


async def _watch_for_question(command: RunningCommand, run: _Run, asked: anyio.CancelScope) -> None:
    """Cancel `asked` once two looks in a row find the same output, and it ends in a question."""
    pause, before = run.prompt_look_seconds, None
    while True:
        await anyio.sleep(pause)
        pause = min(pause * 2, LAST_PROMPT_LOOK_SECONDS)
        try:
            text = (await command.output()).text
        except WorkspaceError:
            return
        if text == before and ends_with_prompt(text):
            run.asks = True
            asked.cancel()
            return
        before = text


async def _end(command: RunningCommand, run: _Run, progress: Progress) -> ExitStatus:
    with anyio.move_on_after(AFTERMATH_SECONDS):
        await command.kill()
        return await _follow(command, run, progress)
    return ExitStatus(None)


async def _follow(command: RunningCommand, run: _Run, progress: Progress) -> ExitStatus:
    if command.client_owned:
        return await command.wait_for_exit()
    while chunk := await command.next_output():
        await progress.terminal_output(command.terminal_id, chunk)
        run.tail = (run.tail + chunk)[-SHOWN_TAIL:]
        if anyio.current_time() - run.shown_at >= run.show_seconds:
            run.shown_at = anyio.current_time()
            await progress.show((replace(run.terminal, output=plain_output(run.tail)),))
    status = await command.wait_for_exit()
    await progress.terminal_exit(command.terminal_id, status.exit_code, status.signal)
    return status


def _how_it_ended(run: _Run, status: ExitStatus, seconds: float) -> Advised:
    if run.asks:
        return Advised(
            f"The command was ended after {seconds:.1f} s: it waited for input, which nobody could give it.",
            " Use flags that need no answer.",
        )
    if run.timed_out:
        return Advised(
            f"The command was ended at its time limit of {run.time_limit} s.",
            f" A longer one needs timeout_seconds (at most {MOST_SECONDS}) or fewer things to do.",
        )
    if status.signal is not None:
        return Advised(f"Ended by {status.signal} after {seconds:.1f} s.", "")
    code = "unknown" if status.exit_code is None else status.exit_code
    return Advised(f"Exit code {code} after {seconds:.1f} s.", "")


def printed_by(result: str) -> str:
    """Return the output of a command, from a result that says that it succeeded; any other result is returned whole."""
    output = _SUCCEEDED.sub("", result, count=1)
    return "" if output == NO_OUTPUT != result else output


def _outcome(run: _Run, end: Advised, output: CommandOutput, limit: int, status: ExitStatus) -> ToolOutcome:
    text, note = without_tokens(plain_output(output.text))
    cut = cut_middle(text, limit)
    if status.exit_code and not run.terminal.client_owned and ends_with_prompt(output.text):
        end = Advised(
            f"{end.shown} It asked for input, and there is none.",
            f"{end.advice} Use flags that need no answer, or set interactive.",
        )
    lost = f" Only the newest {OUTPUT_LIMIT:,} bytes of output are saved." if output.truncated else ""
    body = cut.text.rstrip("\n") or NO_OUTPUT
    return ToolOutcome(
        f"{end.shown}{end.advice}{lost}{f' {note}' if note else ''}\n{body}",
        is_error=run.timed_out or run.asks,
        content=_shown(run, end.shown, cut.text),
        full_output=without_tokens(output.text)[0] if cut.bytes_cut else "",
        origin=Origin.COMMAND,
    )


def _shown(run: _Run, sentence: str, output: str) -> tuple[ToolContent, ...]:
    # A client that shows a live terminal gets no exit code from us; one line says it everywhere.
    return (replace(run.terminal, output=output or NO_OUTPUT), TextContent(sentence))
