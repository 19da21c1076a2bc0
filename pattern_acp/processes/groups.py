"""Process groups: starting a command with everything it starts, and ending all of it; and programs that we talk to.

Owns: the differences between platforms: a session and process group of its own on POSIX, which the guard, a shell, ends
when we are killed; a process group of its own and `taskkill` on Windows. Of a language server or an MCP server, which
we talk to over pipes: its start, its end with all that it started, and the end of its stderr. Must not know: what runs,
or the protocol on the pipes.
"""

import atexit
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct

from pattern_acp.domain.errors import PatternError

_WATCH_SECONDS = 0.02
"""Interval at which a group that was asked to end is checked."""

_ZOMBIE_LOOKS = 5
"""Looks from one look at the members themselves, which takes a millisecond, to the next."""


def quiet_creation_flags() -> int:
    """Flags for Windows: no console window for a program that shows none."""
    return subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0


async def start_group(
    command: Sequence[str] | str,
    *,
    cwd: str,
    env: Mapping[str, str],
    output: int = subprocess.PIPE,
    errors: int = subprocess.PIPE,
    stdin: int = subprocess.PIPE,
) -> Process:
    """Start a command in a group of its own, with a pipe for each of its streams that is not specified.

    A command in one string is a line for `cmd`, on Windows only.

    Raises:
        OSError: it could not be started.
    """
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        return await anyio.open_process(
            command, stdin=stdin, stdout=output, stderr=errors, cwd=cwd, env=env,
            creationflags=flags,
        )  # fmt: skip
    process = await anyio.open_process(
        command, stdin=stdin, stdout=output, stderr=errors, cwd=cwd, env=env, start_new_session=True
    )
    # Imported late: a start needs no guard.

    GUARD.watch(process.pid)
    return process


async def end_group(process: Process, *, grace: float) -> None:
    """Ask the whole group to end, wait up to `grace` seconds, then kill it; harmless when all of it has ended.

    Returns when no member is left, or when the rest was killed.
    """
    if sys.platform == "win32":
        await _end_tree_on_windows(process)
        return

    await _end_on_posix(process.pid, grace)
    GUARD.forget(process.pid)


async def _end_on_posix(group: int, grace: float) -> None:
    if not _signal_group(group, signal.SIGTERM):
        return
    # The system has no event for the end of a group, only for that of a child.
    for look in range(1, 1 + round(grace / _WATCH_SECONDS)):
        if not _signal_group(group, 0):
            return
        if look % _ZOMBIE_LOOKS == 0 and _only_zombies(group):
            break
        await anyio.sleep(_WATCH_SECONDS)
    _signal_group(group, signal.SIGKILL)


def _only_zombies(group: int) -> bool:
    """Tell whether all that is left of a group has ended, and waits for a first process that is slow to notice.

    In many containers it is, or never does. Only Linux tells.
    """
    states: set[bytes] = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before these fields may hold anything, parentheses too.
            state, _parent, of, *_ = file.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it is gone by now
        if int(of) == group:
            states.add(state)
    return states == {b"Z"}


if sys.platform == "win32":

    async def _end_tree_on_windows(process: Process) -> None:
        # A console program without a window gets no polite signal.
        command = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
        await to_thread.run_sync(lambda: subprocess.run(command, capture_output=True, check=False))  # noqa: S603  # a fixed program with a number
        if process.returncode is None:
            process.kill()

else:

    def _signal_group(group: int, number: int) -> bool:
        """Send a signal to a group (0: only check); return whether it had any members."""
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # macOS reports this when only zombies are left; elsewhere a member changed its user and is beyond our
            # reach.
            return False
        return True


logger = logging.getLogger(__name__)

GRACE_SECONDS = 1
"""Time between asking a group to end and killing it; `sleep` takes whole seconds everywhere (POSIX)."""

_SCRIPT = f"""
trap '' HUP INT TERM
groups=
while read -r word group; do
    if [ "$word" = watch ]; then
        groups="$groups $group"
    else
        kept=
        for each in $groups; do
            [ "$each" = "$group" ] || kept="$kept $each"
        done
        groups=$kept
    fi
done
[ -n "$groups" ] || exit 0
for each in $groups; do kill -TERM "-$each"; done
sleep {GRACE_SECONDS}
for each in $groups; do kill -KILL "-$each"; done
"""

_END_SECONDS = 1.0


class Guard:
    """The groups that end with this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """End `group` when this process ends, in whatever way. Without a guard it only logs."""
        self._groups.add(group)
        self._tell("watch", group)

    def forget(self, group: int) -> None:
        """Stop watching `group`: it has ended, and its number may be reused."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell("forget", group)

    def close(self) -> None:
        """End the groups that are still watched, and then the guard; does not wait if it has something to end."""
        shell, self._shell = self._shell, None
        if shell is not None:
            _close_pipe(shell)
            if not self._groups:
                with suppress(subprocess.TimeoutExpired):
                    shell.wait(_END_SECONDS)

    def _tell(self, word: str, group: int) -> None:
        if sys.platform == "win32":
            return
        if self._shell is not None and self._shell.poll() is None:
            self._write(self._shell, f"{word} {group}\n")
        elif self._groups:
            # It was never needed, or somebody ended it.
            self._start()

    def _start(self) -> None:
        if self._shell is None:
            atexit.register(self.close)
        else:
            _close_pipe(self._shell)
        try:
            self._shell = subprocess.Popen(  # noqa: S603  # a script of ours
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            logger.warning("nothing ends the children if this process is killed: %s", error.strerror)
            return
        if self._shell.stdin is not None:
            # A stopped guard must not stop us.
            os.set_blocking(self._shell.stdin.fileno(), False)
        self._write(self._shell, "".join(f"watch {each}\n" for each in sorted(self._groups)))

    def _write(self, shell: "subprocess.Popen[bytes]", lines: str) -> None:
        try:
            if shell.stdin is not None:
                shell.stdin.write(lines.encode("ascii"))
        except OSError as error:
            logger.warning("the guard of the children takes no words: %s", error.strerror)


def _close_pipe(shell: "subprocess.Popen[bytes]") -> None:
    if shell.stdin is not None:
        with suppress(OSError):
            shell.stdin.close()


GUARD = Guard()
"""The guard of this process."""


LEAVE_SECONDS = 0.3
"""Time for a program to exit once its stdin is closed (MCP, lifecycle: shutdown) or it was asked to (LSP 3.17, "Server
lifecycle")."""

_PROGRAM_GRACE_SECONDS = 0.3
"""Time between asking its process group to end and killing it."""

CLEANUP_SECONDS = 1.2
"""Total time for all of that; the whole agent has to be gone within 2 s (invariant 9)."""

_LAST_WORDS = 2000
_EXIT_WATCH_SECONDS = 0.01


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
        for _ in range(round(LEAVE_SECONDS / _EXIT_WATCH_SECONDS)):
            # Not `wait`: that waits for the pipes too, which a child may still have open.
            if process.returncode is not None:
                break
            await anyio.sleep(_EXIT_WATCH_SECONDS)
        await end_group(process, grace=_PROGRAM_GRACE_SECONDS)
    finally:
        await process.aclose()
