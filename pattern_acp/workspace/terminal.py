"""The `Terminal` port: commands run for the user."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct, field

from pattern_acp.processes.confinement import Profile


class CommandRequest(Struct, frozen=True):
    """One shell command line, run by the platform's shell in `cwd` (absolute)."""

    line: str
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables added to the environment."""
    output_limit: int = 1_000_000
    """Limit on stored output in bytes; the newest stays when there is more."""
    takes_input: bool = False
    """Run it ourselves with an input that can be written to: a terminal of its own on POSIX, a pipe on Windows."""
    profile: Profile | None = None
    """The limits that the command has to run within; None for none."""
    is_background: bool = False
    """It runs beside the conversation. If we run it, it gets a terminal of its own, so that programs write line by
    line, and end when this process is killed."""


class ExitStatus(Struct, frozen=True):
    """End of a command: an exit code, or the name of the signal that ended it; both None when unknown."""

    exit_code: int | None
    signal: str | None = None


class CommandOutput(Struct, frozen=True):
    """Output so far, stdout and stderr mixed as they came."""

    text: str
    truncated: bool = False


class InputStream(Protocol):
    """The input of a running command."""

    async def write(self, data: bytes) -> None:
        """Write bytes as a keyboard would; waits while the command does not take them.

        Raises:
            InputClosedError: the command takes no more input.
        """
        ...

    def is_awaited(self) -> bool:
        """Return whether a process of the command visibly waits for input; False if the system does not say."""
        ...


class RunningCommand(Protocol):
    """A started command. Ends, with every process it started, when its context ends."""

    @property
    def terminal_id(self) -> str:
        """Id of the terminal: the client's when `client_owned`, else our own."""
        ...

    @property
    def client_owned(self) -> bool:
        """True if the client can show the terminal by its id."""
        ...

    @property
    def input(self) -> InputStream | None:
        """Its input; None for a command that was started without one, or runs in the client's terminal."""
        ...

    @property
    def size(self) -> tuple[int, int] | None:
        """Columns and rows of its terminal; None where it has none, or the client's."""
        ...

    async def next_output(self) -> str:
        """Wait for new output; "" once the command ended or where output is not streamed."""
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
