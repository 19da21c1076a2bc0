"""The processes that this one comes from: who started a command of ours that has lost its environment (Linux).

Owns: reading `/proc`. Must not know: what follows from it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pattern_acp.processes.confinement import LAUNCHER

_MOST = 64
"""Most ancestors that are looked at; a chain has no end only when numbers are reused while it is read."""


def is_of_agent(variable: str, environment: Mapping[str, str]) -> bool:
    """Tell whether an agent started this process: by its environment, or by the processes that it comes from."""
    return bool(environment.get(variable)) or descends_from_agent(variable)


def descends_from_agent(variable: str, *, proc: Path = Path("/proc"), start: str = "self") -> bool:
    """Tell whether an ancestor has `variable` in its environment, or is the launcher of a command.

    `env -i` takes a variable from a program, not from the shell that runs it; what is detached becomes a child of the
    launcher. False on systems without `/proc`.
    """
    marks = (f"{variable}=".encode(), LAUNCHER.name.encode())
    return any(
        any(entry.startswith(marks[0]) for entry in _entries(folder / "environ"))
        or any(entry.rpartition(b"/")[2] == marks[1] for entry in _entries(folder / "cmdline"))
        for folder in _ancestors(proc, start)
    )


def _ancestors(proc: Path, start: str) -> Iterator[Path]:
    pid = _parent(proc / start)
    for _ in range(_MOST):
        if pid in {"", "0"}:
            return
        yield proc / pid
        pid = _parent(proc / pid)


def _parent(folder: Path) -> str:
    try:
        # The name before these fields may hold anything, parentheses too.
        return (folder / "stat").read_bytes().rpartition(b")")[2].split()[1].decode("ascii")
    except (OSError, IndexError):
        return ""


def _entries(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().split(b"\0")
    except OSError:
        return []
