"""What chooses the vectors that a search compares: our codes of signs, or an index of sqlite-vec (`vec0`, bits).

    python benchmarks/recall/vec0.py 10000 100000

Both choose by the same bits, and what they chose is compared by the same statement with sqlite-vec's cosine. Of each it
shows processor time in ms for the choice and the comparison together, how many of the ten nearest vectors it found, and
what one more entry costs. ADR 0026 has the figures.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
from corpus import Corpus
from speed import OWNERS, QUERIES, fill

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.clock import SystemClock
from pattern_acp.memory.embeddings import DIMENSIONS, HASHED_NGRAMS, HashedNgrams, hashed_vector, to_bytes
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.search_terms import Filters
from pattern_acp.memory.vectors import QueryVector, VectorTable, find_model, nearest

COUNT = 60
"""Vectors that a search wants, as in memory/candidates.py."""

FOUND = 10
INSERTS = 500

MAKE = "CREATE VIRTUAL TABLE trial USING vec0(owner text partition key, signs bit[512])"
FILL = (
    "INSERT INTO trial (rowid, owner, signs)"
    " SELECT v.entry, e.owner, vec_quantize_binary(v.vector)"
    " FROM vectors AS v JOIN search_entries AS e ON e.id = v.entry"
)
CHOOSE = "SELECT rowid FROM trial WHERE signs MATCH vec_quantize_binary(:vector) AND k = :k AND owner = :owner"
ADD = "INSERT INTO trial (rowid, owner, signs) VALUES (:id, :owner, vec_quantize_binary(:vector))"

Near = tuple[tuple[int, float], ...]

_QUERIES = load_queries("pattern_acp.memory")


def by_codes(tx: Transaction, query: QueryVector, filters: Filters, visible: int) -> Near:
    """As shipped."""
    return nearest(tx, query, filters, visible=visible, count=COUNT)


def by_vec0(tx: Transaction, query: QueryVector, filters: Filters, k: int) -> Near:
    """The `k` nearest of each owner by an index of sqlite-vec, compared as ours are."""
    vector = to_bytes(query.vector)
    entries = [
        columns.integer(row[0])
        for owner in filters.owners
        for row in tx.all(CHOOSE, {"vector": vector, "k": k, "owner": owner})
    ]
    asked = {**filters.params(), "model": query.table.model, "vector": vector, "size": len(vector), "count": COUNT}
    rows = tx.all(_QUERIES["nearest_of"], {**asked, "entries": json.dumps(sorted(entries))})
    return tuple((columns.integer(row[0]), 0.0) for row in rows)


def timed(
    queries: Sequence[QueryVector], truth: Sequence[Near], choose: Callable[[QueryVector], Near]
) -> tuple[list[float], float]:
    """Milliseconds of each query, sorted, and how many of the ten nearest were found, of 1."""
    for query in queries[:20]:
        choose(query)
    times: list[float] = []
    found = 0
    for query, true in zip(queries, truth, strict=True):
        start = time.process_time()
        near = choose(query)
        times.append((time.process_time() - start) * 1000)
        found += len({one for one, _ in near} & {one for one, _ in true[:FOUND]})
    return sorted(times), found / (FOUND * len(queries))


def compare(tx: Transaction, queries: Sequence[QueryVector], count: int) -> None:
    """Print one row for each way and set of owners."""
    print(f"\n{count} entries\n\n| owners | chosen by | p50 ms | p95 ms | of the 10 nearest |\n|---|---|---|---|---|")
    for owners in (OWNERS[:1] + OWNERS[4:], OWNERS, OWNERS[3:4]):
        filters = Filters(owners)
        exact = [
            QueryVector(
                VectorTable(one.table.model, has_extension=True, exact_entries=count + 1), one.model, one.vector
            )
            for one in queries
        ]
        truth = [nearest(tx, one, filters, visible=0, count=COUNT) for one in exact]
        ways: list[tuple[str, Callable[[QueryVector], Near]]] = [
            ("codes, 300", lambda one, filters=filters: by_codes(tx, one, filters, count)),
            *(
                (f"vec0, {k} of each owner", lambda one, filters=filters, k=k: by_vec0(tx, one, filters, k))
                for k in (100, 300)
            ),
        ]
        for name, way in ways:
            times, share = timed(queries, truth, way)
            p95 = times[int(len(times) * 0.95)]
            print(f"| {len(owners)} | {name} | {statistics.median(times):.2f} | {p95:.2f} | {share:.2f} |")


async def measure(count: int) -> None:
    """One size."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
        async with open_database(Path(folder) / "c.db", clock=clock) as database:
            questions = await fill(database, Corpus(7), count)
            await Indexer(database, HashedNgrams(), clock).catch_up(count + 1)
            start = time.perf_counter()
            await database.write(lambda tx: [tx.execute(MAKE), tx.execute(FILL)])
            print(f"\n{count} entries go into vec0 in {time.perf_counter() - start:.2f} s")
            table = await database.read(lambda tx: find_model(tx, HASHED_NGRAMS.name, has_extension=True))
            assert table is not None
            queries = [QueryVector(table, HASHED_NGRAMS, hashed_vector(one)) for one in questions[:QUERIES]]
            await database.read(lambda tx: compare(tx, queries, count))

            def add(tx: Transaction) -> float:
                vector, start = to_bytes(queries[0].vector), time.process_time()
                for number in range(INSERTS):
                    tx.execute(ADD, {"id": 10_000_000 + number, "owner": OWNERS[0], "vector": vector})
                return (time.process_time() - start) * 1000 / INSERTS

            print(f"\none more entry in vec0: {await database.write(add):.3f} ms, of {DIMENSIONS} dimensions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", type=int, nargs="*", default=[10_000, 100_000])
    for size in parser.parse_args().sizes:
        anyio.run(measure, size)
