"""Search over blocks, archival entries, past messages, plan steps and skills.

Owns: the rows of `search_entries` (which of a block: `indexing`) and what a search gives. Must not know: who searches,
or why. Every write carries the number of the event whose text it indexes (rule R1).
"""

import json
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.memory.candidates import retrieve_candidates
from pattern_acp.memory.filters import EntryKind, Filters
from pattern_acp.memory.marking import MatchHighlighter
from pattern_acp.memory.matching import occurring
from pattern_acp.memory.passages import excerpt, message_passages
from pattern_acp.memory.ranking import Candidate, QueryFacts, Ranked, rank
from pattern_acp.memory.vectors import QueryVector
from pattern_acp.memory.words import names_identifier, query_terms, split_identifiers

_QUERIES = load_queries("pattern_acp.memory")

MessageKind: TypeAlias = Literal["user", "assistant"]
"""Whose message it was."""


class Why(Struct, frozen=True):
    """Why a passage was found."""

    words: tuple[str, ...]
    """Words of the passage that the query has too, in some form."""
    text: float
    """Its words' score over that of the best candidate, 0…1."""
    meaning: float | None
    """Cosine of its vector and the query's, up to 1; None where one of them has none."""
    neighbour: float
    """What the messages beside it gave."""
    recency: float
    """What its age gave."""
    times: int = 0
    """How often it was recalled before."""

    @property
    def sentence(self) -> str:
        """The reasons in a few words, such as `words: port, database; meaning 0.71`."""
        parts = [f"words: {', '.join(self.words)}"] if self.words else []
        if self.meaning is not None and (self.meaning >= _TOLD_MEANING or not parts):
            parts.append(f"meaning {self.meaning:.2f}")
        if self.neighbour > 0.0:
            parts.append("beside a match")
        if self.recency >= _TOLD_RECENCY:
            parts.append("recent")
        if self.times:
            parts.append(f"recalled {'once' if self.times == 1 else f'{self.times:,} times'} before")
        return "; ".join(parts)


_TELLING_RESULTS = 5
_TOLD_MEANING = 0.2
_TOLD_RECENCY = 0.05


class Found(Struct, frozen=True):
    """One result, best first. `text` is an excerpt, `why` says how it got here.

    `source` is the id of a block (then `label` is its label), of an archival entry, or of a session; `item` the number
    of a paragraph or piece, a message id, a plan step's number and status, or a skill's name.
    """

    kind: str
    source: str
    label: str
    item: str
    text: str
    at_ms: int
    score: float
    why: Why
    entry: int
    """Id of its index entry."""
    seq: int = 0
    """The event that it is from."""


def index_message(
    tx: Transaction,
    *,
    session_id: str,
    owner: str,
    kind: MessageKind,
    message_id: str,
    text: str,
    at_ms: int,
    seq: int,
) -> None:
    """Index a message for `owner` (a persona's name or a project key); again with the same id replaces it."""
    tx.execute(_QUERIES["delete_item"], {"source": session_id, "item": message_id})
    for passage in message_passages(storable(text)):
        insert_passage(tx, kind, session_id, owner, message_id, passage, at_ms, seq)


def index_archival(tx: Transaction, *, entry_id: str, owner: str, text: str, at_ms: int, seq: int) -> None:
    """Index an archival entry, which is new."""
    for number, passage in enumerate(message_passages(storable(text)), start=1):
        insert_passage(tx, "archival", entry_id, owner, str(number), passage, at_ms, seq)


def remove_source(tx: Transaction, source: str) -> int:
    """Take a block, an archival entry or a whole session out of the index, and say how many passages that were.

    Their vectors go with them.
    """
    return tx.execute(_QUERIES["delete_source"], {"source": source})


def move_messages(tx: Transaction, source: str, target: str, *, upto_seq: int) -> int:
    """Make the messages of one session up to an event findable as another one's; how many passages that were.

    Going back from a fork to its parent, `upto_seq` tells what was the parent's from what is the fork's own.
    """
    return tx.execute(_QUERIES["move_messages"], {"source": source, "target": target, "upto_seq": upto_seq})


def message_owners(tx: Transaction) -> tuple[str, ...]:
    """Every project in which something was said."""
    return tuple(columns.text(row[0]) for row in tx.all(_QUERIES["message_owners"]))


def search(
    tx: Transaction,
    query: str,
    filters: Filters,
    *,
    limit: int,
    now_ms: int,
    vector: QueryVector | None = None,
    attached: Sequence[Filters] = (),
) -> tuple[Found, ...]:
    """The best visible passages for `query`, best first, at most one a message.

    Any input is safe; one without a word finds nothing. `vector` is the query as the embedder sees it; without one,
    words alone count. What passes one of `attached` is visible, too, and ranked with the rest.
    """
    terms = query_terms(query)
    if not terms or limit < 1:
        return ()
    words = occurring(tx, terms)
    candidates = retrieve_candidates(tx, words, filters, vector)
    for others in attached:
        candidates += retrieve_candidates(tx, words, others, vector)
    marker = MatchHighlighter(tx, terms)
    leader = _best_by_words(candidates) if vector is not None else None
    facts = _facts(query, terms, () if leader is None else _words_of(tx, marker, leader), vector)
    best = rank(candidates, now_ms=now_ms, query=facts, limit=limit)
    entries = [one.entry for one in best]
    found = tx.all(_QUERIES["read_found"], {"entries": json.dumps(entries)})
    rows = {columns.integer(row[0]): row for row in found}
    return tuple(_found(rows[one.entry], one, marker, terms) for one in best)


def is_guess(found: Sequence[Found], query: str, vector: QueryVector | None) -> bool:
    """Whether none of the first results has much in common with the query: the best there is, but hardly an answer.

    That is when each has a third of its words at most, and a cosine below what right answers have. Without a vector
    nothing can be said, since an answer may have one word of eight.
    """
    if vector is None or not found:
        return False
    terms = len(query_terms(query))
    return all(
        one.why.meaning is not None and one.why.meaning < vector.model.weak and 3 * len(one.why.words) <= terms
        for one in found[:_TELLING_RESULTS]
    )


def _best_by_words(candidates: Sequence[Candidate]) -> int | None:
    best = max(candidates, key=lambda candidate: candidate.text_score, default=None)
    return None if best is None or best.text_score <= 0.0 else best.entry


def _words_of(tx: Transaction, marker: MatchHighlighter, entry: int) -> tuple[str, ...]:
    row = tx.one(_QUERIES["read_words"], {"id": entry})
    return marker.words(columns.text(row[0]), columns.text(row[1])) if row else ()


def _facts(query: str, terms: tuple[str, ...], matched: Sequence[str], vector: QueryVector | None) -> QueryFacts:
    """What is known of the query, whose best passage by words has those of `matched`."""
    if vector is None:
        return QueryFacts(names_identifier(query), trust=0.0)
    return QueryFacts(names_identifier(query), vector.model.trust, min(1.0, len(matched) / len(terms)))


def _found(row: Row, ranked: Ranked, marker: MatchHighlighter, terms: tuple[str, ...]) -> Found:
    words = marker.words(columns.text(row[4]), columns.text(row[9]))
    return Found(
        kind=columns.text(row[1]),
        source=columns.text(row[2]),
        label=columns.text(row[6]),
        item=columns.text(row[3]),
        text=excerpt(columns.text(row[4]), terms),
        at_ms=columns.integer(row[5]),
        score=ranked.score,
        why=Why(words, ranked.text, ranked.meaning, ranked.spread, ranked.recency, columns.integer(row[7])),
        entry=ranked.entry,
        seq=columns.integer(row[8]),
    )


def mask_entries(tx: Transaction, session_id: str, mask: Callable[[str], str], *, seq: int) -> int:
    """Mask words in everything that is indexed of a session; how many passages had any."""
    changed = 0
    for entry, kind, owner, item, text, at_ms in tx.all(_QUERIES["read_entries_of_session"], {"source": session_id}):
        masked = mask(columns.text(text))
        if masked != text:
            tx.execute(_QUERIES["delete_entry"], {"id": entry})
            of = cast("EntryKind", columns.text(kind))
            at = columns.integer(at_ms)
            insert_passage(tx, of, session_id, columns.text(owner), columns.text(item), masked, at, seq)
            changed += 1
    return changed


def insert_passage(
    tx: Transaction, kind: EntryKind, source: str, owner: str, item: str, text: str, at_ms: int, seq: int
) -> None:
    """Make one passage findable; `item` tells it from the others of its source."""
    entry: dict[str, SqlValue] = {
        "kind": kind,
        "source": source,
        "owner": owner,
        "item": item,
        "text": text,
        "words": split_identifiers(text),
        "at_ms": at_ms,
        "seq": seq,
    }
    tx.insert(_QUERIES["insert_entry"], entry)
