"""Identity of processes: is a process still the one that it was?

Owns: the start mark that tells two uses of one process id apart, and the name of this machine, on each platform. Must
not know: leases.
"""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

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
