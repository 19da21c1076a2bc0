"""The `Terminal` port: commands run for the person."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct, field


class CommandRequest(Struct, frozen=True):
    """One shell command line, run by the platform's shell in `cwd` (absolute)."""

    line: str
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables added to the environment."""
    output_limit: int = 1_000_000
    """Bytes of output kept; the newest are kept when there is more."""
    takes_input: bool = False
    """Run it by ourselves with an input that can be written to: a terminal of its own on POSIX, a pipe on Windows."""
    is_background: bool = False
    """It goes on beside the conversation. Run by ourselves it gets a terminal of its own, so that programs write line
    by line, and end when this process is killed."""


class ExitStatus(Struct, frozen=True):
    """How a command ended: an exit code, or the name of the signal that ended it; both None when unknown."""

    exit_code: int | None
    signal: str | None = None


class CommandOutput(Struct, frozen=True):
    """Output so far, stdout and stderr mixed as they came."""

    text: str
    truncated: bool = False


class CommandInput(Protocol):
    """The input of a running command."""

    async def write(self, data: bytes) -> None:
        """Hand over bytes as a keyboard would; waits while the command does not take them.

        Raises:
            InputClosedError: the command takes no more input.
        """
        ...

    def is_awaited(self) -> bool:
        """Whether a process of the command is seen to wait for input; False where the system does not say."""
        ...


class RunningCommand(Protocol):
    """A command that was started. Ends, with every process it started, when its context ends."""

    @property
    def terminal_id(self) -> str:
        """Names the terminal: the client's id when `client_owned`, else our own."""
        ...

    @property
    def client_owned(self) -> bool:
        """Whether the client can show the terminal by its id."""
        ...

    @property
    def input(self) -> CommandInput | None:
        """Where to write to; None for a command that was started without input, or runs in the client's terminal."""
        ...

    async def next_output(self) -> str:
        """Wait for output that was not returned yet; "" once the command ended or where output is not streamed."""
        ...

    async def wait_for_exit(self) -> ExitStatus:
        """Wait until the command ended."""
        ...

    async def output(self) -> CommandOutput:
        """All output so far, at once."""
        ...

    async def kill(self) -> None:
        """End the command and every process of its group; harmless when it ended."""
        ...


class Terminal(Protocol):
    """Runs commands."""

    def start(self, request: CommandRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """Start a command; leaving the context kills what still runs and releases the terminal.

        Entering raises:
            WorkspaceError: the command could not be started.
        """
        ...
