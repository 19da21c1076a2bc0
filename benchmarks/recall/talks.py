"""How often the turns that answer are among the first ten, in long conversations whose turns are past messages.

    python benchmarks/recall/talks.py                       # words, and every embedder that is installed
    python benchmarks/recall/talks.py --embedder hash

Weights were fitted on the questions of half 0; half 1 is what is reported, and letters.txt apart, by which nothing was
chosen. Recall is the part of the evidence of a question that is found, and the mean of that, with its standard error
over the scenes: a question of one scene is asked in several conversations.
"""

import argparse
import tempfile
from collections import defaultdict
from math import sqrt
from pathlib import Path
from statistics import fmean

import anyio
from conversations import Conversation, Question, make_conversations
from embedders import EMBEDDERS, usable
from letters import read_letters

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.recall import index_message, search
from pattern_acp.memory.search_terms import Filters

DEPTH = 10
KINDS = ("all", "words", "single", "reply", "date", "hops", "mistaken")
PARTS = ("fitted half", "other half", "letters")


def store(tx: Transaction, talk: Conversation) -> None:
    seq = append(tx, talk.name, SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
    for turn in talk.turns:
        index_message(
            tx,
            session_id=turn.session,
            owner=talk.name,
            kind="user" if turn.by_first else "assistant",
            message_id=turn.id,
            text=turn.text,
            at_ms=int(turn.at.timestamp() * 1000),
            seq=seq,
        )


async def measure(
    database: Database, talks: tuple[Conversation, ...], indexer: Indexer | None
) -> list[tuple[Question, float, list[str]]]:
    """Recall of each question."""
    results: list[tuple[Question, float, list[str]]] = []
    for talk in talks:
        filters = Filters((talk.name,))
        for question in talk.questions:
            vector = await indexer.query(question.text) if indexer is not None else None
            now_ms = int(question.now.timestamp() * 1000)
            found = await database.read(
                lambda tx, question=question, filters=filters, vector=vector, now_ms=now_ms: search(
                    tx, question.text, filters, limit=DEPTH, now_ms=now_ms, vector=vector
                )
            )
            items = [one.item for one in found]
            results.append((question, len(question.evidence & set(items)) / len(question.evidence), items))
    return results


def show(name: str, results: list[tuple[Question, float, list[str]]]) -> None:
    for half, part in enumerate(PARTS):
        shares: dict[str, list[float]] = defaultdict(list)
        scenes: dict[str, list[float]] = defaultdict(list)
        for question, recall, _ in results:
            if question.half == half:
                shares["all"].append(recall)
                shares[question.kind].append(recall)
                scenes[question.scene].append(recall)
        cells = [f"{fmean(shares[kind]):.3f}" if shares[kind] else "" for kind in KINDS]
        cells[0] += f" ± {standard_error(list(scenes.values())):.3f}"
        print(f"| {name}, {part} | {' | '.join(cells)} |", flush=True)


def standard_error(scenes: list[list[float]]) -> float:
    """The standard error of the mean of all, where those of one scene depend on each other."""
    every = [recall for scene in scenes for recall in scene]
    mean = fmean(every)
    return sqrt(sum(sum(recall - mean for recall in scene) ** 2 for scene in scenes)) / len(every)


async def main(names: list[str]) -> None:
    talks = (*make_conversations(), read_letters())
    turns, questions = (sum(len(getattr(talk, name)) for talk in talks) for name in ("turns", "questions"))
    print(f"{len(talks)} conversations, {turns} turns, {questions} questions; recall at {DEPTH}\n")
    print("| | " + " | ".join(KINDS) + " |\n|" + " --- |" * (len(KINDS) + 1))
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
        async with open_database(Path(folder) / "c.db", clock=clock) as database:
            for talk in talks:
                await database.write(lambda tx, talk=talk: store(tx, talk))
            for name in names or ["words", *usable()]:
                indexer = None if name == "words" else Indexer(database, EMBEDDERS[name](), clock)
                if indexer is not None:
                    await indexer.prepare()
                    await indexer.catch_up(1_000_000)
                show(name, await measure(database, talks, indexer))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--embedder", choices=["words", *EMBEDDERS], action="append", default=[])
    anyio.run(main, parser.parse_args().embedder)
