"""What every benchmark needs: the agent in a process of its own, its costs, and tables of percentiles."""

import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pattern_acp.config.load import process_environment


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was measured, its values, and the target as text."""

    name: str
    values: Sequence[float]
    unit: str
    target: str = ""
    limit: float | None = None
    """The target as a number in the unit, held against the median; None where there is none."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        if self.median <= self.limit:
            return "met"
        return "met at the minimum" if min(self.values) <= self.limit else "missed"


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which `share` of them lie, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def print_table(title: str, rows: Sequence[Row]) -> None:
    """A Markdown table on stdout."""
    print(f"\n### {title}\n")
    print("| measured | n | min | median | p90 | unit | target | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        numbers = (min(row.values), row.median, percentile(row.values, 0.9))
        cells = (row.name, str(len(row.values)), *map(shown, numbers), row.unit, row.target, row.verdict)
        print(f"| {' | '.join(cells)} |")
    sys.stdout.flush()


def describe_machine() -> str:
    """The machine, the interpreter and the moment, in one line."""
    name = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line[:10] == "model name"), "")
    kilobytes = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    memory = f"{int(kilobytes) / 1024 / 1024:.0f} GB" if int(kilobytes) else "unknown memory"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{now}; {os.cpu_count()} x {name or platform.machine()}, {memory}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; load {load_average()}"
    )


def load_average() -> str:
    return " ".join(f"{each:.1f}" for each in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def bare_environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """PATH and an empty home: how some editors start an agent."""
    return {"PATH": process_environment().get("PATH", ""), "PATTERN_ACP_HOME": str(home), **extra}


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads so far; 0 where the platform does not tell."""
    folder = Path(f"/proc/{pid}/task")
    total = 0
    for task in folder.iterdir() if folder.is_dir() else ():
        # A thread may end while the folder is read; its time then goes missing.
        total += sum(int(line.split()[0]) for line in _lines(str(task / "schedstat")))
    return total / 1e9


def resident_megabytes(pid: int, kind: str = "VmRSS") -> float:
    """Resident memory, or a kind of it (`RssAnon`: without mapped files); 0 where the platform does not tell."""
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def expect(holds: bool, what: str) -> None:  # noqa: FBT001  # reads like an assertion, and is one
    """Refuse to print numbers of something that did not happen."""
    if not holds:
        raise RuntimeError(f"The benchmark measures nothing: {what}.")


def milliseconds(seconds: float) -> float:
    return seconds * 1000


def elapsed_ms(since: float) -> float:
    return milliseconds(time.perf_counter() - since)
