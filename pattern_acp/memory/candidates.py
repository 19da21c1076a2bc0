"""Which passages come into question for a query.

Owns: gathering by words, by meaning and by neighbourhood. Must not know: the order they end in (`ranking`).
"""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.filters import FACT_KINDS, Filters
from pattern_acp.memory.matching import Occurring, Visible, best_by_words
from pattern_acp.memory.ranking import NEIGHBOUR_REACH, Candidate
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, count_visible, meanings, nearest

_QUERIES = load_queries("pattern_acp.memory")

CANDIDATES = 60
"""Passages that words give, and as many that meaning gives: enough that the small terms and neighbours can lift one
into a page."""

NEIGHBOURED = 20
"""Best candidates by words, and by meaning, whose neighbouring messages join in."""


def retrieve_candidates(
    tx: Transaction, words: Occurring, filters: Filters, query: QueryVector | None
) -> tuple[Candidate, ...]:
    """The candidates for the words and, where there is one, the vector of the query, in no order."""
    visible = Visible(filters, count_visible(tx, filters, EXACT_ENTRIES + 1))
    hits = {columns.integer(row[0]): row for row in best_by_words(tx, words, visible, CANDIDATES)}
    alike = {} if query is None else dict(nearest(tx, query, filters, visible=visible.count, count=CANDIDATES))
    near = {} if query is None else _by_meaning(tx, query, alike, hits.keys())
    middles = [*list(hits.values())[:NEIGHBOURED], *list(near.values())[:NEIGHBOURED]]
    known = hits | near | _neighbours(tx, middles, hits.keys() | near.keys(), filters)
    if query is not None:
        alike |= meanings(tx, query, [entry for entry in known if entry not in alike])
    return tuple(_candidate(row, _score(row[5]) if entry in hits else 0.0, alike) for entry, row in known.items())


def _by_meaning(
    tx: Transaction, query: QueryVector, alike: Mapping[int, float], hits: AbstractSet[int]
) -> dict[int, Row]:
    near = [entry for entry, meaning in alike.items() if entry not in hits and meaning >= query.model.floor]
    rows = tx.all(_QUERIES["read_candidates"], {"entries": json.dumps(near)})
    return {columns.integer(row[0]): row for row in rows}


def _neighbours(tx: Transaction, middles: Sequence[Row], known: AbstractSet[int], filters: Filters) -> dict[int, Row]:
    """The visible passages of the same session that were stored near one of `middles`, apart from those known."""
    wanted = {
        (near, row[2])
        for row in middles
        if row[1] not in FACT_KINDS
        for near in range(columns.integer(row[0]) - NEIGHBOUR_REACH, columns.integer(row[0]) + NEIGHBOUR_REACH + 1)
        if near not in known
    }
    entries = json.dumps(sorted({entry for entry, _ in wanted}))
    rows = tx.all(_QUERIES["read_visible"], {**filters.params(), "entries": entries})
    return {columns.integer(row[0]): row for row in rows if (row[0], row[2]) in wanted}


def _candidate(row: Row, score: float, meanings_of: Mapping[int, float]) -> Candidate:
    # The columns are those of a STRICT table; reading each with a check takes as long as all the rest.
    entry, kind, source, item, at_ms = cast("tuple[int, str, str, str, int]", row[:5])
    return Candidate(entry, kind, source, item, at_ms, score, meanings_of.get(entry))


def _score(value: SqlValue) -> float:
    if not isinstance(value, float):
        raise TypeError("BM25 gave something else than a number.")
    return value
