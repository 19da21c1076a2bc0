"""A terminal that plays commands instead of running them.

Owns: `FakeTerminal`. Must not know: who uses it.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.local_terminal import OutputBuffer
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand

SUCCESS = ExitStatus(0)


@dataclass(frozen=True, slots=True)
class PlayedCommand:
    """What a command does: its output in pieces, then its end; with `hangs` it goes on until it is killed."""

    chunks: tuple[str, ...] = ()
    exit_status: ExitStatus = SUCCESS
    hangs: bool = False
    start_error: WorkspaceError | None = None


def play_nothing(_request: CommandRequest) -> PlayedCommand:
    """Every command ends well without a word."""
    return PlayedCommand()


class FakeRunningCommand:
    """`RunningCommand` over a `PlayedCommand`. `killed` and `released` say what was done to it."""

    def __init__(self, number: int, played: PlayedCommand, limit: int, *, client_owned: bool) -> None:
        self._terminal_id = f"term_{number}"
        self._client_owned = client_owned
        self._played = played
        self._waiting = list(played.chunks)
        self._buffer = OutputBuffer(limit)
        self._ended = anyio.Event()
        self.killed = False
        self.released = False

    @property
    def terminal_id(self) -> str:
        """See `RunningCommand.terminal_id`."""
        return self._terminal_id

    @property
    def size(self) -> tuple[int, int] | None:
        """See `RunningCommand.size`."""
        return None

    @property
    def client_owned(self) -> bool:
        """See `RunningCommand.client_owned`."""
        return self._client_owned

    @property
    def input(self) -> None:
        """See `RunningCommand.input`; played commands take none."""
        return None

    async def next_output(self) -> str:
        """See `RunningCommand.next_output`; one chunk a call, none where the client owns the terminal."""
        await anyio.lowlevel.checkpoint()
        if self._client_owned:
            return ""
        if self._waiting:
            chunk = self._waiting.pop(0)
            self._buffer.append(chunk.encode())
            return chunk
        await self._wait()
        return ""

    async def wait_for_exit(self) -> ExitStatus:
        """See `RunningCommand.wait_for_exit`."""
        await anyio.lowlevel.checkpoint()
        await self._wait()
        return ExitStatus(None, "SIGKILL") if self.killed else self._played.exit_status

    async def output(self) -> CommandOutput:
        """See `RunningCommand.output`; everything that the command says is there at once."""
        await anyio.lowlevel.checkpoint()
        while self._waiting:
            self._buffer.append(self._waiting.pop(0).encode())
        return self._buffer.output()

    async def kill(self) -> None:
        """See `RunningCommand.kill`."""
        await anyio.lowlevel.checkpoint()
        self.end()

    def end(self) -> None:
        """End the command, as a kill does, if it still runs."""
        if self._played.hangs and not self._ended.is_set():
            self.killed = True
            self._ended.set()

    async def _wait(self) -> None:
        if self._played.hangs:
            await self._ended.wait()


class FakeTerminal:
    """`Terminal` whose commands `play` decides. `requests` and `commands` list what was started, in order."""

    def __init__(
        self, play: Callable[[CommandRequest], PlayedCommand] = play_nothing, *, client_owned: bool = False
    ) -> None:
        self.requests: list[CommandRequest] = []
        self.commands: list[FakeRunningCommand] = []
        self._play = play
        self._client_owned = client_owned

    def start(self, request: CommandRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """See `Terminal.start`."""
        return self._run(request)

    @asynccontextmanager
    async def _run(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        self.requests.append(request)
        played = self._play(request)
        if played.start_error is not None:
            raise played.start_error
        number = len(self.commands) + 1
        command = FakeRunningCommand(number, played, request.output_limit, client_owned=self._client_owned)
        self.commands.append(command)
        try:
            yield command
        finally:
            command.end()
            command.released = True
