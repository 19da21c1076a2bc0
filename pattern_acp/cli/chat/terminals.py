"""terminal/* for the agent: commands in process groups of our own, shown live.

Owns: the terminals by id, their tasks, and the end of their output for the screen. Must not know: who draws it.
"""

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from acp import RequestError
from anyio.abc import TaskGroup, TaskStatus

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

TAIL_CHARACTERS = 8_000
"""Output that the screen can show of one terminal."""

SHOWN_TERMINALS = 64
"""Released terminals whose tail is kept for the screen."""

DEFAULT_OUTPUT_LIMIT = 1_000_000
"""Bytes kept when the agent does not say."""


@dataclass(slots=True)
class _Terminal:
    """One terminal and the task that drives it."""

    command: RunningCommand
    released: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    status: ExitStatus | None = None


class Terminals:
    """Serves terminal/* (ACP v1, terminals). Every command ends with the task group at the latest."""

    def __init__(self, terminal: Terminal, tasks: TaskGroup) -> None:
        self._terminal = terminal
        self._tasks = tasks
        self._open: dict[str, _Terminal] = {}
        self._tails: dict[str, str] = {}

    def tail(self, terminal_id: str) -> str:
        """The end of a terminal's output, also after its release. May be called from any thread."""
        return self._tails.get(terminal_id, "")

    async def create(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str, output_limit: int | None
    ) -> str:
        """Start a command; the terminal's id.

        Raises:
            RequestError: it could not be started.
        """
        limit = DEFAULT_OUTPUT_LIMIT if output_limit is None else output_limit
        request = CommandRequest(command_line(command, args), cwd, env, limit)
        started = await self._tasks.start(self._drive, request)
        if isinstance(started, WorkspaceError):
            raise RequestError(-32603, started.sentence, {"details": started.sentence}) from started
        return str(started)

    async def output(self, terminal_id: str) -> tuple[CommandOutput, ExitStatus | None]:
        """All output so far, and how the command ended if it did."""
        found = self._find(terminal_id)
        return await found.command.output(), found.status

    async def wait(self, terminal_id: str) -> ExitStatus:
        """Wait until the command ended."""
        found = self._find(terminal_id)
        await found.ended.wait()
        return found.status or ExitStatus(None)

    async def kill(self, terminal_id: str) -> None:
        """End the command; its output stays."""
        await self._find(terminal_id).command.kill()

    async def release(self, terminal_id: str) -> None:
        """End the command if it runs, and forget the terminal."""
        self._find(terminal_id).released.set()
        del self._open[terminal_id]

    def _find(self, terminal_id: str) -> _Terminal:
        found = self._open.get(terminal_id)
        if found is None:
            raise RequestError(-32602, f"There is no terminal {terminal_id}; it was released or never made.")
        return found

    async def _drive(
        self, request: CommandRequest, *, task_status: TaskStatus["str | WorkspaceError"] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            async with self._terminal.start(request) as command:
                terminal = _Terminal(command)
                self._open[command.terminal_id] = terminal
                self._remember(command.terminal_id)
                task_status.started(command.terminal_id)
                try:
                    await self._follow(terminal)
                finally:
                    # Whoever still waits for the exit of a terminal that is given up is not kept waiting.
                    terminal.ended.set()
        except WorkspaceError as error:
            task_status.started(error)

    async def _follow(self, terminal: _Terminal) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._stream, terminal)
            await terminal.released.wait()
            group.cancel_scope.cancel()

    async def _stream(self, terminal: _Terminal) -> None:
        name = terminal.command.terminal_id
        while text := await terminal.command.next_output():
            self._tails[name] = (self._tails[name] + text)[-TAIL_CHARACTERS:]
        terminal.status = await terminal.command.wait_for_exit()
        terminal.ended.set()

    def _remember(self, name: str) -> None:
        self._tails[name] = ""
        while len(self._tails) > SHOWN_TERMINALS:
            del self._tails[next(iter(self._tails))]


def command_line(command: str, args: Sequence[str]) -> str:
    """Program and arguments as one line for the shell that starts it."""
    words = [command, *args]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
