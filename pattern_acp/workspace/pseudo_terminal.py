"""A terminal of its own for a command that is written to (POSIX).

Owns: opening it, the way its first process makes it its controlling terminal, and seeing whether somebody waits for
input. Must not know: what runs. The system hangs up on every process of the terminal when our end of it is closed, so
such a command also ends when this process is killed.
"""

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
from msgspec import Struct

from pattern_acp.workspace.errors import InputClosedError

ROWS, COLUMNS = 40, 120
"""Size that programs see; without one some of them wrap their lines at nothing."""

_MOST_PROCESSES = 200
"""Processes of a command that are looked at; a build may have thousands, and none of those waits for a person."""

_READ_CALLS = {"x86_64": "0", "aarch64": "63", "arm64": "63"}
"""Number of the system call `read` on Linux (arch/*/syscall tables of the kernel)."""

_TAKE_OVER = 'exec "$0" -c "$1" <>"$2" >&0 2>&1'
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


def command_on_terminal(shell: str, line: str, path: str) -> list[str]:
    """What to start, as the leader of a new session, so that `line` runs with the terminal at `path`."""
    return ["/bin/sh", "-c", _TAKE_OVER, shell, line, path]


class TerminalInput:
    """`CommandInput` over our end of a terminal; `process` is the command's first process."""

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
