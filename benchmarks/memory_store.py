"""Blocks and search of the constellation, without a process around them."""

import argparse
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from measuring import Row, milliseconds, percentile, print_table

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.scope import MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory

BLOCK_CHARACTERS = 20_000
"""Issue 3, section 5: of 100 writes of such a block 95 take at most 5 ms, besides waiting for the disk; a read 1 ms."""

WORDS = [f"w{number}ord" for number in range(5000)]
COMMON = ("the", "port", "of", "file", "test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--entries", type=int, nargs="*", default=[10_000, 100_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        anyio.run(measure, Path(name), options.rounds, options.entries)


async def measure(folder: Path, rounds: int, sizes: list[int]) -> None:
    clock, ids = SystemClock(), RandomIds()
    async with open_database(folder / "constellation.db", clock=clock) as database:
        owner = MemoryScope("default", "/project", SessionId("ses"))
        memory = ConstellationMemory(database, owner, clock=clock, ids=ids, peer=ids.peer())
        chooser = random.Random(1)
        print_table("Memory blocks", await measure_blocks(database, memory, chooser, rounds))
        rows: list[Row] = []
        for size in sizes:
            await fill(database, chooser, size)
            rows += await measure_search(memory, chooser, size, rounds)
        print_table("Search", rows)


async def measure_blocks(
    database: Database, memory: ConstellationMemory, chooser: random.Random, rounds: int
) -> list[Row]:
    await memory.blocks()
    await database.write(lambda tx: tx.execute("UPDATE blocks SET char_limit = 32000"))
    lines = [sentence(chooser) for _ in range(BLOCK_CHARACTERS // 88)]
    await memory.commit(MemoryEdit("project", "rewrite", "\n".join(lines)), None)

    async def write() -> None:
        place, new = chooser.randrange(len(lines)), sentence(chooser)
        await memory.commit(MemoryEdit("project", "replace", new, old_text=lines[place]), None)
        lines[place] = new

    async def append() -> None:
        await memory.commit(MemoryEdit("project", "append", " ".join(chooser.choices(WORDS, k=4))), None)

    rows: list[Row] = []
    for name, step in (("change a line in", write), ("append a line to", append), ("read", memory.blocks)):
        worked = time.process_time()
        taken = await timed(step, rounds)
        processor = milliseconds(time.process_time() - worked) / rounds
        rows += [
            Row(f"{name} a block of {BLOCK_CHARACTERS:,} characters", taken, "ms"),
            Row("95th percentile of that", [percentile(taken, 0.95)], "ms"),
            Row("mean processor time of that", [processor], "ms"),
        ]
    return rows


async def measure_search(memory: ConstellationMemory, chooser: random.Random, size: int, rounds: int) -> list[Row]:
    async def rare() -> None:
        await memory.search(" ".join(chooser.choices(WORDS, k=3)), 10)

    async def common() -> None:
        await memory.search("which port has the test file", 10)

    return [
        Row(f"search {size:,} passages, three rare words", await timed(rare, rounds), "ms"),
        Row(f"search {size:,} passages, common words", await timed(common, rounds // 4), "ms"),
    ]


async def timed(step: Callable[[], Awaitable[object]], rounds: int) -> list[float]:
    taken: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        await step()
        taken.append(milliseconds(time.perf_counter() - began))
    return taken


async def fill(database: Database, chooser: random.Random, size: int) -> None:
    """Index messages until there are `size`."""

    def write(tx: Transaction) -> None:
        for number in range(_count(tx), size):
            words = (chooser.choice(WORDS if chooser.random() < 0.7 else COMMON) for _ in range(50))
            index_message(
                tx,
                session_id=f"ses_{number // 200}",
                owner="/project",
                kind="user" if number % 2 else "assistant",
                message_id=f"msg_{number}",
                text=" ".join(words),
                at_ms=1_800_000_000_000 + number,
                seq=1,
            )

    await database.write(write)


def _count(tx: Transaction) -> int:
    row = tx.one("SELECT count(*) FROM search_entries")
    return int(row[0]) if row and isinstance(row[0], int) else 0


def sentence(chooser: random.Random) -> str:
    return " ".join(chooser.choices(WORDS, k=10)).capitalize() + "."


if __name__ == "__main__":
    main()
