"""How often what memory holds was recalled.

Owns: the rows of `recalls`. Must not know: who recalled, or for what. A passage that stays as it is keeps its count
through every rewrite of its block, since it keeps its row in the index; one that is changed begins anew.
"""

import json
from collections.abc import Mapping

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.lazy_dataclass import dataclass

_QUERIES = load_queries("pattern_acp.memory")

WEEK_MS = 7 * 24 * 3_600_000
"""By how much each recall makes a passage count as younger when the least needed ones are looked for."""


@dataclass(frozen=True, slots=True)
class Seldom:
    """A passage of a block that may be given up: when it was written (milliseconds), and how often it was recalled."""

    text: str
    at_ms: int
    times: int


def count_recalls(tx: Transaction, times: Mapping[int, int], *, at_ms: int, seq: int) -> None:
    """Count passages, by the ids of their index entries, as recalled; `seq` is the event of the turn that did it.

    Only facts are counted, blocks and archival entries; what is gone meanwhile is left out.
    """
    for entry, count in times.items():
        tx.execute(_QUERIES["count_recall"], {"entry": entry, "times": count, "at_ms": at_ms, "seq": seq})


def times_recalled(tx: Transaction, sources: list[str]) -> dict[str, int]:
    """How often any passage of each block or archival entry was recalled; those never recalled are left out."""
    rows = tx.all(_QUERIES["recalls_of"], {"sources": json.dumps(sources)})
    return {columns.text(row[0]): columns.integer(row[1]) for row in rows}


def least_needed(tx: Transaction, source: str, limit: int) -> tuple[Seldom, ...]:
    """The passages of a block that are oldest and least recalled, the first of them first."""
    rows = tx.all(_QUERIES["least_needed"], {"source": source, "week_ms": WEEK_MS, "limit": limit})
    return tuple(Seldom(columns.text(row[0]), columns.integer(row[1]), columns.integer(row[2])) for row in rows)
