"""A third-party program that we talk to over its pipes: a language server, an MCP server.

Owns: its start in a group of its own, its end with all that it started, and the end of its stderr. Must not know: the
protocol on the pipes, or how a group is started and ended on each platform.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct

from pattern_acp.domain.errors import PatternError
from pattern_acp.processes.groups import end_group, start_group

LEAVE_SECONDS = 0.3
"""Time for a program to exit once its stdin is closed (MCP, lifecycle: shutdown) or it was asked to (LSP 3.17, "Server
lifecycle")."""

GRACE_SECONDS = 0.3
"""Time between asking its process group to end and killing it."""

CLEANUP_SECONDS = 1.2
"""Total time for all of that; the whole agent has to be gone within 2 s (invariant 9)."""

_LAST_WORDS = 2000
_WATCH_SECONDS = 0.01


class ChildProgramPorts(Struct, frozen=True):
    """Ports to start programs with: an environment without our keys."""

    environment: Mapping[str, str]


class ChildProgram(Struct):
    """A running program."""

    process: Process
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    last_words: str = ""

    async def listen_to_stderr(self, log: Callable[[str], None]) -> None:
        """Pass each line of stderr to `log`, and remember the last ones, until the program closes it."""
        if self.process.stderr is None:
            return
        async for chunk in self.process.stderr:
            text = chunk.decode("utf-8", "replace")
            log(text.rstrip())
            self.last_words = (self.last_words + text)[-_LAST_WORDS:]

    @property
    def last_line(self) -> str:
        """The last line of stderr, cut to 200 characters; empty when there was none."""
        lines = [line.strip() for line in self.last_words.splitlines() if line.strip()]
        return "".join(char for char in lines[-1] if char.isprintable())[:200] if lines else ""


@asynccontextmanager
async def running_program(
    command: Sequence[str], cwd: str, ports: ChildProgramPorts, refused: Callable[[str], PatternError]
) -> AsyncGenerator[ChildProgram, None]:
    """Start a program; leaving the context ends it and all that it started.

    Raises:
        PatternError: the system does not start it; `refused` makes it of the reason.
    """
    started: list[ChildProgram] = []
    try:
        # A cancellation during the start would lose the process.
        with anyio.CancelScope(shield=True):
            process = await _start(list(command), cwd, ports.environment, refused)
            if process.stdin is None or process.stdout is None:
                raise refused("it could not be started (no pipes)")
            started.append(ChildProgram(process, process.stdin, process.stdout))
        (program,) = started
        yield program
    finally:
        for each in started:
            with anyio.move_on_after(CLEANUP_SECONDS, shield=True):
                await _end(each)


async def _start(
    command: list[str], cwd: str, environment: Mapping[str, str], refused: Callable[[str], PatternError]
) -> Process:
    try:
        return await start_group(command, cwd=cwd, env=environment)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise refused(f"it could not be started ({reason})") from error


async def _end(program: ChildProgram) -> None:
    """Close its stdin, wait a moment, then end its group, which may outlive it."""
    process = program.process
    try:
        await program.stdin.aclose()
        for _ in range(round(LEAVE_SECONDS / _WATCH_SECONDS)):
            # Not `wait`: that waits for the pipes too, which a child may still have open.
            if process.returncode is not None:
                break
            await anyio.sleep(_WATCH_SECONDS)
        await end_group(process, grace=GRACE_SECONDS)
    finally:
        await process.aclose()
