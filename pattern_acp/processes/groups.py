"""Process groups: starting a command with everything it starts, and ending all of it.

Owns: the differences between platforms: a session and process group of its own on POSIX, which the guard ends when we
are killed; a process group of its own and `taskkill` on Windows. Must not know: what runs, or who waits for its output.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import Process

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
    from pattern_acp.processes.guard import GUARD

    GUARD.watch(process.pid)
    return process


async def end_group(process: Process, *, grace: float) -> None:
    """Ask the whole group to end, wait up to `grace` seconds, then kill it; harmless when all of it has ended.

    Returns when no member is left, or when the rest was killed.
    """
    if sys.platform == "win32":
        await _end_tree_on_windows(process)
        return
    from pattern_acp.processes.guard import GUARD

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
