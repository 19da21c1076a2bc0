"""Which passages come into question for a query.

Owns: gathering by words, by meaning and by neighbourhood. Must not know: the order they end in (`ranking`).
"""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.filters import FACT_KINDS, Filters
from pattern_acp.memory.ranking import NEIGHBOUR_REACH, Candidate
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, count_visible, meanings, nearest
from pattern_acp.memory.words import match_expression

_QUERIES = load_queries("pattern_acp.memory")

CANDIDATES = 60
"""Passages that words give, and as many that meaning gives: enough that the small terms and neighbours can lift one
into a page."""

LOOKED_AT = 400
"""Best passages of the whole index whose visibility is looked up, when many are visible. Where these hold too few
visible ones all the same, and when few are visible at all, that of every match is looked up."""

NEIGHBOURED = 20
"""Best candidates by words, and by meaning, whose neighbouring messages join in."""


def gather(
    tx: Transaction, terms: tuple[str, ...], filters: Filters, query: QueryVector | None
) -> tuple[Candidate, ...]:
    """The candidates for `terms` and, where there is one, the vector of the query, in no order."""
    visible = count_visible(tx, filters, EXACT_ENTRIES + 1)
    hits = _by_words(tx, terms, filters, visible)
    alike = {} if query is None else dict(nearest(tx, query, filters, visible=visible, count=CANDIDATES))
    near = _by_meaning(tx, query, alike, {hit.entry for hit in hits}) if query is not None else []
    around = _neighbours(tx, [*hits[:NEIGHBOURED], *near[:NEIGHBOURED]], filters)
    known = {candidate.entry: candidate for candidate in (*around, *near, *hits)}
    if query is None:
        return tuple(known.values())
    alike |= meanings(tx, query, [entry for entry in known if entry not in alike])
    return tuple(_with_meaning(candidate, alike.get(entry)) for entry, candidate in known.items())


def _by_words(tx: Transaction, terms: tuple[str, ...], filters: Filters, visible: int) -> list[Candidate]:
    asked: dict[str, SqlValue] = {**filters.params(), "match": match_expression(terms), "candidates": CANDIDATES}
    if visible > EXACT_ENTRIES:
        rows = tx.all(_QUERIES["search"], {**asked, "looked_at": LOOKED_AT})
        if len(rows) == CANDIDATES or (rows and columns.integer(rows[0][6]) < LOOKED_AT):
            return [_candidate(row, _score(row[5])) for row in rows]
    return [_candidate(row, _score(row[5])) for row in tx.all(_QUERIES["search_visible"], asked)]


def _by_meaning(
    tx: Transaction, query: QueryVector, alike: Mapping[int, float], hits: AbstractSet[int]
) -> list[Candidate]:
    near = [entry for entry, meaning in alike.items() if entry not in hits and meaning >= query.model.floor]
    return [_candidate(row, 0.0) for row in tx.all(_QUERIES["read_candidates"], {"entries": json.dumps(near)})]


def _neighbours(tx: Transaction, hits: Sequence[Candidate], filters: Filters) -> list[Candidate]:
    messages = [hit.entry for hit in hits if hit.kind not in FACT_KINDS]
    asked: dict[str, SqlValue] = {**filters.params(), "entries": json.dumps(messages), "reach": NEIGHBOUR_REACH}
    return [_candidate(row, 0.0) for row in tx.all(_QUERIES["neighbours"], asked)]


def _candidate(row: Row, score: float) -> Candidate:
    return Candidate(
        entry=columns.integer(row[0]),
        kind=columns.text(row[1]),
        source=columns.text(row[2]),
        item=columns.text(row[3]),
        at_ms=columns.integer(row[4]),
        text_score=score,
    )


def _with_meaning(one: Candidate, meaning: float | None) -> Candidate:
    # By hand, since dataclasses.replace takes a tenth of a search.
    return Candidate(one.entry, one.kind, one.source, one.item, one.at_ms, one.text_score, meaning)


def _score(value: SqlValue) -> float:
    if not isinstance(value, float):
        raise TypeError("BM25 gave something else than a number.")
    return value
