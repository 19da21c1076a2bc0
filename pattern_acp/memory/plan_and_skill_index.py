"""Plan steps and skills in the search index.

Owns: keeping what is indexed of a list in step with it. Must not know: skills, where plans come from, or who searches.

What stayed keeps its row, and with it its time and its vector: a plan is replaced whole whenever a step is done.
"""

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.plan import Plan
from pattern_acp.memory.passages import message_passages
from pattern_acp.memory.recall import insert_passage

_QUERIES = load_queries("pattern_acp.memory")

ListedKind: TypeAlias = Literal["task", "skill"]


def skills_source(owner: str) -> str:
    """The source of the skills of a persona or project, whose items are their names."""
    return f"skills:{owner}"


def index_listed(
    tx: Transaction,
    kind: ListedKind,
    source: str,
    owner: str,
    listed: Iterable[tuple[str, str]],
    *,
    at_ms: int,
    seq: int,
) -> None:
    """Let `listed`, each an item with its text, be all that is indexed of this kind and source."""
    kept: dict[str, list[tuple[int, str]]] = {}
    for row in tx.all(_QUERIES["read_listed"], {"source": source, "kind": kind}):
        kept.setdefault(columns.text(row[2]), []).append((columns.integer(row[0]), columns.text(row[1])))
    for item, text in listed:
        for passage in message_passages(storable(text)):
            if same := kept.get(passage):
                entry, stored = same.pop(0)
                if stored != item:
                    tx.execute(_QUERIES["renumber_entry"], {"id": entry, "item": item, "seq": seq})
            else:
                insert_passage(tx, kind, source, owner, item, passage, at_ms, seq)
    for leftovers in kept.values():
        for entry, _ in leftovers:
            tx.execute(_QUERIES["delete_entry"], {"id": entry})


def index_steps(tx: Transaction, session_id: str, owner: str, plan: Plan, *, at_ms: int, seq: int) -> None:
    """Let the steps of `plan` be what is indexed of a session's plan."""
    steps = ((f"{at}.{step.status}", step.content) for at, step in enumerate(plan.entries, 1))
    index_listed(tx, "task", session_id, owner, steps, at_ms=at_ms, seq=seq)


def mask_tasks(tx: Transaction, mask: Callable[[str], str], *, seq: int) -> None:
    """Mask words in every plan step that is indexed."""
    for row in tx.all(_QUERIES["read_tasks"]):
        source, owner, item, text = (columns.text(value) for value in row[1:5])
        masked = mask(text)
        if masked != text:
            tx.execute(_QUERIES["delete_entry"], {"id": row[0]})
            insert_passage(tx, "task", source, owner, item, masked, columns.integer(row[5]), seq)
