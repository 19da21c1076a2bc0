"""Whether what is recalled before a turn helps, over 310 facts: of prompts that one helps, and of those that none does.

python benchmarks/recall/prompts.py            # words, and every embedder that is installed
python benchmarks/recall/prompts.py hash
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from embedders import EMBEDDERS, usable
from evaluate import FILTERS, NOW, store
from memory_set import load_set

from pattern_acp.context.recall_budget import Recallable, choose, telling_words
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.recall import SearchResult, search
from pattern_acp.memory.search_terms import query_terms
from pattern_acp.memory.service.search import knows

PROMPTS = Path(__file__).with_name("prompts.txt")
TOKENS = 300
LOOKED_AT = 24


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and words of the fact that helps; empty where none does."""

    text: str
    helping: str


def read_prompts() -> tuple[Prompt, ...]:
    """All prompts."""
    found: list[Prompt] = []
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "+":
            helping, _, text = rest.partition(" | ")
            found.append(Prompt(text, helping))
        elif mark == "-":
            found.append(Prompt(rest, ""))
    return tuple(found)


async def recalled(database: Database, prompt: str, indexer: Indexer | None) -> Sequence[Recallable]:
    """What a turn recalls for a prompt."""
    telling = telling_words(query_terms(prompt))
    if not telling:
        return ()
    vector = await indexer.query(prompt) if indexer is not None else None
    knows_meaning = vector is not None and knows(vector.model)

    def recallable(one: SearchResult) -> Recallable:
        return Recallable(one.kind, one.text, one.at_ms, one.why.words, one.why.meaning if knows_meaning else None)

    found = await database.read(lambda tx: search(tx, prompt, FILTERS, limit=LOOKED_AT, now_ms=NOW, vector=vector))
    return choose([recallable(one) for one in found], telling, TOKENS, prompt)


async def measure(database: Database, indexer: Indexer | None, *, tells: bool = False) -> tuple[float, float, float]:
    """The parts of prompts that get the right fact, of those that get something although nothing helps, and of items
    that help."""
    right = wrong = items = 0
    prompts = read_prompts()
    for prompt in prompts:
        found = await recalled(database, prompt.text, indexer)
        helps = any(prompt.helping in one.text for one in found) if prompt.helping else False
        right += helps
        wrong += bool(found) and not prompt.helping
        items += len(found)
        if tells and (bool(found) if not prompt.helping else not helps):
            print(f"  {prompt.text} -> {[(one.text[:60], one.words, one.meaning) for one in found]}")
    helped = sum(bool(prompt.helping) for prompt in prompts)
    return right / helped, wrong / (len(prompts) - helped), right / max(1, items)


RIGHT, WRONG = 0.6, 0.1
"""The targets: at least, and at most."""


async def main(names: list[str], *, tells: bool) -> bool:
    """Print the table, and say whether the targets are met."""
    is_met = True
    memory = load_set()
    print("| | right fact | something where nothing helps | items that help |\n| --- | --- | --- | --- |")
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-bench-") as folder:
        async with open_database(Path(folder) / "c.db", clock=clock) as database:
            await database.write(lambda tx: store(tx, memory))
            for name in names or ["words", *usable()]:
                indexer = None if name == "words" else Indexer(database, EMBEDDERS[name](), clock)
                if indexer is not None:
                    await indexer.prepare()
                    await indexer.catch_up(1_000_000)
                right, wrong, precision = await measure(database, indexer, tells=tells)
                is_met = is_met and right >= RIGHT and wrong <= WRONG
                print(f"| {name} | {right:.2f} | {wrong:.2f} | {precision:.2f} |", flush=True)

    return is_met


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("embedders", nargs="*", choices=[[], "words", *EMBEDDERS])
    parser.add_argument("--tell", action="store_true")
    options = parser.parse_args()
    sys.exit(0 if anyio.run(partial(main, options.embedders, tells=options.tell)) else 1)
