"""A language server's process.

Owns: its start in a group of its own, its end with all that it started, its bytes, and its last words. Must not know:
the protocol.
"""

import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.lsp.model import LanguageServerError

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 0.3
"""For a server to end by itself once it was told to (LSP 3.17, "Server lifecycle")."""

GRACE_SECONDS = 0.3
"""Between asking its process group to end and making it."""

CLEANUP_SECONDS = 1.2
"""For all of that together; the whole agent has to be gone within 2 s (invariant 9)."""

_LAST_WORDS = 2000
_WATCH_SECONDS = 0.01


class EndGroup(Protocol):
    """Ends a process with all that it started; `workspace.process_groups.end_group`."""

    def __call__(self, process: Process, *, grace: float) -> Awaitable[None]:
        """Ask it to end, wait `grace` seconds, then make it."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What servers are started with: an environment without our keys, and the way to end what they start."""

    environment: Mapping[str, str]
    end_group: EndGroup


@dataclass(slots=True)
class Program:
    """A running server."""

    process: Process
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    last_words: str = ""

    async def listen_to_stderr(self, name: str) -> None:
        """Log what the program says of itself, and keep the end of it; until it closes stderr."""
        if self.process.stderr is None:
            return
        async for chunk in self.process.stderr:
            text = chunk.decode("utf-8", "replace")
            logger.info("The language server %s says: %s", name, text.rstrip())
            self.last_words = (self.last_words + text)[-_LAST_WORDS:]

    @property
    def last_line(self) -> str:
        """The last line that it wrote to stderr, cut to 200 characters; empty when there was none."""
        lines = [line.strip() for line in self.last_words.splitlines() if line.strip()]
        return "".join(char for char in lines[-1] if char.isprintable())[:200] if lines else ""


@asynccontextmanager
async def running_program(command: Sequence[str], cwd: str, means: Means) -> AsyncGenerator[Program, None]:
    """Start a server; it and all that it started are ended when the context ends.

    Raises:
        LanguageServerError: the system does not start it.
    """
    started: list[Program] = []
    try:
        # A cancellation in the middle of the start would lose the process.
        with anyio.CancelScope(shield=True):
            started.append(await _start(list(command), cwd, means.environment))
        (program,) = started
        yield program
    finally:
        for each in started:
            with anyio.move_on_after(CLEANUP_SECONDS, shield=True):
                await _end(each, means)


async def _start(command: list[str], cwd: str, environment: Mapping[str, str]) -> Program:
    try:
        if sys.platform == "win32":
            flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
            process = await anyio.open_process(command, cwd=cwd, env=environment, creationflags=flags)
        else:
            process = await anyio.open_process(command, cwd=cwd, env=environment, start_new_session=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LanguageServerError(f"it could not be started ({reason})") from error
    if process.stdin is None or process.stdout is None:
        raise LanguageServerError("it could not be started (no pipes)")
    return Program(process, process.stdin, process.stdout)


async def _end(program: Program, means: Means) -> None:
    """Close its stdin, give it a moment, then end its group, which may outlive it."""
    process = program.process
    try:
        await program.stdin.aclose()
        for _ in range(round(LEAVE_SECONDS / _WATCH_SECONDS)):
            # Not `wait`: that waits for the pipes too, which a child may hold open.
            if process.returncode is not None:
                break
            await anyio.sleep(_WATCH_SECONDS)
        await means.end_group(process, grace=GRACE_SECONDS)
    finally:
        await process.aclose()
