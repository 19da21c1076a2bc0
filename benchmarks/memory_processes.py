"""How long writers of several processes wait for each other, and whether anything is lost.

    python benchmarks/memory_processes.py --processes 4 8 --writes 500

Every process appends lines to three blocks in turn, without a pause. Issue 3, section 8 asks for four processes with
500 writes each; issue 5, section 6 for waits of at most 250 ms in 99 of 100 commits.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
from measuring import Row, percentile, print_table

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.journal.reader import verify_stream
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.scope import MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory

T = TypeVar("T")

LABELS = ("persona", "human", "project")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="*", default=[4, 8])
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--child", nargs=2, metavar=("FILE", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        anyio.run(write, Path(options.child[0]), options.child[1], options.writes)
        return
    for processes in options.processes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            measure(Path(name) / "constellation.db", processes, options.writes)


async def prepare(path: Path) -> None:
    """The default blocks, with the largest limit."""
    async with open_database(path, clock=SystemClock()) as database:
        await memory_of(database, "first").blocks()
        await database.write(lambda tx: tx.execute("UPDATE blocks SET char_limit = 32000"))


def measure(path: Path, processes: int, writes: int) -> None:
    """One number of processes."""
    anyio.run(prepare, path)
    names = [f"w{number}" for number in range(processes)]
    command = [sys.executable, __file__, "--writes", str(writes), "--child", str(path)]
    began = time.perf_counter()
    children = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in names
    ]
    told = [json.loads(child.communicate()[0]) for child in children]
    seconds = time.perf_counter() - began
    waits = sorted(wait for one in told for wait in one["waits"])
    holds = sorted(hold for one in told for hold in one["holds"])
    print_table(
        f"{processes} processes, {writes} writes each: {seconds:.1f} s, {processes * writes / seconds:.0f} a second",
        [Row("wait for the lock", waits, "ms"), Row("hold the lock, with the commit", holds, "ms")],
    )
    print(
        f"99th percentile of the waits {percentile(waits, 0.99):.0f} ms, longest {waits[-1]:.0f} ms; "
        f"processor time a write {sum(one['processor'] for one in told) / processes / writes * 1000:.1f} ms; "
        f"first and last process done after {min(one['seconds'] for one in told):.1f} and "
        f"{max(one['seconds'] for one in told):.1f} s\n"
    )
    anyio.run(check, path, names, writes)


async def check(path: Path, names: list[str], writes: int) -> None:
    """Every line is there once, and every chain is sound."""
    async with open_database(path, clock=SystemClock()) as database:
        lines = [line for view in await memory_of(database, "last").blocks() for line in view.text.splitlines()]
        for name in names:
            own = sorted(int(line.partition(".")[2]) for line in lines if line.startswith(f"{name}."))
            if own != list(range(writes)):
                raise SystemExit(f"{name} lost writes: {len(own)} of {writes} are there")
            report = await database.read(lambda tx, name=name: verify_stream(tx, name))
            if not report.ok:
                raise SystemExit(f"the chain of {name} is broken: {report.problem}")


def memory_of(database: Database, name: str) -> ConstellationMemory:
    ids = RandomIds()
    owner = MemoryScope("tester", "/project", SessionId(name))
    return ConstellationMemory(database, owner, clock=SystemClock(), ids=ids, peer=ids.peer())


async def write(path: Path, name: str, writes: int) -> None:
    """One of the processes."""
    began, processor = time.perf_counter(), time.process_time()
    waits: list[float] = []
    holds: list[float] = []
    async with open_database(path, clock=SystemClock(), busy_seconds=60) as database:
        memory = memory_of(TimedDatabase(database, waits, holds), name)
        for number in range(writes):
            await memory.commit(MemoryEdit(LABELS[number % 3], "append", f"{name}.{number}"), None)
    print(
        json.dumps(
            {
                "waits": waits,
                "holds": holds,
                "seconds": time.perf_counter() - began,
                "processor": time.process_time() - processor,
            }
        )
    )


class TimedDatabase(Database):
    """A database that notes how long each write waited for the lock, and how long it held it."""

    def __init__(self, database: Database, waits: list[float], holds: list[float]) -> None:
        super().__init__(database._writer, database._reader, database.facts)  # noqa: SLF001  # the same threads
        self._waits = waits
        self._holds = holds

    async def write(self, function: Callable[[Transaction], T], *, quietly: bool = False) -> T:
        asked, begun = time.perf_counter(), 0.0

        def timed(tx: Transaction) -> T:
            nonlocal begun
            begun = time.perf_counter()
            return function(tx)

        try:
            return await super().write(timed, quietly=quietly)
        finally:
            self._waits.append((begun - asked) * 1000)
            self._holds.append((time.perf_counter() - begun) * 1000)


if __name__ == "__main__":
    main()
