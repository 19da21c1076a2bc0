"""Invariants 5 and 6: several processes on one constellation, and processes that are killed."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.reader import read_stream, verify_stream
from tests.support.constellation import FakeClock

WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import anyio
    from pattern_acp.db.connection import open_database
    from pattern_acp.domain.clock import SystemClock
    from pattern_acp.domain.access import Actor, Origin
    from pattern_acp.journal.events import SessionTitled
    from pattern_acp.journal.writer import append

    async def main(path, streams, writes, padding):
        async with open_database(Path(path), clock=SystemClock()) as database:
            print("ready", flush=True)
            sys.stdin.readline()
            for number in range(int(writes)):
                for stream in streams.split(","):
                    event = SessionTitled(f"{stream} {number}" + " " * (number % 7 * int(padding)))
                    await database.write(
                        lambda tx: append(tx, stream, event, actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=number)
                    )
                print(number, flush=True)

    anyio.run(main, *sys.argv[1:])
""")


def start_writer(path: Path, streams: str, writes: int, padding: int) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), streams, str(writes), str(padding)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")


def titles(tx: Transaction, stream: str) -> list[str]:
    return [entry.event.title.strip() for entry in read_stream(tx, stream) if isinstance(entry.event, SessionTitled)]


@pytest.mark.slow
async def test_four_processes_lose_nothing_and_never_see_a_locked_database(tmp_path: Path):
    path = tmp_path / "constellation.db"
    children = [start_writer(path, f"own-{index},shared", 75, 0) for index in range(4)]
    for child in children:
        go(child)
    ends = [child.communicate(timeout=50) for child in children]
    assert [(child.returncode, end[1]) for child, end in zip(children, ends, strict=True)] == [(0, "")] * 4
    async with open_database(path, clock=FakeClock()) as database:
        for index in range(4):
            stream = f"own-{index}"
            found = await database.read(lambda tx, stream=stream: titles(tx, stream))
            assert found == [f"{stream} {number}" for number in range(75)]
        shared = await database.read(lambda tx: titles(tx, "shared"))
        assert sorted(shared) == sorted(f"shared {number}" for number in range(75) for _ in range(4))
        assert (await database.read(lambda tx: verify_stream(tx, "shared"))).ok


@pytest.mark.parametrize("lines", [1, 7, 23, 41, 60])
async def test_a_process_killed_while_writing_loses_nothing_it_acknowledged(tmp_path: Path, lines: int):
    path = tmp_path / "constellation.db"
    child = start_writer(path, "own", 100_000, 3000)
    go(child)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    acknowledged += child.communicate(timeout=30)[0].splitlines(keepends=True)
    complete = [int(line) for line in acknowledged if line.endswith("\n")]
    async with open_database(path, clock=FakeClock()) as database:
        found = await database.read(lambda tx: titles(tx, "own"))
        assert found == [f"own {number}" for number in range(len(found))]
        assert len(found) >= len(complete)
        assert await database.read(quick_check) == ()
        report = await database.read(lambda tx: verify_stream(tx, "own"))
        assert (report.ok, report.events) == (True, len(found))
