"""Passages with the words of a query, and those of them that BM25 ranks.

Owns: what is asked of the full-text index, so that its time does not grow with how common the words are. Must not know:
meanings, or the order that results end in (`ranking`).

BM25 takes half a microsecond a passage, reading which passages have a word fifteen times less. So where a query's words
are in many passages, the rarest of its words choose the passages, and the others only count in their scores. Where
those are too few, or every word is common, passages with many of the common words come next, and at last the newest
ones with any.
"""

import json
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.search_terms import Filters, match_any_of, match_expression
from pattern_acp.memory.vectors import EXACT_ENTRIES, Extent

_QUERIES = load_queries("pattern_acp.memory")


class Effort(Struct, frozen=True):
    """Limits on the part of the index that one query reads."""

    counted: int = 20_000
    """Passages up to which those of one word are counted: 1 ms."""
    scored: int = 4_000
    """Passages that BM25 scores where the query's words are in no more: 2 ms."""
    chosen: int = 2_000
    """Passages that BM25 scores where they are in more, chosen by rare words, no more than `scored`: each takes twice
    as long, since each word is in the query twice."""
    most_chosen: int = 12_500
    """The same where there are many passages: an eighth of all up to this, so that the rarest word still chooses."""
    scanned: int = 40_000
    """Occurrences that are gone through for the scores of passages chosen otherwise."""
    newest: int = 1_500
    """Passages that BM25 scores when all words are common: its scores say little then."""

    def chosen_of(self, passages: int) -> int:
        """`chosen` where there are so many passages at most."""
        return max(self.chosen, min(passages // 8, self.most_chosen))


USUAL = Effort()

LOOKED_AT = (240, 600)
"""Best passages of the whole index whose visibility is looked up when many are visible: at first, and where those hold
a few visible ones too few. Where they hold far too few, and when few are visible at all, every match is looked up."""

NO_SCORE = 0.49
"""Share of all passages from which on a word is not scored beside rare ones. BM25 gives it ln((1 - share) / share):
that is .04 at most and nothing from half on, and 2 for a word of an eighth of all passages. What is nearer to
each other than that may change places."""

MOST_COMMON = 8
"""Words of a query for passages with any of several common ones: each costs 3 ms in 100,000 passages."""


class Occurring(Struct, frozen=True):
    """Words of a query that are in the index, rarest first, each with its passages as far as they were counted."""

    counts: tuple[tuple[str, int], ...]

    def telling(self, passages: int) -> "Occurring":
        """Those that change a score, where there are at most so many passages (`NO_SCORE`)."""
        return Occurring(tuple(one for one in self.counts if one[1] < NO_SCORE * passages))

    def without(self, names: Collection[str]) -> "Occurring":
        """The words but for some names."""
        return Occurring(tuple(one for one in self.counts if one[0] not in names))

    def split(self, budget: int) -> tuple[list[str], list[str]]:
        """The rarest words, which are in no more than `budget` passages altogether, and the others."""
        rare: list[str] = []
        passages = 0
        for word, count in self.counts:
            passages += count
            if passages > budget:
                break
            rare.append(word)
        return rare, [word for word, _ in self.counts[len(rare) :]]


class Visible(Struct, frozen=True):
    """The passages that may be found, and how many those are as far as it matters (`EXACT_ENTRIES`)."""

    filters: Filters
    extent: Extent

    @property
    def few(self) -> bool:
        """True when so few are visible that each of them may be scored."""
        return self.extent.count <= EXACT_ENTRIES


def occurring(tx: Transaction, terms: Sequence[str], effort: Effort = USUAL) -> Occurring:
    """Those of `terms` that are in the index."""
    asked = {"terms": json.dumps([match_expression((term,)) for term in terms]), "at_most": effort.counted}
    rows = tx.all(_QUERIES["count_matches"], asked)
    counts = ((terms[columns.integer(row[0])], columns.integer(row[1])) for row in rows)
    return Occurring(tuple(sorted((one for one in counts if one[1]), key=lambda one: one[1])))


def best_by_words(tx: Transaction, words: Occurring, visible: Visible, count: int, effort: Effort = USUAL) -> list[Row]:
    """Up to `count` visible passages with any of the words, those that BM25 puts first: rows of `search`."""
    rare, common = words.split(effort.scanned if visible.few else effort.scored)
    if not common:
        return _matches(tx, match_expression(tuple(rare)), visible, count) if rare else []
    newest = _newest(tx)
    if not visible.few:
        rare, common = words.split(effort.chosen_of(newest))
    match, times = _chosen_by(rare, words.telling(newest).split(effort.scanned)[0])
    found = _by_entry(_matches(tx, match, visible, count, times=times)) if rare else {}
    for match in _ever_wider(common):
        if len(found) >= count:
            break
        after = 0 if visible.few else _before_newest(tx, match, effort.newest)
        found = _by_entry(_matches(tx, match, visible, count, after=after)) | found
    return sorted(found.values(), key=_score_of, reverse=True)[:count]


def _chosen_by(rare: Sequence[str], scoring: Sequence[str]) -> tuple[str, int]:
    """The query for passages with a rare word, scored by the other words too, and how often each word is in it."""
    others = tuple(word for word in scoring if word not in rare)
    return match_any_of(tuple(rare), others), 2 if others else 1


def _newest(tx: Transaction) -> int:
    """The newest passage's number: there are as many passages at most."""
    row = tx.one(_QUERIES["newest_entry"])
    return columns.integer(row[0]) if row else 0


def _ever_wider(common: Sequence[str]) -> Iterator[str]:
    """Queries for all of the words, for half of them, and so on, and at last for any."""
    together = len(common)
    while together > 1:
        yield " AND ".join(match_expression((word,)) for word in common[:together])
        together //= 2
    yield match_expression(tuple(common[:MOST_COMMON]))


def _by_entry(rows: Sequence[Row]) -> dict[int, Row]:
    return {columns.integer(row[0]): row for row in rows}


def _score_of(row: Row) -> float:
    score = row[5]
    return score if isinstance(score, float) else 0.0


def _before_newest(tx: Transaction, match: str, number: int) -> int:
    """The passage before so many newest ones that match, 0 when there are no more."""
    row = tx.one(_QUERIES["nth_newest_match"], {"match": match, "nth": number})
    return columns.integer(row[0]) if row else 0


def _matches(tx: Transaction, match: str, visible: Visible, count: int, *, after: int = 0, times: int = 1) -> list[Row]:
    """The best visible passages that match; `times` is how often each word is in the query."""
    asked: dict[str, SqlValue] = {**visible.filters.params(), "match": match, "candidates": count, "times": times}
    if not visible.few:
        for looked_at in LOOKED_AT:
            rows = tx.all(_QUERIES["search"], {**asked, "looked_at": looked_at, "after": after})
            if len(rows) == count or (rows and columns.integer(rows[0][6]) < looked_at):
                return rows
            if len(rows) * LOOKED_AT[-1] < count * looked_at:
                break  # Too few are likely among more of them, too.
    extent = visible.extent
    return tx.all(_QUERIES["search_visible"], {**asked, "first": extent.first, "last": extent.last})
