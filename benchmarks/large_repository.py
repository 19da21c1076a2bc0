#!/usr/bin/env python3
"""Searches, windows of lines and the first answer of code_map in a repository of 100,000 files.

    python benchmarks/large_repository.py [FILES]

It makes the repository in a temporary folder and compares with `git grep` and ripgrep, which are not used.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from measuring import Row, describe_machine, print_table
from msgspec.structs import replace

from pattern_acp.bootstrap.code_maps import ServedCode
from pattern_acp.config.load import process_environment
from pattern_acp.domain.clock import SystemClock
from pattern_acp.tools.base import CodeMapArguments, CodeOperation, looks_readable
from pattern_acp.tools.code_questions import answered
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.search import search_text
from tests.support.tools import tool_bench

FILES_OF_FOLDER = 100
RARE = "needle_rare"
MODULE = '''\
"""Module {0}."""

import os


def compute_{0}(value: int) -> int:
    """Return the value for {0}."""
    return value + {0}


class Thing{0}:
    """A thing."""

    def run(self) -> int:
        return compute_{0}({0})
'''


def make_repository(root: Path, count: int) -> None:
    filler = "# a line of a comment that says nothing of note\n" * 12
    for number in range(count):
        folder = root / f"area{number // 10_000:02}" / f"package{number // FILES_OF_FOLDER:04}"
        if number % FILES_OF_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"module_{number:06}.py").write_text(MODULE.format(number) + filler)
    (root / "area00" / "rare.py").write_text(f"{RARE} = 1\n")
    (root / ".gitignore").write_text("build/\n*.log\n")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]
    for arguments in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


class Cost:
    """Wall time and processor time, that of ended children included, of calls in milliseconds."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    async def of(self, call: Callable[[], Awaitable[object]], *, rounds: int = 5) -> "Cost":
        for _ in range(rounds):
            began, before = time.perf_counter(), _processor_seconds()
            await call()
            self.wall.append((time.perf_counter() - began) * 1000)
            self.processor.append((_processor_seconds() - before) * 1000)
        return self

    def rows(self, name: str, target: str = "", limit: float | None = None) -> list[Row]:
        return [Row(name, self.wall, "ms", target, limit), Row(f"{name}: processor time", self.processor, "ms")]


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def measure_search(root: Path) -> None:
    async def ours() -> None:
        found = await search_text(str(root), RARE, may_read=looks_readable)
        if found.match_count != 1:
            raise SystemExit("The search did not find its line.")

    async def run(*command: str) -> None:
        await anyio.run_process(command, cwd=root, check=False)

    rows = (await Cost().of(ours)).rows("search_text of a rare word", "2 s", 2_000)
    grep = ("git", "-c", "core.fsmonitor=false", "grep", "--untracked", "-a", "-l", "-F", RARE)
    rows += (await Cost().of(lambda: run(*grep))).rows("git grep of it, which tells nothing of binary files")
    if shutil.which("rg"):
        rows += (await Cost().of(lambda: run("rg", "-l", "--hidden", RARE))).rows("ripgrep, likewise")
    print_table("Searching", rows)


async def measure_window(folder: Path) -> None:
    large = folder / "large.log"
    large.write_bytes(b"2026-11-29 12:00:00 a line of a log that is long enough\n" * 2_000_000)
    window = LineWindow(start=1_500_000, count=5, width=2_000, characters=50_000)
    cost = await Cost().of(lambda: LocalFileSystem().read_lines(str(large), window))
    print_table(f"Five lines of a file of {large.stat().st_size / 1e6:.0f} MB", cost.rows("read_lines"))


async def measure_code_map(root: Path, cache: Path) -> None:
    """The first answer for a name, as the tool gives it: from the index, or by the name's text."""
    bench = tool_bench(root)
    async with anyio.create_task_group() as tasks:
        code = ServedCode(tasks, cache, process_environment(), SystemClock())
        began = time.perf_counter()
        found = await answered(
            CodeMapArguments(CodeOperation.FIND, query="compute_77777"),
            replace(bench.context, code=code),
            bench.progress,
        )
        print(f"\nFirst answer of code_map for a name after {time.perf_counter() - began:.1f} s: {found.freshness}")
        print(*(line.text for line in found.lines[:3]), sep="\n")
        tasks.cancel_scope.cancel()


def main() -> int:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(describe_machine())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "work"
        root.mkdir()
        make_repository(root, files)
        anyio.run(measure_search, root)
        anyio.run(measure_window, folder)
        anyio.run(measure_code_map, root, folder / "cache")
    return 0


if __name__ == "__main__":
    sys.exit(main())
