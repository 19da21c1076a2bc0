"""How often the right memory is found: recall at 1, 5, 10 and MRR for each embedder and way of fusion.

    python benchmarks/recall/evaluate.py            # every embedder that is installed
    python benchmarks/recall/evaluate.py hash

Words alone are BM25. Dense is the vectors alone, RRF adds 1/(60 + rank) of both, convex is the weighted sum of scores
without anything else, and shipped is what a search really gives: with neighbours, recency, kinds and the floor.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from embedders import EMBEDDERS, usable
from memory_set import MemorySet, Question, load_set
from msgspec import structs

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.archive import NewEntry, insert_entry
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.embeddings import Embedder
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.matching import occurring
from pattern_acp.memory.recall import (
    Candidate,
    QueryFacts,
    SearchResult,
    index_message,
    is_guess,
    retrieve_candidates,
    search,
    share_of_meaning,
)
from pattern_acp.memory.search_terms import Filters, names_identifier, query_terms
from pattern_acp.memory.vectors import QueryVector

OWNER = "project"
FILTERS = Filters((OWNER,))
NOW = 1_800_000_000_000
DEPTH = 10

Order = Callable[[Sequence[Candidate], str, QueryVector], list[Candidate]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question by one method: the rank of its answer, 0 when it is not among the first ten."""

    question: Question
    rank: int
    found: int
    is_guess: bool = False
    """Whether the results are said to be hardly an answer."""


def store(tx: Transaction, memory: MemorySet) -> None:
    seq = append(tx, "s", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq
    for fact in memory.facts:
        entry = NewEntry(
            fact.id, Scope.PROJECT, OWNER, fact.text, Actor.PERSONA, Origin.MODEL, supersedes=fact.supersedes
        )
        insert_entry(tx, entry, at_ms=NOW, seq=seq)
    for said in memory.said:
        index_message(
            tx,
            session_id=said.session,
            owner=OWNER,
            kind="user" if said.by_person else "assistant",
            message_id=said.id,
            text=said.text,
            at_ms=NOW,
            seq=seq,
        )


def by_words(candidates: Sequence[Candidate], query: str, vector: QueryVector) -> list[Candidate]:
    del query, vector
    return [one for one in sorted(candidates, key=lambda one: -one.text_score) if one.text_score > 0.0]


def by_meaning(candidates: Sequence[Candidate], query: str, vector: QueryVector) -> list[Candidate]:
    del query, vector
    return sorted(candidates, key=lambda one: -(one.meaning or 0.0))


def by_ranks(candidates: Sequence[Candidate], query: str, vector: QueryVector) -> list[Candidate]:
    scores: defaultdict[int, float] = defaultdict(float)
    for ordered in (by_words(candidates, query, vector), by_meaning(candidates, query, vector)):
        for place, one in enumerate(ordered, start=1):
            scores[one.entry] += 1.0 / (60 + place)
    return sorted(candidates, key=lambda one: -scores[one.entry])


def convex(trust: float | None = None) -> Order:
    def order(candidates: Sequence[Candidate], query: str, vector: QueryVector) -> list[Candidate]:
        best = max((one.text_score for one in candidates), default=0.0) or 1.0
        meanings = [one.meaning or 0.0 for one in candidates]
        low, high = min(meanings, default=0.0), max(meanings, default=1.0)

        def score(one: Candidate) -> float:
            share = trust
            if share is None:
                share = share_of_meaning(one.kind, QueryFacts(names_identifier(query), vector.model.trust))
            stretched = ((one.meaning or 0.0) - low) / ((high - low) or 1.0)
            return share * stretched + (1.0 - share) * one.text_score / best

        return sorted(candidates, key=lambda one: -score(one))

    return order


METHODS: dict[str, Order] = {
    "words": by_words,
    "dense": by_meaning,
    "RRF 60": by_ranks,
    "convex by kind": convex(),
    "convex .3": convex(0.3),
    "convex .5": convex(0.5),
    "convex .7": convex(0.7),
    "convex .85": convex(0.85),
}


async def evaluate(database: Database, embedder: Embedder, memory: MemorySet) -> dict[str, list[Outcome]]:
    indexer = Indexer(database, embedder, SystemClock())
    await embedder.prepare()
    await indexer.catch_up(1_000_000)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for question in memory.questions:
        vector = await indexer.query(question.text)
        if vector is None:
            raise SystemExit(f"No vector for {question.text!r}.")
        for name, ids in (await database.read(partial(ask, question=question.text, vector=vector))).items():
            outcomes[name].append(outcome(question, ids))
        found = await database.read(lambda tx, text=question.text, vector=vector: shipped(tx, text, vector))
        said = replace(
            outcome(question, [identity(one) for one in found]), is_guess=is_guess(found, question.text, vector)
        )
        outcomes["shipped"].append(said)
    return outcomes


def shipped(tx: Transaction, question: str, vector: QueryVector) -> tuple[SearchResult, ...]:
    return search(tx, question, FILTERS, limit=DEPTH, now_ms=NOW, vector=vector)


def identity(one: Candidate | SearchResult) -> str:
    return one.source if one.kind == "archival" else one.item


def ask(
    tx: Transaction,
    question: str,
    vector: QueryVector,
    *,
    filters: Filters = FILTERS,
    identify: Callable[[Candidate], str] = identity,
) -> dict[str, list[str]]:
    """The ids that each method finds, best first."""
    unlimited = structs.replace(vector, model=structs.replace(vector.model, floor=-1.0))
    candidates = retrieve_candidates(tx, occurring(tx, query_terms(question)), filters, unlimited)
    return {name: [identify(one) for one in order(candidates, question, vector)] for name, order in METHODS.items()}


def outcome(question: Question, items: list[str]) -> Outcome:
    seen = list(dict.fromkeys(items))
    place = seen.index(question.answer) + 1 if question.answer in seen else 0
    return Outcome(question, place if place <= DEPTH else 0, len(seen))


def show(embedder: str, outcomes: dict[str, list[Outcome]]) -> None:
    print(f"\n### {embedder}\n")
    kinds = ["all", "paraphrase", "identifier", "mixed", "superseded", "conversation", "misspelt"]
    print("| method | " + " | ".join(f"{kind} R@1/5/10, MRR" for kind in kinds) + " |")
    print("| --- |" + " --- |" * len(kinds))
    for name, results in outcomes.items():
        cells: list[str] = []
        for kind in kinds:
            ranks = [one.rank for one in results if one.question.answer and kind in {"all", one.question.kind}]
            shares = [sum(1 for rank in ranks if 0 < rank <= depth) / len(ranks) for depth in (1, 5, 10)]
            mrr = sum(1.0 / rank for rank in ranks if rank) / len(ranks)
            cells.append("/".join(f"{share:.2f}"[1:] if share < 1 else "1" for share in shares) + f", {mrr:.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    unanswerable = [one for one in outcomes["shipped"] if not one.question.answer]
    silent = sum(one.found == 0 for one in unanswerable)
    shown = sum(one.found for one in unanswerable) / len(unanswerable)
    print(
        f"\nQuestions without an answer: {silent} of {len(unanswerable)} find nothing, {shown:.1f} results on average."
    )
    guessed = sum(one.is_guess for one in unanswerable)
    answered = [one for one in outcomes["shipped"] if 0 < one.rank <= 5]
    wrongly = sum(one.is_guess for one in answered)
    print(f"Told to be no good match: {guessed} more of those, and {wrongly} of the {len(answered)} found among five.")


async def main(names: list[str]) -> None:
    memory = load_set()
    print(f"{len(memory.facts)} facts, {len(memory.said)} messages, {len(memory.questions)} questions")
    for name in names or usable():
        clock = SystemClock()
        with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
            async with open_database(Path(folder) / "c.db", clock=clock) as database:
                await database.write(lambda tx: store(tx, memory))
                show(name, await evaluate(database, EMBEDDERS[name](), memory))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("embedders", nargs="*", choices=[[], *EMBEDDERS])
    anyio.run(main, parser.parse_args().embedders)
