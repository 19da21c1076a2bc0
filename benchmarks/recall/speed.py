"""How long a search takes, by words alone and by words and meaning, in a constellation of N entries.

    python benchmarks/recall/speed.py 10000 100000

The constellation is made in a temporary folder. Targets (issue 3, section 4): 95 of 100 hybrid searches within 15 ms
at 10,000 entries and within 60 ms at 100,000.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from corpus import Corpus

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.embeddings import HashedNgrams
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.recall import index_archival, index_message, search
from pattern_acp.memory.search_terms import Filters

OWNERS = ("project-a", "project-b", "project-c", "project-d", "default")
SHARES = (50, 25, 15, 5, 5)
QUERIES = 200
BATCH = 500


async def fill(database: Database, corpus: Corpus, count: int) -> list[str]:
    """Store `count` texts as messages and archival entries of several owners; gives questions about some."""
    questions: list[str] = []
    owners = [owner for owner, share in zip(OWNERS, SHARES, strict=True) for _ in range(share)]

    def store(tx: Transaction, first: int) -> None:
        seq = append(tx, "s", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=first + 1).seq
        for number in range(first, min(first + BATCH, count)):
            text, owner = corpus.text(), owners[(number // 20) % len(owners)]
            if number % (count // QUERIES) == 0:
                questions.append(corpus.question(text))
            if number % 5 == 0:
                index_archival(tx, entry_id=f"a{number}", owner=owner, text=text, at_ms=number, seq=seq)
            else:
                index_message(
                    tx,
                    session_id=f"{owner}-{number // 20}",
                    owner=owner,
                    kind="user" if number % 2 else "assistant",
                    message_id=f"m{number}",
                    text=text,
                    at_ms=number,
                    seq=seq,
                )

    for first in range(0, count, BATCH):
        await database.write(lambda tx, first=first: store(tx, first))
    return questions


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of each search: by the clock, and of the processor, which other programs do not lengthen."""

    wall: list[float]
    processor: list[float]


async def timed(run: Callable[[str], Awaitable[object]], questions: list[str]) -> Times:
    """Each question once, after twenty that warm up."""
    for question in questions[:20]:
        await run(question)
    times = Times([], [])
    for question in questions:
        wall, processor = time.perf_counter(), time.process_time()
        await run(question)
        times.processor.append((time.process_time() - processor) * 1000)
        times.wall.append((time.perf_counter() - wall) * 1000)
    return times


def show(name: str, times: Times) -> None:
    cells: list[str] = []
    for taken in (sorted(times.wall), sorted(times.processor)):
        cells += [f"{statistics.median(taken):.1f}", f"{taken[int(len(taken) * 0.95)]:.1f}"]
    print(f"| {name} | {' | '.join(cells)} |")


async def measure(count: int) -> None:
    """One size."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
        async with open_database(Path(folder) / "c.db", clock=clock) as database:
            indexer = Indexer(database, HashedNgrams(), clock)
            corpus = Corpus(7)
            questions = await fill(database, corpus, count)
            common = [corpus.common_question() for _ in range(QUERIES // 2)]
            start = time.perf_counter()
            embedded = await indexer.catch_up(count + 1)
            seconds = time.perf_counter() - start
            print(f"\n{count} entries, {embedded} embedded and indexed at {embedded / seconds:,.0f} a second\n")
            print("| search | p50 ms | p95 ms | p50 ms processor | p95 ms processor |\n|---|---|---|---|---|")

            for owners in (OWNERS[:1] + OWNERS[4:], OWNERS, OWNERS[3:4]):
                filters = Filters(owners)

                async def words(question: str, filters: Filters = filters) -> object:
                    return await database.read(lambda tx: search(tx, question, filters, limit=8, now_ms=clock.now_ms()))

                async def hybrid(question: str, filters: Filters = filters) -> object:
                    vector = await indexer.query(question)
                    return await database.read(
                        lambda tx: search(tx, question, filters, limit=8, now_ms=clock.now_ms(), vector=vector)
                    )

                share = sum(part for owner, part in zip(OWNERS, SHARES, strict=True) if owner in owners)
                show(f"words, {share} % visible", await timed(words, questions))
                show(f"hybrid, {share} % visible", await timed(hybrid, questions))
                show(f"hybrid, common words, {share} % visible", await timed(hybrid, common))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    for size in parser.parse_args().sizes:
        anyio.run(measure, size)
