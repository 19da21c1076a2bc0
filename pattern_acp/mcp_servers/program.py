"""A server's process.

Owns: its start in a group of its own, its end with all that it started, and its last words. Must not know: JSON-RPC.
The `mcp` package's own client is not used for this: it waits up to 4 s for a program to end, and a session has to be
gone within 2 s.
"""

import logging
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.mcp_servers.server import CannotStartError, Place

logger = logging.getLogger(__name__)

LINE_LIMIT = 32_000_000
"""Bytes of one line; a server that writes more without a line end is taken for broken."""

LEAVE_SECONDS = 0.3
"""For a program to end by itself once its stdin is closed (MCP, lifecycle: shutdown)."""

GRACE_SECONDS = 0.3
"""Between asking its process group to end and making it."""

CLEANUP_SECONDS = 1.2
"""For all of that together; the whole agent has to be gone within 2 s (invariant 9)."""

_LAST_WORDS = 2000
_WATCH_SECONDS = 0.01


class LineTooLongError(PatternError):
    """A server's line has no end."""

    failure_code = "mcp.line-too-long"


@dataclass(slots=True)
class Program:
    """A running server: lines in, lines out, and the end of what it wrote to stderr."""

    process: Process
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    last_words: str = ""

    async def write_line(self, line: bytes) -> None:
        """Send one line.

        Raises:
            OSError, anyio.BrokenResourceError: the program is gone.
        """
        await self.stdin.send(line + b"\n")

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines that the program writes, until it closes its output.

        Raises:
            LineTooLongError: a line is longer than `LINE_LIMIT`.
        """
        buffer = bytearray()
        async for chunk in self.stdout:
            buffer += chunk
            if b"\n" in chunk:
                *whole, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in whole:
                    if line.strip():
                        yield line
            elif len(buffer) > LINE_LIMIT:
                raise LineTooLongError("A line of an MCP server has no end; the server is not used any more.")

    async def listen_to_stderr(self) -> None:
        """Log what the program says of itself, and keep the end of it; until it closes stderr."""
        if self.process.stderr is None:
            return
        async for chunk in self.process.stderr:
            text = chunk.decode("utf-8", "replace")
            logger.debug("An MCP server says: %s", text.rstrip())
            self.last_words = (self.last_words + text)[-_LAST_WORDS:]

    @property
    def last_line(self) -> str:
        """The last line that it wrote to stderr, cut to 200 characters; empty when there was none."""
        lines = [line.strip() for line in self.last_words.splitlines() if line.strip()]
        return "".join(char for char in lines[-1] if char.isprintable())[:200] if lines else ""


@asynccontextmanager
async def running_program(settings: McpServerSettings, place: Place) -> AsyncGenerator[Program, None]:
    """Start a server's program; it and all that it started are ended when the context ends.

    Raises:
        CannotStartError: there is no such program, or the system does not start it.
    """
    environment = {**place.means.environment, **settings.env}
    command = await to_thread.run_sync(find_command, settings.command, place.cwd, environment)
    started: list[Program] = []
    try:
        # A cancellation in the middle of the start would lose the process.
        with anyio.CancelScope(shield=True):
            started.append(await _start([command, *settings.args], place.cwd, environment))
        (program,) = started
        yield program
    finally:
        for each in started:
            with anyio.move_on_after(CLEANUP_SECONDS, shield=True):
                await _end(each, place)


def find_command(command: str, cwd: str, environment: Mapping[str, str]) -> str:
    """The program that a command names, looked up as its own process would.

    Raises:
        CannotStartError: there is none.
    """
    path = next((value for name, value in environment.items() if name.upper() == "PATH"), "")
    found = shutil.which(command, path=path)
    if found is None and ("/" in command or "\\" in command):
        found = shutil.which(f"{cwd}/{command}")
    if found is None:
        raise CannotStartError(f"there is no program {command!r}" if command else "it names no command")
    return found


async def _start(command: list[str], cwd: str, environment: Mapping[str, str]) -> Program:
    try:
        if sys.platform == "win32":
            flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
            process = await anyio.open_process(command, cwd=cwd, env=environment, creationflags=flags)
        else:
            process = await anyio.open_process(command, cwd=cwd, env=environment, start_new_session=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotStartError(f"it could not be started ({reason})") from error
    if process.stdin is None or process.stdout is None:
        raise CannotStartError("it could not be started (no pipes)")
    return Program(process, process.stdin, process.stdout)


async def _end(program: Program, place: Place) -> None:
    """Close its stdin, give it a moment, then end its group, which may outlive it."""
    process = program.process
    try:
        await program.stdin.aclose()
        for _ in range(round(LEAVE_SECONDS / _WATCH_SECONDS)):
            # Not `wait`: that waits for the pipes too, which a child may hold open.
            if process.returncode is not None:
                break
            await anyio.sleep(_WATCH_SECONDS)
        await place.means.end_group(process, grace=GRACE_SECONDS)
    finally:
        await process.aclose()
