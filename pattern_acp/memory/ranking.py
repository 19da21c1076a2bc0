"""How found passages are ordered. Pure: numbers in, numbers out.

Owns: the weights. Must not know: where candidates come from. Score fusion with an embedder joins here later: the text
score is already normalised to 0…1 for it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pattern_acp.domain.lazy_dataclass import dataclass

NEIGHBOUR_SHARE = 0.3
"""Part of a message's score that each neighbouring message gets: the answer often stands beside the words asked for.

Worth more than the choice of fusion in the measurements on transcripts (recall at 10 from .667 to .725).
"""

NEIGHBOUR_REACH = 6
"""Entries apart, at most, that two messages of a session may be stored to count as neighbours; between them lie other
sessions' entries and further passages of the same message."""

RECENCY_WEIGHT = 0.1
RECENCY_HALF_LIFE_MS = 30 * 24 * 3_600_000
"""After a month, half of the small bonus for recent text is left."""

KIND_WEIGHTS: Mapping[str, float] = {"block": 0.15, "user": 0.05, "assistant": 0.0}
"""What was kept on purpose counts a little more, and the person's words more than the agent's."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may be shown. `text_score` is BM25, higher is better, 0 where no term is in it."""

    entry: int
    kind: str
    source: str
    item: str
    at_ms: int
    text_score: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage with its final score: `text` is the normalised text score, `spread` what neighbours gave."""

    entry: int
    score: float
    text: float
    spread: float


def rank(candidates: Sequence[Candidate], *, now_ms: int) -> tuple[Ranked, ...]:
    """Order `candidates`, best first; of two equal ones the newer entry leads. Candidates that score 0 are left out."""
    best = max((candidate.text_score for candidate in candidates), default=0.0)
    if best <= 0.0:
        return ()
    shares = {candidate.entry: max(0.0, candidate.text_score) / best for candidate in candidates}
    spread = _spread(candidates, shares)
    ranked = [
        Ranked(
            candidate.entry,
            (shares[candidate.entry] + spread.get(candidate.entry, 0.0)) * _small_terms(candidate, now_ms),
            shares[candidate.entry],
            spread.get(candidate.entry, 0.0),
        )
        for candidate in candidates
    ]
    return tuple(sorted((one for one in ranked if one.score > 0.0), key=lambda one: (-one.score, -one.entry)))


def _spread(candidates: Sequence[Candidate], shares: Mapping[int, float]) -> dict[int, float]:
    given: dict[int, float] = {}
    by_source: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.kind != "block":
            by_source.setdefault(candidate.source, []).append(candidate)
    for members in by_source.values():
        members.sort(key=lambda member: member.entry)
        for left, right in pairwise(members):
            if right.entry - left.entry <= NEIGHBOUR_REACH and left.item != right.item:
                given[left.entry] = given.get(left.entry, 0.0) + NEIGHBOUR_SHARE * shares[right.entry]
                given[right.entry] = given.get(right.entry, 0.0) + NEIGHBOUR_SHARE * shares[left.entry]
    return given


def _small_terms(candidate: Candidate, now_ms: int) -> float:
    age = max(0, now_ms - candidate.at_ms)
    recency = RECENCY_WEIGHT * 0.5 ** (age / RECENCY_HALF_LIFE_MS)
    return 1.0 + recency + KIND_WEIGHTS.get(candidate.kind, 0.0)
