"""Search over blocks and past messages.

Owns: the rows of `search_entries` and what a search gives. Must not know: who searches, or why. Every write carries the
number of the event whose text it indexes (rule R1).
"""

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.passages import block_passages, excerpt, message_passages
from pattern_acp.memory.ranking import NEIGHBOUR_REACH, Candidate, Ranked, rank
from pattern_acp.memory.words import match_expression, query_terms, split_identifiers

_QUERIES = load_queries("pattern_acp.memory")

CANDIDATES = 60
"""Passages that the index hands to ranking: enough that the small terms and neighbours can lift one into a page."""

NEIGHBOURED = 20
"""Best candidates whose neighbouring messages join in."""

MessageKind: TypeAlias = Literal["user", "assistant"]
"""Whose message it was."""


@dataclass(frozen=True, slots=True)
class Found:
    """One result, best first. `text` is an excerpt; `text_score` and `spread` say why it was found.

    `source` is a block id (then `label` is its label) or a session id; `item` a paragraph number or a message id.
    """

    kind: str
    source: str
    label: str
    item: str
    text: str
    at_ms: int
    score: float
    text_score: float
    spread: float


def index_block(tx: Transaction, block: Block, *, at_ms: int, seq: int) -> None:
    """Index the paragraphs of a block as it reads now. Paragraphs that stayed keep the time they were written."""
    kept: dict[str, list[tuple[int, str]]] = {}
    for row in tx.all(_QUERIES["read_entries"], {"source": block.id}):
        kept.setdefault(columns.text(row[2]), []).append((columns.integer(row[0]), columns.text(row[1])))
    for number, text in enumerate(block_passages(block.text), start=1):
        item = str(number)
        if same := kept.get(text):
            entry, stored_item = same.pop()
            if stored_item != item:
                tx.execute(_QUERIES["renumber_entry"], {"id": entry, "item": item, "seq": seq})
        else:
            _insert(tx, "block", block.id, block.key.owner, item, text, at_ms, seq)
    for leftovers in kept.values():
        for entry, _ in leftovers:
            tx.execute(_QUERIES["delete_entry"], {"id": entry})


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
        _insert(tx, kind, session_id, owner, message_id, passage, at_ms, seq)


def remove_source(tx: Transaction, source: str) -> int:
    """Take a block or a whole session out of the index, and say how many passages that were."""
    return tx.execute(_QUERIES["delete_source"], {"source": source})


def search(
    tx: Transaction,
    query: str,
    owners: Sequence[str],
    *,
    limit: int,
    now_ms: int,
    exclude_session: str | None = None,
) -> tuple[Found, ...]:
    """The best passages for `query` among what `owners` may find, best first, at most one a message.

    Any input is safe; one without a word finds nothing.
    """
    terms = query_terms(query)
    if not terms or limit < 1:
        return ()
    candidates = _candidates(tx, terms, owners, exclude_session)
    best = _best_of_each_item(candidates, rank(candidates, now_ms=now_ms))[:limit]
    rows = tx.all(_QUERIES["read_found"], {"entries": json.dumps([ranked.entry for ranked in best])})
    texts = {columns.integer(row[0]): row for row in rows}
    return tuple(_found(texts[ranked.entry], ranked, terms) for ranked in best)


def _candidates(
    tx: Transaction, terms: tuple[str, ...], owners: Sequence[str], exclude_session: str | None
) -> list[Candidate]:
    rows = tx.all(
        _QUERIES["search"],
        {
            "match": match_expression(terms),
            "owners": json.dumps(list(owners)),
            "excluded": exclude_session or "",
            "candidates": CANDIDATES,
        },
    )
    hits = [_candidate(row, _score(row[5])) for row in rows]
    known = {hit.entry for hit in hits}
    nearby = tx.all(
        _QUERIES["neighbours"],
        {"entries": json.dumps([hit.entry for hit in hits[:NEIGHBOURED]]), "reach": NEIGHBOUR_REACH},
    )
    return [*hits, *(_candidate(row, 0.0) for row in nearby if row[0] not in known)]


def _candidate(row: Row, score: float) -> Candidate:
    return Candidate(
        entry=columns.integer(row[0]),
        kind=columns.text(row[1]),
        source=columns.text(row[2]),
        item=columns.text(row[3]),
        at_ms=columns.integer(row[4]),
        text_score=score,
    )


def _score(value: SqlValue) -> float:
    if not isinstance(value, float):
        raise TypeError("BM25 gave something else than a number.")
    return value


def _best_of_each_item(candidates: Sequence[Candidate], ranked: Sequence[Ranked]) -> list[Ranked]:
    items = {candidate.entry: (candidate.source, candidate.item) for candidate in candidates}
    best: dict[tuple[str, str], Ranked] = {}
    for one in ranked:
        best.setdefault(items[one.entry], one)
    return list(best.values())


def _found(row: Row, ranked: Ranked, terms: tuple[str, ...]) -> Found:
    return Found(
        kind=columns.text(row[1]),
        source=columns.text(row[2]),
        label=columns.text(row[6]),
        item=columns.text(row[3]),
        text=excerpt(columns.text(row[4]), terms),
        at_ms=columns.integer(row[5]),
        score=ranked.score,
        text_score=ranked.text,
        spread=ranked.spread,
    )


def _insert(tx: Transaction, kind: str, source: str, owner: str, item: str, text: str, at_ms: int, seq: int) -> None:
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
