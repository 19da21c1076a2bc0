"""The tool run_command.

Owns: what the person sees while a command runs and what the model reads when it ended. Must not know: which shell runs
it, or whether the editor or we own the terminal beyond what `RunningCommand` says.

A command that ends with another exit code than 0 is a result, not an error: tests that fail are what the model wanted
to know. The call fails only when the command could not start or hit its time limit.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated

import anyio
import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TerminalContent, TextContent, ToolContent, ToolKind
from pattern_acp.policy.access import RunCommand as RunCommandAccess
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolFailedError, ToolInputError, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import Target, confirm_target, find_target
from pattern_acp.tools.text_limits import cut_middle, fenced, one_line, plain_output
from pattern_acp.workspace.kinds import inspect_path
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand

DEFAULT_SECONDS = 120
"""Time limit when the model asks for none (issue 2, section 4)."""

MOST_SECONDS = 1_800
"""Longest time limit that the model may ask for: half an hour covers long test runs, and a turn must end."""

OUTPUT_LIMIT = 4_000_000
"""Bytes of output kept for the journal; the newest when there is more."""

SHOWN_TAIL = 4_000
"""Characters of output shown while the command runs; each showing sends them all again (zed#60134)."""

SHOW_SECONDS = 1.0
"""Least time between two showings of running output."""

AFTERMATH_SECONDS = 3.0
"""Longest wait for the end of a command that was told to end."""

STATUS_ROOM = 300
"""Characters of the result kept free for exit code and duration."""


class RunCommandArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of run_command."""

    command: Annotated[str, Meta(min_length=1)]
    timeout_seconds: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] = DEFAULT_SECONDS
    cwd: Annotated[str, Meta(min_length=1)] | None = None
    description: Annotated[str, Meta(description="What it does, in a few words for the person.")] = ""


class RunCommand:
    """Runs one shell line and waits for its end."""

    spec = ToolSpec(
        "run_command",
        f"Run a shell command without input and wait for it ({DEFAULT_SECONDS} s unless timeout_seconds is given). "
        "Use the file tools to read, search and edit.",
        input_schema(RunCommandArguments),
    )
    kind = ToolKind.EXECUTE
    changes_things = True

    def __init__(self, *, show_seconds: float = SHOW_SECONDS) -> None:
        """`show_seconds` is the least time between two showings of running output."""
        self._show_seconds = show_seconds

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, RunCommandArguments)
        require_command_text(asked.command)
        folder = await find_target(asked.cwd or context.cwd, context)
        return PreparedCall(
            title=one_line(asked.command),
            accesses=(RunCommandAccess(asked.command, folder.resolved),),
            run=partial(self._run, asked, folder, context),
            preview=_preview(asked, folder, context),
        )

    async def _run(
        self, asked: RunCommandArguments, folder: Target, context: ToolContext, progress: Progress
    ) -> ToolOutcome:
        await confirm_target(folder)
        facts = await anyio.to_thread.run_sync(inspect_path, folder.path)
        if facts.kind != "directory":
            raise ToolFailedError(f"{folder.shown} is not a folder; the command was not run.")
        request = CommandRequest(asked.command, folder.path, output_limit=OUTPUT_LIMIT)
        began = anyio.current_time()
        try:
            async with context.terminal.start(request) as command:
                run = _Run(_terminal_content(command, asked, folder), began, self._show_seconds)
                # The client keeps a terminal's output only if it was embedded before its release (ACP, terminals).
                await progress.show((run.terminal,))
                status = await _wait(command, asked.timeout_seconds, run, progress)
                seconds = anyio.current_time() - began
                output = await command.output()
        finally:
            context.command_ended()
        limit = max(context.result_limit - STATUS_ROOM, 0)
        return _outcome(run, _status_sentence(asked, run, status, seconds), output, limit)


def require_command_text(command: str) -> None:
    """Check that a shell can be given the text of the command.

    Raises:
        ToolInputError: it holds NUL or half of a surrogate pair, at which a shell or a script would end or change.
    """
    if "\0" in command or any("\ud800" <= character <= "\udfff" for character in command):
        raise ToolInputError(
            "`command` holds a NUL character or half of a surrogate pair, which no shell takes; leave it out."
        )


@dataclass(slots=True)
class _Run:
    """What is known of one run so far."""

    terminal: TerminalContent
    shown_at: float
    show_seconds: float
    tail: str = ""
    timed_out: bool = False


def _preview(asked: RunCommandArguments, folder: Target, context: ToolContext) -> tuple[ToolContent, ...]:
    where = "" if folder.path == context.cwd else f"In {folder.shown}:"
    lines = [text for text in (one_line(asked.description), where, fenced(asked.command, "sh")) if text]
    return (TextContent("\n".join(lines)),)


def _terminal_content(command: RunningCommand, asked: RunCommandArguments, folder: Target) -> TerminalContent:
    return TerminalContent(command.terminal_id, asked.command, folder.path, client_owned=command.client_owned)


async def _wait(command: RunningCommand, seconds: int, run: _Run, progress: Progress) -> ExitStatus:
    with anyio.move_on_after(seconds):
        return await _follow(command, run, progress)
    run.timed_out = True
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


def _status_sentence(asked: RunCommandArguments, run: _Run, status: ExitStatus, seconds: float) -> str:
    if run.timed_out:
        return (
            f"The command was ended at its time limit of {asked.timeout_seconds} s; a longer one needs timeout_seconds "
            f"(at most {MOST_SECONDS}) or fewer things to do."
        )
    if status.signal is not None:
        return f"Ended by {status.signal} after {seconds:.1f} s."
    code = "unknown" if status.exit_code is None else status.exit_code
    return f"Exit code {code} after {seconds:.1f} s."


def _outcome(run: _Run, sentence: str, output: CommandOutput, limit: int) -> ToolOutcome:
    text = plain_output(output.text)
    cut = cut_middle(text, limit)
    lost = f" Only the newest {OUTPUT_LIMIT:,} bytes of output were kept." if output.truncated else ""
    body = cut.text.rstrip("\n") or "(no output)"
    return ToolOutcome(
        f"{sentence}{lost}\n{body}",
        is_error=run.timed_out,
        content=_shown(run, sentence, cut.text),
        full_output=output.text if cut.bytes_cut else "",
        origin=Origin.COMMAND,
    )


def _shown(run: _Run, sentence: str, output: str) -> tuple[ToolContent, ...]:
    # A client that shows a live terminal gets no exit code from us; one line says it everywhere.
    return (replace(run.terminal, output=output), TextContent(sentence))
