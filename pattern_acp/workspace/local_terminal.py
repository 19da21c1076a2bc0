"""Commands run by us, over pipes or a pseudo terminal.

Owns: `LocalTerminal`. A command is driven by its waiter (`next_output`, `wait_for_exit`), so that no task is left
behind; a command that nobody waits for stops once the pipe is full. Must not know: editors, time limits.
"""

import codecs
import os
import platform
import secrets
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct

from pattern_acp.processes.confinement import ConfinedCommand, Confinement, Profile
from pattern_acp.processes.groups import end_group, start_group
from pattern_acp.workspace.errors import CommandFailedToStartError, InputClosedError
from pattern_acp.workspace.shell import command_environment, shell_command, shell_program
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, InputStream, RunningCommand

ROWS, COLUMNS = 40, 120
"""Size of the terminal for programs; without one some of them wrap their lines at nothing."""

_MOST_PROCESSES = 200
"""Limit on inspected processes of a command; a build may have thousands, and none of those waits for a user."""

_READ_CALLS = {"x86_64": "0", "aarch64": "63", "arm64": "63"}
"""Number of the system call `read` on Linux (arch/*/syscall tables of the kernel)."""

_TAKE_OVER = 'exec "$@" <>"$0" >&0 2>&1'
"""A process that leads a session gets a terminal as its controlling one by opening it (POSIX, 11.1.3)."""


class PseudoTerminal(Struct, frozen=True):
    """Both ends: `ours` to read and write, `theirs` for the command, and the path of theirs."""

    ours: int
    theirs: int
    path: str


def open_pseudo_terminal() -> PseudoTerminal:
    """A new terminal without echo, and without a carriage return before each line end.

    Raises:
        OSError: the system has none left.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no pseudo-terminals of this kind.")
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    try:
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.ONLCR
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        return PseudoTerminal(ours, theirs, os.ttyname(theirs))
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise


def command_on_terminal(words: Sequence[str], path: str) -> list[str]:
    """The command to start, as the leader of a new session, so that `words` run with the terminal at `path`."""
    return ["/bin/sh", "-c", _TAKE_OVER, path, *words]


class TerminalInput:
    """`InputStream` over our end of a terminal; `process` is the command's first process."""

    def __init__(self, ours: int, path: str, process: int) -> None:
        self._ours = ours
        self._path = path
        self._process = process

    async def write(self, data: bytes) -> None:
        """See `CommandInput.write`."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._ours, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._ours)
            except OSError as error:
                raise InputClosedError("The command takes no more input.") from error

    def is_awaited(self) -> bool:
        """See `CommandInput.is_awaited`: on Linux, whether a process of ours is inside `read` on the terminal."""
        number = _READ_CALLS.get(platform.machine())
        if not sys.platform.startswith("linux") or number is None:
            return False
        return any(_reads_from(pid, number, self._path) for pid in _family(self._process))


def _family(process: int) -> Iterator[int]:
    waiting, seen = [process], 0
    while waiting and seen < _MOST_PROCESSES:
        pid = waiting.pop()
        seen += 1
        yield pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        except OSError:
            continue
        waiting += [int(child) for child in children.split()]


def _reads_from(pid: int, read_call: str, path: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()
        if len(words) < 2 or words[0] != read_call:
            return False
        return str(Path(f"/proc/{pid}/fd/{int(words[1], 16)}").readlink()) in {path, "/dev/tty"}
    except (OSError, ValueError):
        return False


_CHUNK = 65_536


class OutputPipe(Protocol):
    """The reading end."""

    async def read(self) -> bytes:
        """Wait for bytes; b"" at the end of the pipe. Nothing is lost when it is cancelled."""
        ...

    def read_ready(self) -> bytes | None:
        """Bytes that are ready; None when there are none now, b"" at the end of the pipe."""
        ...

    def knows_when_empty(self) -> bool:
        """True if a None of `read_ready` proves that there is nothing."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class DescriptorPipe:
    """`OutputPipe` over a descriptor that can be polled (POSIX)."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def read(self) -> bytes:
        """See `OutputPipe.read`."""
        while (data := self.read_ready()) is None:
            await anyio.wait_readable(self._descriptor)
        return data

    def read_ready(self) -> bytes | None:
        """See `OutputPipe.read_ready`."""
        try:
            return os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def knows_when_empty(self) -> bool:
        """See `OutputPipe.knows_when_empty`."""
        return True

    def close(self) -> None:
        """See `OutputPipe.close`."""
        os.close(self._descriptor)


class StreamPipe:
    """`OutputPipe` over a process's own stream (Windows, where pipes cannot be polled)."""

    def __init__(self, stream: ByteReceiveStream | None) -> None:
        self._stream = stream

    async def read(self) -> bytes:
        """See `OutputPipe.read`."""
        if self._stream is None:
            return b""
        try:
            return await self._stream.receive(_CHUNK)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return b""

    def read_ready(self) -> bytes | None:
        """See `OutputPipe.read_ready`."""
        return None

    def knows_when_empty(self) -> bool:
        """See `OutputPipe.knows_when_empty`; the stream cannot tell, so that the end must be waited for."""
        return False

    def close(self) -> None:
        """See `OutputPipe.close`; the process closes its stream."""


class StreamInput:
    """`InputStream` over a process's own stream (Windows)."""

    def __init__(self, stream: ByteSendStream) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> None:
        """See `CommandInput.write`."""
        try:
            await self._stream.send(data)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise InputClosedError("The command takes no more input.") from error

    def is_awaited(self) -> bool:
        """See `CommandInput.is_awaited`; unknown for a pipe."""
        return False


def can_poll_pipes() -> bool:
    """Return whether `DescriptorPipe` works here."""
    return sys.platform != "win32"


class OutputBuffer:
    """The newest `limit` bytes of a command's output, and the part that was not taken yet."""

    def __init__(self, limit: int) -> None:
        self._limit = max(0, limit)
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._truncated = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._fresh: deque[str] = deque()
        self._fresh_size = 0

    def append(self, data: bytes) -> None:
        """Take bytes as they came; a character may be cut between two calls."""
        self._chunks.append(data)
        self._size += len(data)
        while self._size > self._limit:
            surplus = self._size - self._limit
            oldest = self._chunks.popleft()
            self._truncated = True
            self._size -= len(oldest)
            if len(oldest) > surplus:
                self._chunks.appendleft(oldest[surplus:])
                self._size += len(oldest) - surplus
        self._add_fresh(self._decoder.decode(data))

    def finish(self) -> None:
        """Note the end of the bytes."""
        self._add_fresh(self._decoder.decode(b"", final=True))

    def take_fresh(self) -> str:
        """Take the new text; beyond the limit, only the newest."""
        text = "".join(self._fresh)
        self._fresh.clear()
        self._fresh_size = 0
        return text

    def output(self) -> CommandOutput:
        """All stored output, at once; a character that the limit cut in two is left out."""
        data = b"".join(self._chunks)
        if self._truncated:
            data = data[_whole_from(data) :]
        return CommandOutput(data.decode("utf-8", "replace"), self._truncated)

    def _add_fresh(self, text: str) -> None:
        if not text:
            return
        self._fresh.append(text)
        self._fresh_size += len(text)
        # Nobody may be listening; the text is bounded like the bytes.
        while self._fresh_size > self._limit and len(self._fresh) > 1:
            self._fresh_size -= len(self._fresh.popleft())


def _whole_from(data: bytes) -> int:
    """Number of bytes at the start that continue a character without its first byte (UTF-8: at most three)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return start


GRACE_SECONDS = 1.0
"""Time for a command to clean up once it is stopped; a cancelled turn must be answered within 2 s."""

LEFTOVER_GRACE_SECONDS = 0.3
"""The same for processes that a command left in the background. Where nobody reaps (a container without init), every
such command costs this time in full."""

_CLEANUP_SECONDS = 1.8
_LAST_WORDS_SECONDS = 0.3
_LAST_WORDS_BYTES = 2_000_000
"""Read after the command ended, at most: a background process may write for ever. A Linux pipe holds at most 1 MB."""


class LocalTerminal:
    """`Terminal` over the platform's shell.

    Commands inherit `environment`; variables in `secret_variables`, and our own keys, are removed.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        secret_variables: Collection[str] = (),
        confinement: Confinement | None = None,
    ) -> None:
        """`confinement` confines commands, and ends with each what it has detached; None: nothing does."""
        self._environment = dict(environment)
        self._secret_variables = frozenset(secret_variables)
        self._confinement = confinement

    def start(self, request: CommandRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """See `Terminal.start`."""
        return self._run(request)

    @asynccontextmanager
    async def _run(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        started: list[_LocalCommand] = []
        confined = await self._confined(request)
        try:
            # A cancellation in the middle of the start would lose the process.
            with anyio.CancelScope(shield=True):
                process, pipe, typed = await self._start(request, confined)
                started.append(_LocalCommand(process, pipe, OutputBuffer(request.output_limit), typed))
            (command,) = started
            try:
                yield command
            finally:
                await command.close()
        finally:
            if confined is not None:
                confined.remove()

    async def _confined(self, request: CommandRequest) -> ConfinedCommand | None:
        """Put the launcher before the shell of a request, where there is one."""
        confinement = self._confinement
        if confinement is None or (request.profile is None and not confinement.supervises):
            if request.profile is not None:
                raise CommandFailedToStartError("Nothing can confine the command here, so it was not run.")
            return None
        profile = request.profile or Profile(confines=False)
        shell = shell_program(command_environment(self._environment, request.env, self._secret_variables))
        prepare = partial(confinement.prepare, profile, (shell, "-c", request.line), in_group=True)
        try:
            return await anyio.to_thread.run_sync(prepare)
        except OSError as error:
            raise CommandFailedToStartError(f"The sandbox could not be prepared: {error.strerror}.") from error

    async def _start(
        self, request: CommandRequest, confined: ConfinedCommand | None
    ) -> tuple[Process, OutputPipe, InputStream | None]:
        env = command_environment(self._environment, request.env, self._secret_variables)
        command = shell_command(request.line, env) if confined is None else list(confined.arguments)
        # A folder behind one that may not be entered is unusable for a command, and a Path would raise.
        if not await anyio.to_thread.run_sync(os.path.isdir, request.cwd):
            raise CommandFailedToStartError(f"There is no folder {request.cwd} to run the command in.")
        try:
            if not can_poll_pipes():
                stdin = subprocess.PIPE if request.takes_input or request.is_background else subprocess.DEVNULL
                process = await start_group(command, cwd=request.cwd, env=env, errors=subprocess.STDOUT, stdin=stdin)
                return process, StreamPipe(process.stdout), StreamInput(process.stdin) if process.stdin else None
            if request.takes_input or request.is_background:
                if isinstance(command, str):
                    raise CommandFailedToStartError("Windows has no terminals of this kind.")
                return await _start_on_terminal(command, request, env)
            return *await _start_with_pipe(command, request.cwd, env), None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise CommandFailedToStartError(f"The command could not be started: {reason}.") from error


async def _start_unasked(command: list[str] | str, cwd: str, env: Mapping[str, str], output: int) -> Process:
    """Start a command with an empty stdin and both outputs to `output`."""
    return await start_group(
        command, cwd=cwd, env=env, output=output, errors=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )


async def _start_with_pipe(command: list[str] | str, cwd: str, env: Mapping[str, str]) -> tuple[Process, OutputPipe]:
    reading, writing = os.pipe()
    try:
        process = await _start_unasked(command, cwd, env, writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, DescriptorPipe(reading)


async def _start_on_terminal(
    words: Sequence[str], request: CommandRequest, env: Mapping[str, str]
) -> tuple[Process, OutputPipe, InputStream]:
    terminal = open_pseudo_terminal()
    try:
        command = command_on_terminal(words, terminal.path)
        process = await _start_unasked(command, request.cwd, env, terminal.theirs)
    except BaseException:
        os.close(terminal.ours)
        raise
    finally:
        os.close(terminal.theirs)
    return process, DescriptorPipe(terminal.ours), TerminalInput(terminal.ours, terminal.path, process.pid)


class _LocalCommand:
    """`RunningCommand` over a process group of ours."""

    def __init__(self, process: Process, pipe: OutputPipe, buffer: OutputBuffer, typed: InputStream | None) -> None:
        self._process = process
        self._pipe = pipe
        self._buffer = buffer
        self._input = typed
        self._terminal_id = f"term_{secrets.token_hex(8)}"
        self._driver = anyio.Lock()
        self._steps: int = 0
        self._pipe_ended = False
        self._ended = False

    @property
    def terminal_id(self) -> str:
        return self._terminal_id

    @property
    def client_owned(self) -> bool:
        return False

    @property
    def input(self) -> InputStream | None:
        return None if self._ended else self._input

    @property
    def size(self) -> tuple[int, int] | None:
        return (COLUMNS, ROWS) if isinstance(self._input, TerminalInput) else None

    async def next_output(self) -> str:
        while not (text := self._buffer.take_fresh()):
            if self._ended:
                return ""
            await self._advance()
        return text

    async def wait_for_exit(self) -> ExitStatus:
        while not self._ended:
            await self._advance()
        return _exit_status(self._process.returncode)

    async def output(self) -> CommandOutput:
        if not self._ended:
            self._read_ready()
        return self._buffer.output()

    async def kill(self) -> None:
        grace = GRACE_SECONDS if self._process.returncode is None else LEFTOVER_GRACE_SECONDS
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
            await end_group(self._process, grace=grace)

    async def close(self) -> None:
        """End its remaining processes and release the pipe."""
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
            try:
                await self.kill()
                await self._process.wait()
            finally:
                self._ended = True
                self._pipe.close()
                await self._process.aclose()

    async def _advance(self) -> None:
        """Wait until there is more output or the command ended; one waiter drives, the others profit."""
        seen = self._steps
        async with self._driver:
            if self._steps != seen or self._ended:
                return
            async with anyio.create_task_group() as group:
                group.start_soon(self._wait_for_process, group.cancel_scope)
                if not self._pipe_ended:
                    group.start_soon(self._read_some, group.cancel_scope)
            self._steps += 1
            if self._process.returncode is not None:
                await self._take_last_words()
                self._buffer.finish()
                self._ended = True

    async def _take_last_words(self) -> None:
        self._read_ready()
        if self._pipe.knows_when_empty():
            return
        with anyio.move_on_after(_LAST_WORDS_SECONDS):
            while not self._pipe_ended:
                self._take(await self._pipe.read())

    async def _wait_for_process(self, done: anyio.CancelScope) -> None:
        await self._process.wait()
        done.cancel()

    async def _read_some(self, done: anyio.CancelScope) -> None:
        self._take(await self._pipe.read())
        if not self._pipe_ended:
            done.cancel()

    def _read_ready(self) -> None:
        """Read what is in the pipe already."""
        read = 0
        while not self._pipe_ended and read < _LAST_WORDS_BYTES:
            data = self._pipe.read_ready()
            if data is None:
                return
            read += len(data)
            self._take(data)

    def _take(self, data: bytes) -> None:
        if data:
            self._buffer.append(data)
        else:
            self._pipe_ended = True


def _exit_status(returncode: int | None) -> ExitStatus:
    if returncode is None or returncode >= 0:
        return ExitStatus(returncode)
    try:
        return ExitStatus(None, signal.Signals(-returncode).name)
    except ValueError:
        return ExitStatus(None, f"signal {-returncode}")
