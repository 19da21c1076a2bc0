"""A server's process.

Owns: finding its program, and lines over its pipes. Must not know: JSON-RPC. The `mcp` package's own client is not used
for this: it waits up to 4 s for a program to end, and a session has to be gone within 2 s.
"""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.errors import PatternError
from pattern_acp.mcp_servers.server import CannotStartError, Place
from pattern_acp.processes.child_program import ChildProgram, running_program

LINE_LIMIT = 32_000_000
"""Bytes of one line; a server that writes more without a line end is taken for broken."""


class LineTooLongError(PatternError):
    """A server's line has no end."""

    failure_code = "mcp.line-too-long"


class Program(Struct):
    """A running server: lines in, lines out."""

    child: ChildProgram

    async def write_line(self, line: bytes) -> None:
        """Send one line.

        Raises:
            OSError, anyio.BrokenResourceError: the program is gone.
        """
        await self.child.stdin.send(line + b"\n")

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The lines that the program writes, until it closes its output.

        Raises:
            LineTooLongError: a line is longer than `LINE_LIMIT`.
        """
        buffer = bytearray()
        async for chunk in self.child.stdout:
            buffer += chunk
            if b"\n" in chunk:
                *whole, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in whole:
                    if line.strip():
                        yield line
            elif len(buffer) > LINE_LIMIT:
                raise LineTooLongError("A line of an MCP server has no end; the server is not used any more.")


@asynccontextmanager
async def running_server(settings: McpServerSettings, place: Place) -> AsyncGenerator[Program, None]:
    """Start a server's program; it and all that it started are ended when the context ends.

    Raises:
        CannotStartError: there is no such program, or the system does not start it.
    """
    environment = {**place.means.environment, **settings.env}
    command = await to_thread.run_sync(find_command, settings.command, place.cwd, environment)
    means = replace(place.means, environment=environment)
    async with running_program([command, *settings.args], place.cwd, means, CannotStartError) as program:
        yield Program(program)


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
