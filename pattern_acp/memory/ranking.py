"""How found passages are ordered. Pure: numbers in, numbers out.

Owns: the weights. Must not know: where candidates come from. The score of a passage is

    share · meaning + (1 - share) · words

where `meaning` is the cosine, stretched so that the candidates span 0…1, and `words` is BM25 over the best one's. On
transcripts this beats fusing by ranks, which falls behind words alone (issue 3, section 4). Neighbouring messages,
recency and kind then change it a little.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pattern_acp.domain.lazy_dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may be shown. `text_score` is BM25, higher is better, 0 where no term is in it.

    `meaning` is the cosine of its vector and the query's; None where either has none.
    """

    entry: int
    kind: str
    source: str
    item: str
    at_ms: int
    text_score: float
    meaning: float | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
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


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What is known of the query."""

    names_identifier: bool = False
    trust: float = 1.0
    """How far its embedder goes (`EmbeddingModel.trust`)."""
    coverage: float = 1.0
    """Share of its words that the best passage by words has, 0…1."""


PLAIN = QueryFacts()


def rank(candidates: Sequence[Candidate], *, now_ms: int, query: QueryFacts = PLAIN) -> tuple[Ranked, ...]:
    """Order `candidates`, best first; of two equal ones the newer entry leads. Candidates that score 0 are left out."""
    texts = _text_shares(candidates)
    shares = _fused(candidates, texts, query)
    spread = _spread(candidates, shares)
    ranked: list[Ranked] = []
    for candidate in candidates:
        given = spread.get(candidate.entry, 0.0)
        own = shares[candidate.entry] + given
        recency = _recency(candidate, now_ms)
        score = own * (1.0 + recency + KIND_WEIGHTS.get(candidate.kind, 0.0))
        ranked.append(
            Ranked(candidate.entry, score, texts[candidate.entry], given, candidate.meaning, own * recency),
        )
    return tuple(sorted((one for one in ranked if one.score > 0.0), key=lambda one: (-one.score, -one.entry)))


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


def _text_shares(candidates: Sequence[Candidate]) -> dict[int, float]:
    best = max((candidate.text_score for candidate in candidates), default=0.0)
    if best <= 0.0:
        return {candidate.entry: 0.0 for candidate in candidates}
    return {candidate.entry: max(0.0, candidate.text_score) / best for candidate in candidates}


def _fused(candidates: Sequence[Candidate], texts: Mapping[int, float], query: QueryFacts) -> dict[int, float]:
    known = [candidate.meaning for candidate in candidates if candidate.meaning is not None]
    lowest, highest = (min(known), max(known)) if known else (0.0, 0.0)
    shares = {kind: share_of_meaning(kind, query) for kind in {candidate.kind for candidate in candidates}}
    fused: dict[int, float] = {}
    for candidate in candidates:
        words = texts[candidate.entry]
        if candidate.meaning is None or highest <= 0.0:
            # Not embedded yet, or nothing is alike: the words say all there is.
            fused[candidate.entry] = words
            continue
        stretched = (candidate.meaning - lowest) / (highest - lowest) if highest > lowest else 1.0
        share = shares[candidate.kind]
        fused[candidate.entry] = share * stretched + (1.0 - share) * words
    return fused


def _spread(candidates: Sequence[Candidate], shares: Mapping[int, float]) -> dict[int, float]:
    given: dict[int, float] = {}
    by_source: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.kind not in FACT_KINDS:
            by_source.setdefault(candidate.source, []).append(candidate)
    for members in by_source.values():
        members.sort(key=lambda member: member.entry)
        for left, right in pairwise(members):
            if right.entry - left.entry <= NEIGHBOUR_REACH and left.item != right.item:
                given[left.entry] = given.get(left.entry, 0.0) + NEIGHBOUR_SHARE * shares[right.entry]
                given[right.entry] = given.get(right.entry, 0.0) + NEIGHBOUR_SHARE * shares[left.entry]
    return given


def _recency(candidate: Candidate, now_ms: int) -> float:
    age = max(0, now_ms - candidate.at_ms)
    return RECENCY_WEIGHT * 0.5 ** (age / RECENCY_HALF_LIFE_MS)
