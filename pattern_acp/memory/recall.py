"""Search over blocks, archival entries, past messages, plan steps and skills.

Owns: the rows of `search_entries` (which of a block: `indexing`) and what a search gives. Must not know: who searches,
or why. Every write carries the number of the event whose text it indexes (rule R1).
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import tzinfo
from heapq import nlargest
from typing import Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct, structs

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.raw import Token
from pattern_acp.db.transaction import storable
from pattern_acp.memory.dates import without_days
from pattern_acp.memory.matching import Occurring, Visible, best_by_words, occurring
from pattern_acp.memory.search_terms import (
    FACT_KINDS,
    STOP_WORDS,
    EntryKind,
    Filters,
    excerpt,
    match_expression,
    message_passages,
    names_identifier,
    query_terms,
    split_identifiers,
    with_forms,
)
from pattern_acp.memory.turns import (
    NAMED_WITHIN,
    NEIGHBOUR_REACH,
    REPEATED,
    SOON_DAYS,
    QueryOfTurns,
    TurnPlace,
    dated_score,
    is_speaker,
    names_of,
    says_little,
    spread_of,
    weight_of,
    window_scores,
    without_names,
)
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, extent_of, meanings, nearest

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
    dated: float = 0.0
    """The score for being of a day that the query names."""
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
        if self.dated > 0.0:
            parts.append("of that time")
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
    window: float = 0.0
    """BM25 over the window of turns around a message (`turns`)."""


class Weight(NamedTuple):
    """Weight of a message on its own: a factor, and a score for being of a day that the query names."""

    factor: float = 1.0
    dated: float = 0.0


_PLAIN_WEIGHT = Weight()


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
    dated: float = 0.0
    """The score for being of a day that the query names."""


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


def has_message(tx: Transaction, session_id: str, message_id: str, text: str) -> bool:
    """True if as many passages are indexed of a message as it has, or words of it were forgotten."""
    from pattern_acp.memory.forgotten import MARKS

    rows = tx.all(_QUERIES["texts_of_item"], {"source": session_id, "item": message_id})
    passages = message_passages(storable(text))
    # What was masked may be cut elsewhere, and must not come back.
    return bool(rows) and (
        len(rows) >= len(passages) or any(mark in columns.text(row[0]) for row in rows for mark in MARKS)
    )


def has_archival(tx: Transaction, entry_id: str, text: str) -> bool:
    """True if this text is what is indexed of an archival entry."""
    rows = tx.all(_QUERIES["texts_of_source"], {"source": entry_id})
    return [columns.text(row[0]) for row in rows] == [*message_passages(storable(text))]


def owner_of_entries(tx: Transaction, source: str) -> str:
    """The persona or project that finds what is indexed of a block, session or archival entry; empty for nothing."""
    row = tx.one(_QUERIES["owner_of_entries"], {"source": source})
    return "" if row is None else columns.text(row[0])


def newest_entry(tx: Transaction) -> int:
    """The highest id of an index entry; 0 where there is none."""
    row = tx.one(_QUERIES["newest_entry"])
    return columns.integer(row[0]) if row else 0


class IndexedCount(Struct, frozen=True):
    """Number of passages of one kind and source."""

    kind: str
    source: str
    count: int


def entries_since(tx: Transaction, entry: int) -> tuple[IndexedCount, ...]:
    """Counts of what was indexed behind an entry, by kind and source."""
    rows = tx.all(_QUERIES["entries_since"], {"after": entry})
    return tuple(IndexedCount(columns.text(row[0]), columns.text(row[1]), columns.integer(row[2])) for row in rows)


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
    zone: tzinfo | None = None,
) -> tuple[SearchResult, ...]:
    """The best visible passages for `query`, best first, at most one a message.

    Any input is safe; one without a word finds nothing. `vector` is the query as the embedder sees it; without one,
    words alone count. What passes one of `attached` is visible, too, and ranked with the rest. Days that the query
    names are those of `zone`, of the machine's where it is None.
    """
    terms = query_terms(query)
    if not terms or limit < 1:
        return ()
    asked = QueryOfTurns.of(query, now_ms, zone)
    every_form = with_forms(terms)
    words = occurring(tx, every_form)
    # A speaker's name is in each of their turns, of which BM25 would put the shortest first. Where a day is asked for,
    # it tells the turns of that day apart.
    if not asked.days and (speakers := _speakers(tx, asked.names)):
        telling = words.without(speakers)
        words = telling if telling.counts or vector is not None else words
    candidates = retrieve_candidates(tx, words, filters, vector, asked, zone)
    for others in attached:
        candidates += retrieve_candidates(tx, words, others, vector)
    marker = MatchHighlighter(tx, every_form)
    leader = _best_by_words(candidates) if vector is not None else None
    facts = _facts(query, terms, () if leader is None else _words_of(tx, marker, leader), vector)
    weigh = _weighing(tx, asked, zone)
    best = rank(candidates, now_ms=now_ms, query=facts, limit=limit, weigh=weigh)
    entries = [one.entry for one in best]
    found = tx.all(_QUERIES["read_found"], {"entries": json.dumps(entries)})
    rows = {columns.integer(row[0]): row for row in found}
    return tuple(_found(rows[one.entry], one, marker, terms) for one in best)


_SPEAKER_SAMPLE = 40
"""Newest passages with a name that say whether it is a speaker's."""


def without_speakers(tx: Transaction, query: str) -> str:
    """The query as its vector needs it: without the names of speakers, unless nothing else is in it.

    Each turn of a speaker has the name, and in a short one it is most of the vector.
    """
    speakers = _speakers(tx, names_of(query))
    if not speakers:
        return query
    plain = without_names(query, speakers)
    return query if STOP_WORDS.issuperset(query_terms(plain)) else plain


def _speakers(tx: Transaction, names: Collection[str]) -> list[str]:
    """Those of some names in lower case that say who speaks."""
    return [name for name in names if _is_speaker(tx, name)]


def _is_speaker(tx: Transaction, name: str) -> bool:
    # One search asks for the query's vector and for its words.
    asked = (_is_speaker, name)
    if asked not in tx.found:
        rows = tx.all(_QUERIES["newest_with"], {"match": match_expression((name,)), "limit": _SPEAKER_SAMPLE})
        tx.found[asked] = is_speaker(name, [columns.text(row[0]) for row in rows])
    return bool(tx.found[asked])


MOSTLY_THE_SAME = 0.75
"""Share of the telling words of both, from which a question repeats another."""


def repeats_query(query: str, text: str) -> bool:
    """True when a message is the query once more, so that it answers nothing: a like question, or no other word."""
    asked, said = (set(query_terms(one[:_COMPARED_CHARACTERS])) for one in (query, text))
    if text.rstrip().endswith("?") and len(asked & said) >= MOSTLY_THE_SAME * len(asked | said):
        return True
    return said <= asked


_COMPARED_CHARACTERS = 2_000


def answer_to(tx: Transaction, asked: SearchResult) -> SearchResult | None:
    """The beginning of the last message that answered a user's message in its session, found for the same reasons."""
    wanted: dict[str, SqlValue] = {"source": asked.source, "item": asked.item, "entry": asked.entry}
    row = tx.one(_QUERIES["answer_behind"], wanted)
    if row is None or row[0] is None:
        return None
    (found,) = tx.all(_QUERIES["read_found"], {"entries": json.dumps([row[0]])})
    return structs.replace(
        asked,
        kind=columns.text(found[1]),
        item=columns.text(found[3]),
        text=excerpt(columns.text(found[4]), ()),
        at_ms=columns.integer(found[5]),
        entry=columns.integer(found[0]),
        seq=columns.integer(found[8]),
    )


def written_by(tx: Transaction, session_id: str, seqs: Sequence[int]) -> frozenset[int]:
    """Those of some events that are a session's own."""
    rows = tx.all(_QUERIES["events_of_stream"], {"stream": session_id, "seqs": json.dumps(sorted(set(seqs)))})
    return frozenset(columns.integer(row[0]) for row in rows)


def progress_notes(tx: Transaction, found: Sequence[SearchResult]) -> frozenset[int]:
    """The events among those of some results in which the agent only announced its next calls, in few words."""
    seqs = [one.seq for one in found if one.kind == "assistant" and says_little(one.text)]
    rows = tx.all(_QUERIES["events_with_calls"], {"seqs": json.dumps(sorted(set(seqs)))}) if seqs else ()
    return frozenset(columns.integer(row[0]) for row in rows)


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
        return QueryFacts(names_identifier(without_days(query)), trust=0.0)
    return QueryFacts(names_identifier(without_days(query)), vector.model.trust, min(1.0, len(matched) / len(terms)))


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
        why=Why(
            words, ranked.text, ranked.meaning, ranked.spread, ranked.recency, ranked.dated, columns.integer(row[7])
        ),
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
    number = tx.insert(_QUERIES["insert_entry"], entry)
    if kind == "call":
        tx.execute(_QUERIES["leave_unembedded"], {"entry": number})


WINDOW_SHARE = 0.4
"""Part of the window of turns in the words' score of a message, against its own words."""

WEIGHED = 50
"""Messages that are read for what they count on their own (`turns.weight_of`), the best before that."""

FACT_MEANING = 0.8
"""Share of meaning for blocks and archival entries: short facts are asked for in other words than theirs."""

MESSAGE_MEANING = 0.75
"""Share of meaning for messages, of the trust in the embedder."""

IDENTIFIER_MEANING = 0.3
"""Share of meaning when the query names an identifier: then the words are meant as they are written."""

RECENCY_WEIGHT = 0.1
RECENCY_HALF_LIFE_MS = 30 * 24 * 3_600_000
"""After a month, half of the small bonus for recent text is left."""

KIND_WEIGHTS: Mapping[str, float] = {"block": 0.15, "archival": 0.1, "skill": 0.1, "user": 0.05}
"""Bonus by kind: facts saved on purpose count a little more, and the user's words more than the agent's."""


def rank(
    candidates: Sequence[Candidate],
    *,
    now_ms: int,
    query: QueryFacts = PLAIN,
    limit: int | None = None,
    weigh: Callable[[Sequence[Candidate]], Mapping[int, Weight]] = lambda _: {},
) -> tuple[Ranked, ...]:
    """Up to `limit` of `candidates`, best first, at most one of each item; of two equal ones the newer entry leads.

    Candidates that score 0 are left out. `weigh` is asked for the weights of the best messages, by their entries.
    """
    texts = _text_shares(candidates)
    shares = _fused(candidates, texts, query)
    spread = _spread(candidates, shares)
    own = [share + spread.get(place, 0.0) for place, share in enumerate(shares)]
    messages = [place for place, one in enumerate(candidates) if one.kind not in FACT_KINDS]
    messages.sort(key=lambda place: (-own[place], -candidates[place].entry))
    weights = weigh([candidates[place] for place in messages])
    scored: list[tuple[float, int, int]] = []
    for place, candidate in enumerate(candidates):
        weight = weights.get(candidate.entry, _PLAIN_WEIGHT)
        bonus = 1.0 + _recency(candidate, now_ms) + KIND_WEIGHTS.get(candidate.kind, 0.0)
        score = (own[place] + weight.dated) * weight.factor * bonus
        if score > 0.0:
            scored.append((-score, -candidate.entry, place))
    scored.sort()
    best: dict[tuple[str, str], Ranked] = {}
    for score, _, place in scored:
        candidate = candidates[place]
        item = (candidate.source, candidate.item)
        if item in best:
            continue
        weight = weights.get(candidate.entry, _PLAIN_WEIGHT)
        recent = own[place] * _recency(candidate, now_ms)
        given = spread.get(place, 0.0)
        best[item] = Ranked(candidate.entry, -score, texts[place], given, candidate.meaning, recent, weight.dated)
        if len(best) == limit:
            break
    return tuple(best.values())


def _weighing(
    tx: Transaction, query: QueryOfTurns, zone: tzinfo | None
) -> Callable[[Sequence[Candidate]], Mapping[int, Weight]]:
    def weigh(messages: Sequence[Candidate]) -> Mapping[int, Weight]:
        # Where a day is asked for, what was said then may have no other word of the query.
        chosen = {one.entry: one for one in (messages if query.days else messages[:WEIGHED])}
        rows = tx.all(_QUERIES["read_texts"], {"entries": json.dumps(list(chosen))})
        texts = {columns.integer(row[0]): columns.text(row[1]) for row in rows}
        weights: dict[int, Weight] = {}
        seen: set[str] = set()
        for entry, text in ((one, texts[one]) for one in chosen if one in texts):
            factor = weight_of(text, query) * (REPEATED if text in seen else 1.0)
            weights[entry] = Weight(factor, dated_score(text, chosen[entry].at_ms, query, zone))
            seen.add(text)
        return weights

    return weigh


def share_of_meaning(kind: str, query: QueryFacts) -> float:
    """Weight of meaning against words for a passage of this kind, 0…1.

    BM25 has no absolute scale: the best passage gets 1 even if it shares one chance word of eight with the query. The
    fewer words the best one has, the more meaning counts; for messages only where it has less than half, since in
    talk a few words in common say more than in facts.
    """
    is_fact = kind in FACT_KINDS
    usual = FACT_MEANING if is_fact else MESSAGE_MEANING * query.trust
    usual = IDENTIFIER_MEANING if query.names_identifier else usual
    missing = 1.0 - query.coverage if is_fact else max(0.0, 1.0 - 2.0 * query.coverage)
    return min(query.trust, usual + (1.0 - usual) * missing)


def _text_shares(candidates: Sequence[Candidate]) -> list[float]:
    best = max((candidate.text_score for candidate in candidates), default=0.0)
    widest = max((candidate.window for candidate in candidates), default=0.0)
    shares = [max(0.0, candidate.text_score) / best if best > 0.0 else 0.0 for candidate in candidates]
    if widest <= 0.0:
        return shares
    return [
        share
        if candidate.kind in FACT_KINDS
        else (1.0 - WINDOW_SHARE) * share + WINDOW_SHARE * candidate.window / widest
        for share, candidate in zip(shares, candidates, strict=True)
    ]


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
    """Score of each candidate, by its index, from the messages beside it in its session."""
    numbers = [number for number, one in enumerate(candidates) if one.kind not in FACT_KINDS]
    given = spread_of(_places([candidates[number] for number in numbers]), [shares[number] for number in numbers])
    return {numbers[place]: score for place, score in given.items()}


def _places(messages: Iterable[Candidate]) -> list[TurnPlace]:
    return [TurnPlace(one.entry, one.source, one.item) for one in messages]


def _recency(candidate: Candidate, now_ms: int) -> float:
    age = now_ms - candidate.at_ms
    return RECENCY_WEIGHT * 0.5 ** (age / RECENCY_HALF_LIFE_MS) if age > 0 else RECENCY_WEIGHT


CANDIDATES = 60
"""Passages that words give, and as many that meaning gives: enough that the small terms and neighbours can lift one
into a page."""

NEIGHBOURED = 20
"""Best candidates by words, and by meaning, whose neighbouring messages join in."""

WINDOWED = 20
"""Messages in the best windows, which join in with their neighbours."""

OCCURRENCES = 1_000
"""Occurrences of the rarest words that windows are chosen by."""

OF_DAYS = 300
"""Messages of the days that a query names, which join in, and as many of the days around them, which may name those;
where there were more, the newest."""


def retrieve_candidates(
    tx: Transaction,
    words: Occurring,
    filters: Filters,
    query: QueryVector | None,
    asked: QueryOfTurns | None = None,
    zone: tzinfo | None = None,
) -> tuple[Candidate, ...]:
    """The candidates for the words, for the vector of the query where there is one, and for the days it names."""
    visible = Visible(filters, extent_of(tx, filters, EXACT_ENTRIES + 1))
    if not visible.extent.count:
        return ()
    hits = {columns.integer(row[0]): row for row in best_by_words(tx, words, visible, CANDIDATES)}
    alike = {} if query is None else dict(nearest(tx, query, filters, visible=visible.extent.count, count=CANDIDATES))
    near = {} if query is None else _by_meaning(tx, query, alike, hits.keys())
    known = hits | near
    middles = [*list(hits.values())[:NEIGHBOURED], *list(near.values())[:NEIGHBOURED]]
    if not _MESSAGES.isdisjoint(filters.kinds):
        middles += _in_windows(tx, words, visible)
        if asked is not None and asked.days:
            known |= _of_days(tx, asked, filters, zone)
    known |= _neighbours(tx, middles, filters)
    if query is not None:
        alike |= meanings(tx, query, [entry for entry in known if entry not in alike])
    found = [_candidate(row, _score(hits[entry][5]) if entry in hits else 0.0, alike) for entry, row in known.items()]
    return tuple(_with_windows(tx, found, words))


_MESSAGES = frozenset({"user", "assistant"})


def _in_windows(tx: Transaction, words: Occurring, visible: Visible) -> list[Row]:
    """Messages that have a rare word, in whose windows there are most of them."""
    rare = words.split(OCCURRENCES)[0]
    if len(rare) < 2:
        return []
    asked: dict[str, SqlValue] = {
        **visible.filters.params(),
        "terms": _as_asked(rare),
        "messages": json.dumps(sorted(_MESSAGES)),
        "first": visible.extent.first,
        "last": visible.extent.last,
    }
    rows: dict[int, Row] = {}
    matches: dict[str, set[int]] = {}
    for row in tx.all(_QUERIES["messages_with"], asked):
        entry = columns.integer(row[0])
        rows[entry] = row
        matches.setdefault(rare[columns.integer(row[5])], set()).add(entry)
    entries = list(rows)
    places = [TurnPlace(entry, columns.text(rows[entry][2]), columns.text(rows[entry][3])) for entry in entries]
    counts = {word: len(having) for word, having in matches.items()}
    scores = window_scores(places, matches, counts, max(2 * len(rows), newest_entry(tx)))
    return [rows[entry] for _, entry in nlargest(WINDOWED, zip(scores, entries, strict=True))]


def _of_days(tx: Transaction, asked: QueryOfTurns, filters: Filters, zone: tzinfo | None) -> dict[int, Row]:
    day_ms = 24 * 3_600_000
    found: dict[int, Row] = {}
    for around in (False, True):
        most = len(found) + OF_DAYS
        for days in asked.days:
            first_ms, last_ms = days.bounds(zone)
            near, far = NAMED_WITHIN
            before = after = near if days.count <= near else far
            if not around:
                before, after = 0, SOON_DAYS if days.count <= SOON_DAYS else 0
            bounds = {"first_ms": first_ms - before * day_ms, "last_ms": last_ms + after * day_ms}
            asked_for = {**filters.params(), **bounds, "messages": json.dumps(sorted(_MESSAGES))}
            rows = tx.all(_QUERIES["messages_between"], {**asked_for, "limit": most - len(found)})
            found |= {columns.integer(row[0]): row for row in rows}
            if len(found) >= most:
                break
    return found


def _with_windows(tx: Transaction, found: list[Candidate], words: Occurring) -> list[Candidate]:
    """The candidates, with the scores of the windows of those that are messages."""
    messages = [one for one in found if one.kind in _MESSAGES]
    passages = newest_entry(tx)
    scoring = words.telling(passages).counts
    if not messages or not scoring:
        return found
    entries = [one.entry for one in messages]
    among: dict[str, SqlValue] = {
        "terms": _as_asked([word for word, _ in scoring]),
        "entries": json.dumps(entries),
        "first": min(entries),
        "last": max(entries),
    }
    matches: dict[str, set[int]] = {}
    for row in tx.all(_QUERIES["matches_among"], among):
        matches.setdefault(scoring[columns.integer(row[0])][0], set()).add(columns.integer(row[1]))
    scores = window_scores(_places(messages), matches, dict(scoring), passages)
    by_entry = {one.entry: score for one, score in zip(messages, scores, strict=True)}
    return [Candidate._make((*one[:-1], by_entry[one.entry])) if one.entry in by_entry else one for one in found]


def _as_asked(words: Sequence[str]) -> str:
    return json.dumps([match_expression((word,)) for word in words])


def _by_meaning(
    tx: Transaction, query: QueryVector, alike: Mapping[int, float], hits: AbstractSet[int]
) -> dict[int, Row]:
    near = [entry for entry, meaning in alike.items() if entry not in hits and meaning >= query.model.floor]
    rows = tx.all(_QUERIES["read_candidates"], {"entries": json.dumps(near)})
    return {columns.integer(row[0]): row for row in rows}


def _neighbours(tx: Transaction, middles: Sequence[Row], filters: Filters) -> dict[int, Row]:
    """The visible passages of the same session that were stored near one of `middles`, and those themselves."""
    wanted = {
        near: row[2]
        for row in middles
        if row[1] not in FACT_KINDS
        for near in range(columns.integer(row[0]) - NEIGHBOUR_REACH, columns.integer(row[0]) + NEIGHBOUR_REACH + 1)
    }
    if not wanted:
        return {}
    sources = json.dumps(sorted({columns.text(row[2]) for row in middles}))
    asked = {**filters.params(), "entries": json.dumps(sorted(wanted)), "sources": sources}
    return {columns.integer(row[0]): row for row in tx.all(_QUERIES["read_neighbours"], asked)}


def _candidate(row: Row, score: float, meanings_of: Mapping[int, float]) -> Candidate:
    # The columns are those of a STRICT table; reading each with a check takes as long as all the rest.
    entry, kind, source, item, at_ms = cast("tuple[int, str, str, str, int]", row[:5])
    return Candidate(entry, kind, source, item, at_ms, score, meanings_of.get(entry))


def _score(value: SqlValue) -> float:
    if not isinstance(value, float):
        raise TypeError("BM25 gave something else than a number.")
    return value
