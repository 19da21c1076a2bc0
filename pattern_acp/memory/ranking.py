"""How found passages are ordered. Pure: numbers in, numbers out.

Owns: the weights. Must not know: where candidates come from. The score of a passage is

    share · meaning + (1 - share) · words

where `meaning` is the cosine, stretched so that the candidates span 0…1, and `words` is BM25 over the best one's. On
transcripts this beats fusing by ranks, which falls behind words alone (issue 3, section 4). Neighbouring messages,
recency and kind then change it a little.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from pattern_acp.memory.filters import FACT_KINDS

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
"""What was kept on purpose counts a little more, and the person's words more than the agent's."""


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
    """What is known of the query."""

    names_identifier: bool = False
    trust: float = 1.0
    """How far its embedder goes (`EmbeddingModel.trust`)."""
    coverage: float = 1.0
    """Share of its words that the best passage by words has, 0…1."""


PLAIN = QueryFacts()


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
    """How much meaning counts against words for a passage of this kind, 0…1.

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
    """What each entry gets of the messages beside it, which are the nearest candidates of its session."""
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
