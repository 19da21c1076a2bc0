"""Search over blocks, archival entries, past messages, plan steps and skills.

Owns: the rows of `search_entries` (which of a block: `indexing`) and what a search gives. Must not know: who searches,
or why. Every write carries the number of the event whose text it indexes (rule R1).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.raw import Token
from pattern_acp.db.transaction import storable
from pattern_acp.memory.filters import FACT_KINDS, EntryKind, Filters
from pattern_acp.memory.matching import Occurring, Visible, best_by_words, occurring
from pattern_acp.memory.passages import excerpt, message_passages
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, count_visible, meanings, nearest
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
    """The score from the messages beside it."""
    recency: float
    """The score from its age."""
    times: int = 0
    """The number of earlier recalls."""

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


class SearchResult(Struct, frozen=True):
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


class Candidate(NamedTuple):
    """A passage that may be shown. `text_score` is BM25, higher is better, 0 where no term is in it.

    `meaning` is the cosine of its vector and the query's; None where either has none. A tuple, since a search has two
    to three hundred of them, and a frozen data class takes three times as long to make.
    """

    entry: int
    kind: str
    source: str
    item: str
    at_ms: int
    text_score: float
    meaning: float | None = None


class Ranked(Struct, frozen=True):
    """A passage with its final score and what it is made of.

    `text` is the normalised text score, `meaning` the cosine, `spread` what neighbours gave, `recency` the part that
    being recent added.
    """

    entry: int
    score: float
    text: float
    spread: float
    meaning: float | None = None
    recency: float = 0.0


class QueryFacts(Struct, frozen=True):
    """Facts about the query."""

    names_identifier: bool = False
    trust: float = 1.0
    """Trust in its embedder (`EmbeddingModel.trust`)."""
    coverage: float = 1.0
    """Share of its words that the best passage by words has, 0…1."""


PLAIN = QueryFacts()


TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""Tokenizer of `search_fts` (schema.sql)."""


class MatchHighlighter:
    """The terms of one query, to be found in texts."""

    def __init__(self, tx: Transaction, terms: Sequence[str]) -> None:
        self._tokens = tx.tokenizer(*TOKENIZER)
        phrases = [[token for _, _, token in self._tokens(term)] for term in terms]
        self._words = frozenset(phrase[0] for phrase in phrases if len(phrase) == 1)
        # `don't` is one term and two tokens, which have to stand side by side.
        self._phrases = [phrase for phrase in phrases if len(phrase) > 1]

    def words(self, *texts: str) -> tuple[str, ...]:
        """The words of `texts` that the query has too, lower case, in order, each once."""
        found: dict[str, None] = {}
        for text in texts:
            data = text.encode("utf-8", "replace")
            tokens = self._tokens(text)
            for start, end in self._places(tokens):
                found.setdefault(data[start:end].decode("utf-8", "replace").lower())
        return tuple(found)

    def _places(self, tokens: Sequence[Token]) -> list[tuple[int, int]]:
        """Places of words and phrases, in bytes; those that share a token as one."""
        if not self._phrases:
            return [(start, end) for start, end, token in tokens if token in self._words]
        places: list[tuple[int, int]] = []
        last = -1
        for number, (start, _, _) in enumerate(tokens):
            length = self._longest_at(tokens, number)
            if not length:
                continue
            through = number + length - 1
            if places and number <= last:
                last = max(last, through)
                places[-1] = (places[-1][0], tokens[last][1])
            else:
                last = through
                places.append((start, tokens[last][1]))
        return places

    def _longest_at(self, tokens: Sequence[Token], number: int) -> int:
        """Number of tokens in the longest phrase that begins there; 0 for none."""
        fitting = [
            len(phrase)
            for phrase in self._phrases
            if [token for _, _, token in tokens[number : number + len(phrase)]] == phrase
        ]
        return max(fitting, default=int(tokens[number][2] in self._words))


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
) -> tuple[SearchResult, ...]:
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


def is_guess(found: Sequence[SearchResult], query: str, vector: QueryVector | None) -> bool:
    """True when none of the first results has much in common with the query: the best there is, but hardly an answer.

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
    """Collect the facts about the query, whose best passage by words has those of `matched`."""
    if vector is None:
        return QueryFacts(names_identifier(query), trust=0.0)
    return QueryFacts(names_identifier(query), vector.model.trust, min(1.0, len(matched) / len(terms)))


def _found(row: Row, ranked: Ranked, marker: MatchHighlighter, terms: tuple[str, ...]) -> SearchResult:
    words = marker.words(columns.text(row[4]), columns.text(row[9]))
    return SearchResult(
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


NEIGHBOUR_SHARE = 0.3
"""Part of a message's score that each neighbouring message gets: the answer often stands beside the words asked for.

Worth more than the choice of fusion in the measurements on transcripts (recall at 10 from .667 to .725).
"""

NEIGHBOUR_REACH = 6
"""Entries apart, at most, that two messages of a session may be stored to count as neighbours; between them lie other
sessions' entries and further passages of the same message."""

FACT_MEANING = 0.8
"""Share of meaning for blocks and archival entries: short facts are asked for in other words than theirs."""

MESSAGE_MEANING = 0.5
"""Share of meaning for messages."""

IDENTIFIER_MEANING = 0.3
"""Share of meaning when the query names an identifier: then the words are meant as they are written."""

RECENCY_WEIGHT = 0.1
RECENCY_HALF_LIFE_MS = 30 * 24 * 3_600_000
"""After a month, half of the small bonus for recent text is left."""

KIND_WEIGHTS: Mapping[str, float] = {"block": 0.15, "archival": 0.1, "skill": 0.1, "user": 0.05}
"""Bonus by kind: facts saved on purpose count a little more, and the user's words more than the agent's."""


def rank(
    candidates: Sequence[Candidate], *, now_ms: int, query: QueryFacts = PLAIN, limit: int | None = None
) -> tuple[Ranked, ...]:
    """Up to `limit` of `candidates`, best first, at most one of each item; of two equal ones the newer entry leads.

    Candidates that score 0 are left out.
    """
    texts = _text_shares(candidates)
    shares = _fused(candidates, texts, query)
    spread = _spread(candidates, shares)
    scored: list[tuple[float, int, int]] = []
    for place, candidate in enumerate(candidates):
        own = shares[place] + spread.get(candidate.entry, 0.0)
        score = own * (1.0 + _recency(candidate, now_ms) + KIND_WEIGHTS.get(candidate.kind, 0.0))
        if score > 0.0:
            scored.append((-score, -candidate.entry, place))
    scored.sort()
    best: dict[tuple[str, str], Ranked] = {}
    for score, _, place in scored:
        candidate = candidates[place]
        item = (candidate.source, candidate.item)
        if item in best:
            continue
        given = spread.get(candidate.entry, 0.0)
        recent = (shares[place] + given) * _recency(candidate, now_ms)
        best[item] = Ranked(candidate.entry, -score, texts[place], given, candidate.meaning, recent)
        if len(best) == limit:
            break
    return tuple(best.values())


def share_of_meaning(kind: str, query: QueryFacts) -> float:
    """Weight of meaning against words for a passage of this kind, 0…1.

    BM25 has no absolute scale: the best passage gets 1 even if it shares one chance word of eight with the query. The
    fewer words the best one has, the more meaning counts; for messages only where it has less than half, since in
    talk a few words in common say more than in facts.
    """
    is_fact = kind in FACT_KINDS
    usual = IDENTIFIER_MEANING if query.names_identifier else FACT_MEANING if is_fact else MESSAGE_MEANING
    missing = 1.0 - query.coverage if is_fact else max(0.0, 1.0 - 2.0 * query.coverage)
    return min(query.trust, usual + (1.0 - usual) * missing)


def _text_shares(candidates: Sequence[Candidate]) -> list[float]:
    best = max((candidate.text_score for candidate in candidates), default=0.0)
    if best <= 0.0:
        return [0.0] * len(candidates)
    return [max(0.0, candidate.text_score) / best for candidate in candidates]


def _fused(candidates: Sequence[Candidate], texts: Iterable[float], query: QueryFacts) -> list[float]:
    known = [candidate.meaning for candidate in candidates if candidate.meaning is not None]
    lowest, highest = (min(known), max(known)) if known else (0.0, 0.0)
    shares = {kind: share_of_meaning(kind, query) for kind in {candidate.kind for candidate in candidates}}
    fused: list[float] = []
    for candidate, words in zip(candidates, texts, strict=True):
        if candidate.meaning is None or highest <= 0.0:
            # Not embedded yet, or nothing is alike: the words say all there is.
            fused.append(words)
            continue
        stretched = (candidate.meaning - lowest) / (highest - lowest) if highest > lowest else 1.0
        share = shares[candidate.kind]
        fused.append(share * stretched + (1.0 - share) * words)
    return fused


def _spread(candidates: Sequence[Candidate], shares: Sequence[float]) -> dict[int, float]:
    """Score of each entry from the messages beside it, which are the nearest candidates of its session."""
    given: dict[int, float] = {}
    before: dict[str, int] = {}
    for place in sorted(range(len(candidates)), key=lambda place: candidates[place].entry):
        right = candidates[place]
        if right.kind in FACT_KINDS:
            continue
        other = before.get(right.source)
        before[right.source] = place
        if other is None:
            continue
        left = candidates[other]
        if right.entry - left.entry <= NEIGHBOUR_REACH and left.item != right.item:
            given[left.entry] = given.get(left.entry, 0.0) + NEIGHBOUR_SHARE * shares[place]
            given[right.entry] = given.get(right.entry, 0.0) + NEIGHBOUR_SHARE * shares[other]
    return given


def _recency(candidate: Candidate, now_ms: int) -> float:
    age = now_ms - candidate.at_ms
    return RECENCY_WEIGHT * 0.5 ** (age / RECENCY_HALF_LIFE_MS) if age > 0 else RECENCY_WEIGHT


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
