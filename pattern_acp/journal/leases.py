"""Leases: the process that runs a session, and whether a process is alive.

Owns: the `leases` table. Must not know: what a session does. Two processes on one constellation run different sessions
freely; one session runs in one process, since its stream has one end. Leases are not journaled: they say nothing about
what happened.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.codec import LeaseHeldError, LeaseLostError

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux's first namespace of process ids (PROC_PID_INIT_INO); a sandbox or container has another."""


@cache
def host_name() -> str:
    """The machine as far as process ids reach: its name, and on Linux the namespace when it is not the first one.

    An editor in a sandbox sees none of the processes outside, so those must count as another machine's.
    """
    name = platform.node() or "localhost"
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return name
    return name if namespace == _INITIAL_PID_NAMESPACE else f"{name} {namespace}"


@cache
def own_start_mark() -> str:
    """The start mark of this process."""
    return start_mark(os.getpid()) or ""


def is_running(pid: int, mark: str) -> bool:
    """Return whether the process that had `pid` and start mark `mark` on this machine is still alive."""
    found = start_mark(pid)
    # An empty mark could not be read then or cannot be read now; a living process then counts as the same one.
    return found is not None and (not mark or not found or mark == found)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _QUERY_LIMITED_INFORMATION = 0x1000
    _STILL_ACTIVE = 259
    _ACCESS_DENIED = 5

    def start_mark(pid: int) -> str | None:
        """A mark that differs between two processes with the same id; None: no process has it; empty: unknown."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        kernel.GetExitCodeProcess.argtypes = (wintypes.HANDLE, ctypes.POINTER(wintypes.DWORD))
        kernel.GetProcessTimes.argtypes = (wintypes.HANDLE, *(ctypes.POINTER(wintypes.FILETIME),) * 4)
        handle = kernel.OpenProcess(_QUERY_LIMITED_INFORMATION, 0, pid)
        if not handle:
            return "" if ctypes.get_last_error() == _ACCESS_DENIED else None
        try:
            code = wintypes.DWORD()
            if kernel.GetExitCodeProcess(handle, ctypes.byref(code)) and code.value != _STILL_ACTIVE:
                return None
            times = [wintypes.FILETIME() for _ in range(4)]
            if not kernel.GetProcessTimes(handle, *(ctypes.byref(time) for time in times)):
                return ""
            return str((times[0].dwHighDateTime << 32) | times[0].dwLowDateTime)
        finally:
            kernel.CloseHandle(handle)

else:

    def start_mark(pid: int) -> str | None:
        """A mark that differs between two processes with the same id; None: no process has it; empty: unknown."""
        if pid <= 0 or not _exists(pid):
            return None
        return _linux_mark(pid) if sys.platform == "linux" else _ps_mark(pid)

    def _exists(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            return True
        return True

    def _linux_mark(pid: int) -> str | None:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return ""
        # After the name in brackets: fields[0] is the state, fields[19] the start in clock ticks since boot (proc(5)).
        return None if fields[0] in "ZX" else f"{boot[:8]}-{fields[19]}"

    def _ps_mark(pid: int) -> str:
        try:
            shown = subprocess.run(  # noqa: S603  # a fixed program with a number
                ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
                env={"LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=2,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return " ".join(shown.stdout.decode("ascii", "replace").split())


QUERIES = load_queries("pattern_acp.journal")

STALE_MS = 60_000
"""A lease of another machine, whose processes we cannot see, is dead when it was not renewed for this long."""


class Holder(Struct, frozen=True):
    """One start of this program: a random id, its process and machine."""

    holder: str
    pid: int
    process_started: str
    host: str


class Lease(Struct, frozen=True):
    """A lease: the holder of a session, since when, and when it last said so."""

    holder: Holder
    acquired_ms: int
    renewed_ms: int


def this_process(holder: str) -> Holder:
    """The holder that this process is; `holder` is an id that is new at every start."""
    return Holder(holder, os.getpid(), own_start_mark(), host_name())


def acquire(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    take_over: bool = False,
    editor: str = "",
    is_alive: Callable[[int, str], bool] = is_running,
) -> bool:
    """Take the session. True: another holder had it, who is dead or is taken it from (`take_over`).

    `editor` is the name of the client for which it is taken.

    Raises:
        LeaseHeldError: another process that is alive holds it, and `take_over` is not wanted.
        ConstraintError: there is no such session.
    """
    lease = lease_of(tx, session_id)
    if lease is not None and lease.holder.holder == holder.holder:
        renew(tx, session_id, holder, now_ms)
        return False
    if not take_over:
        refuse_if_held(tx, session_id, holder, now_ms, is_alive=is_alive)
    tx.execute(
        QUERIES["take_lease"],
        {
            "session_id": session_id,
            "holder": holder.holder,
            "pid": holder.pid,
            "process_started": holder.process_started,
            "host": holder.host,
            "at_ms": now_ms,
            "editor": storable(editor),
        },
    )
    return lease is not None


def lease_of(tx: Transaction, session_id: SessionId) -> Lease | None:
    """The lease of the session, its holder alive or not; None when nobody has it."""
    row = tx.one(QUERIES["get_lease"], {"session_id": storable(session_id)})
    if row is None:
        return None
    return Lease(Holder(text(row[0]), integer(row[1]), text(row[2]), text(row[3])), integer(row[4]), integer(row[5]))


def held_elsewhere(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    is_alive: Callable[[int, str], bool] = is_running,
) -> Lease | None:
    """The lease of another process that is alive, or None."""
    lease = lease_of(tx, session_id)
    if lease is None or lease.holder.holder == holder.holder:
        return None
    held = _is_held(lease.holder, holder, renewed_ms=lease.renewed_ms, now_ms=now_ms, is_alive=is_alive)
    return lease if held else None


def refuse_if_held(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    remedy: str = "close it there, or start a new session",
    is_alive: Callable[[int, str], bool] = is_running,
) -> None:
    """Nothing, unless another process that is alive has the session.

    Raises:
        LeaseHeldError: with the user's choices as `remedy`.
    """
    lease = held_elsewhere(tx, session_id, holder, now_ms, is_alive=is_alive)
    if lease is not None:
        other = lease.holder
        raise LeaseHeldError(session_id, pid=other.pid, host=other.host, since_ms=lease.acquired_ms, remedy=remedy)


def require(tx: Transaction, session_id: SessionId, holder: Holder) -> None:
    """Nothing, when the holder has the session; called in every transaction that adds to it.

    Raises:
        LeaseLostError: another process took it meanwhile.
    """
    lease = lease_of(tx, session_id)
    if lease is None or lease.holder.holder != holder.holder:
        raise LeaseLostError(session_id)


def renew(tx: Transaction, session_id: SessionId, holder: Holder, now_ms: int) -> bool:
    """Say that the holder still works on the session. False: it no longer holds it, and must not write to it."""
    params = {"session_id": session_id, "holder": holder.holder, "at_ms": now_ms}
    return tx.execute(QUERIES["renew_lease"], params) == 1


def renew_all(tx: Transaction, holder: Holder, now_ms: int) -> int:
    """Renew every lease of the holder; how many there are."""
    return tx.execute(QUERIES["renew_leases"], {"holder": holder.holder, "at_ms": now_ms})


def release(tx: Transaction, session_id: SessionId, holder: Holder) -> bool:
    """Give the session back. False: the holder did not hold it."""
    return tx.execute(QUERIES["release_lease"], {"session_id": session_id, "holder": holder.holder}) == 1


def release_all(tx: Transaction, holder: Holder) -> int:
    """Give back every session of the holder; how many there were."""
    return tx.execute(QUERIES["release_leases"], {"holder": holder.holder})


def _is_held(
    held: Holder, asking: Holder, *, renewed_ms: int, now_ms: int, is_alive: Callable[[int, str], bool]
) -> bool:
    if held.host != asking.host:
        return now_ms - renewed_ms <= STALE_MS
    return is_alive(held.pid, held.process_started)
