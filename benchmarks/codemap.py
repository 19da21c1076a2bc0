#!/usr/bin/env python3
"""The code map: building it, judging it and reading one changed file, on a repository of 13,000 files made here.

    python benchmarks/codemap.py [FOLDER]

With a folder, that one is read instead and nothing in it is changed.
"""

import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio
from measuring import Row, describe_machine, print_table

from pattern_acp.bootstrap.source_files import list_source_files
from pattern_acp.codemap.indexing import PROCESSES, index_files, read_in_process
from pattern_acp.codemap.service import WorkspaceCodeMap, open_code_maps
from pattern_acp.codemap.store import open_index
from pattern_acp.domain.clock import SystemClock

FILES = 13_000


def make_repository(root: Path) -> None:
    """Packages of 40 modules of 60 to 260 lines that import and call one another; the size of ordinary files."""
    chance = random.Random(1)
    for number in range(FILES):
        folder = root / f"pkg{number // 40:03}"
        if number % 40 == 0:
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("")
        other = chance.randrange(FILES)
        lines = [
            f'"""Module {number}."""',
            "from __future__ import annotations",
            f"from pkg{other // 40:03}.module{other} import Thing{other}, helper{other}_1",
            "",
            f"LIMIT = {number}",
        ]
        for index in range(chance.randrange(4, 22)):
            lines += [
                f"def helper{number}_{index}(first: int, second: str = '') -> int:",
                '    """Add what is given and say it."""',
                f"    total = helper{other}_1(first, second) + LIMIT",
                "    for item in range(total):",
                "        print(item, second.upper(), len(second))",
                "    return total",
                "",
            ]
        lines += [f"class Thing{number}(Thing{other}):", "    def run(self) -> int:", "        return self.size(1)"]
        (folder / f"module{number}.py").write_text("\n".join(lines) + "\n")
    subprocess.run(("git", "init", "-q", str(root)), check=True)


def first(folder: Path, pattern: str) -> Path:
    return next(folder.rglob(pattern))


def size_of(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.rglob("index-*"))


async def timed_judgement(code_map: WorkspaceCodeMap) -> float:
    started = time.perf_counter()
    await code_map.judge()
    return time.perf_counter() - started


async def measure(root: Path, cache: Path, *, may_write: bool) -> None:
    rows: list[Row] = []
    async with open_code_maps(cache, list_source_files, SystemClock()) as maps:
        code_map = await maps.at(str(root))
        missing = await timed_judgement(code_map)
        started = time.perf_counter()
        judgement = await code_map.prepare(3_600)
        seconds = time.perf_counter() - started
        files = judgement.listed
        print(f"\n{files} files, {PROCESSES} reading process(es), {judgement.freshness} after {seconds:.1f} s")
        rows.append(Row("build", [files / seconds], "files/s", ">= 150"))
        rows.append(Row("judging an index that is missing", [missing], "s", "1", 1.0))
        judged = [await timed_judgement(code_map) for _ in range(7)]
        rows.append(Row("judging an index that is fresh", judged, "s", "1", 1.0))
        if may_write:
            index, path = first(cache, "index-*.db"), first(root, "module77.py")
            index_files(str(index), str(root), [])
            alone: list[float] = []
            through: list[float] = []
            for number in range(15):
                path.write_text(f"{path.read_text()}\nx{number} = 1\n")
                started = time.perf_counter()
                index_files(str(index), str(root), [path.relative_to(root).as_posix()])
                alone.append((time.perf_counter() - started) * 1000)
            async with open_index(index, clock=SystemClock()) as database:
                for number in range(15):
                    path.write_text(f"{path.read_text()}\ny{number} = 1\n")
                    started = time.perf_counter()
                    await read_in_process(database, str(root), [path.relative_to(root).as_posix()])
                    through.append((time.perf_counter() - started) * 1000)
            rows.append(Row("a changed file, read and stored", alone, "ms", "50", 50.0))
            rows.append(Row("a changed file, through the other process", through, "ms", "50", 50.0))
    print_table("Code map", rows)
    print(f"\nIndex {size_of(cache) / 1e6:.0f} MB.")


def main() -> int:
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        if len(sys.argv) > 1:
            anyio.run(partial(measure, Path(sys.argv[1]).absolute(), cache, may_write=False))
        else:
            make_repository(Path(folder, "work"))
            anyio.run(partial(measure, Path(folder, "work"), cache, may_write=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
