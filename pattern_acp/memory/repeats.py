"""Passages that say nearly the same, as an embedder's vectors tell after they were stored.

Owns: the rows of `repeats`. Must not know: who knows, or when. The guard before a write compares words alone
(`guards`), since no embedder may be waited for there; what it lets through is looked at here, once the background has
embedded it, and the model learns it at its next turn. Nothing is refused or changed. Logs take repeats.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.embeddings import EmbeddingModel, Vector
from pattern_acp.memory.filters import Filters
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, VectorTable, count_visible, nearest
from pattern_acp.memory.write_validation import NEAR

_QUERIES = load_queries("pattern_acp.memory")

MOST_TOLD = 3
"""Pairs that are reported at once."""

_NEIGHBOURS = 4
_SHOWN = 200


class Pair(Struct, frozen=True):
    """Two passages, by the ids of their index entries, and the cosine of their vectors."""

    entry: int
    other: int
    likeness: float


def find_repeats(
    tx: Transaction, table: VectorTable, model: EmbeddingModel, stored: Sequence[tuple[int, Vector]]
) -> tuple[Pair, ...]:
    """Find repeats of newly embedded passages among the facts of the same owner. Writes nothing."""
    found: list[Pair] = []
    for entry, vector in stored:
        row = tx.one(_QUERIES["owner_of_fact"], {"entry": entry})
        if row is None or not any(vector):
            continue
        filters = Filters((columns.text(row[0]),), ("block", "archival"))
        query = QueryVector(table, model, vector)
        visible = count_visible(tx, filters, EXACT_ENTRIES + 1)
        near = nearest(tx, query, filters, visible=visible, count=_NEIGHBOURS)
        found += [Pair(entry, other, likeness) for other, likeness in near if other != entry and likeness >= NEAR]
    return tuple(found)


def store_repeats(tx: Transaction, pairs: Sequence[Pair]) -> None:
    """Keep pairs until the model knows, each once whichever of both came first. What went meanwhile is left out."""
    for pair in pairs:
        first, second = sorted((pair.entry, pair.other))
        asked: dict[str, SqlValue] = {"entry": second, "other": first, "likeness": min(1.0, pair.likeness)}
        tx.execute(_QUERIES["store_repeat"], asked)


def has_untold(tx: Transaction) -> bool:
    """Return whether there is any pair that no model learned of."""
    return tx.one(_QUERIES["has_untold"]) is not None


def untold_repeats(
    tx: Transaction, owners: Sequence[str], attached: Sequence[str] = ()
) -> tuple[tuple[Pair, str], ...]:
    """Pairs that the model was not told of, the likest first, each with the sentence that tells it.

    `attached` are the ids of blocks that are in its sight without being the owners'.
    """
    asked = {"owners": json.dumps(list(owners)), "sources": json.dumps(list(attached)), "limit": MOST_TOLD}
    rows = tx.all(_QUERIES["untold_repeats"], asked)
    told: list[tuple[Pair, str]] = []
    for row in rows:
        pair = Pair(columns.integer(row[0]), columns.integer(row[1]), float(columns.text(row[2])))
        newer, older = _place(row[3:7]), _place(row[7:11])
        sentence = (
            f"{newer} and {older} say nearly the same ({pair.likeness:.2f}). If one repeats the other or is out of "
            "date, replace, supersede or remove it; leave both where both hold."
        )
        told.append((pair, sentence))
    return tuple(told)


def mark_told(tx: Transaction, pairs: Sequence[Pair], *, seq: int) -> None:
    """The model learned of these pairs in the turn that the event `seq` ends."""
    for pair in pairs:
        tx.execute(_QUERIES["mark_repeat_told"], {"entry": pair.entry, "other": pair.other, "seq": seq})


def restore_told(tx: Transaction, pair: Pair, *, seq: int) -> None:
    """The model learned of this pair in the turn that the event `seq` is of, before the index was made again."""
    first, second = sorted((pair.entry, pair.other))
    asked: dict[str, SqlValue] = {"entry": second, "other": first, "likeness": pair.likeness, "seq": seq}
    tx.execute(_QUERIES["restore_told_repeat"], asked)


def _place(part: Sequence[SqlValue]) -> str:
    kind, source, label, text = (columns.text(value) for value in part)
    line = " ".join(text.split())
    shown = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    return f"“{shown}” ({f'block {label}' if kind == 'block' else f'archival entry {source}'})"
