"""Vectors that stand for the meaning of texts, the port that makes them, and an embedder that needs nothing.

Owns: the type of vectors, their form at rest, and what an embedder promises. Must not know: SQL, other embedders. The
one here hashes words and their character n-grams: it knows no meanings, but finds other forms, parts and misspellings.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from math import log1p, sqrt
from operator import add, mul, sub
from typing import Protocol, TypeAlias
from zlib import crc32

import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.search_terms import STOP_WORDS, split_identifiers

Vector: TypeAlias = "array[float]"
"""32-bit floats, of length 1 unless it is empty of meaning, so that the product of two is their cosine."""


class EmbedderError(PatternError):
    """Texts could not be embedded. Search continues with words alone."""

    failure_code = "memory.embedder-failed"


class TextUse(StrEnum):
    """The purpose of an embedding; some models need to know it."""

    STORED = "stored"
    QUERY = "query"


class EmbeddingModel(Struct, frozen=True):
    """Identity of an embedder's vectors, and the trust in them."""

    name: str
    """Stored with every vector. A change of anything that changes vectors needs a new name."""
    dimensions: int
    """Numbers of one vector; 0 while only the server knows."""
    floor: float
    """Cosine below which a passage that shares no word with the query is not shown at all."""
    trust: float
    """Most that meaning may count against words, 0…1 (`ranking.share_of_meaning`)."""
    weak: float = 0.0
    """Cosine that right answers seldom stay below (`recall.is_guess`); 0 where nobody has measured it."""
    is_rough: bool = False
    """True when its cosines order passages, and say nothing on their own."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def model(self) -> EmbeddingModel:
        """The model; its dimensions are known after the first texts at the latest."""
        ...

    @property
    def is_immediate(self) -> bool:
        """True when a text takes under a millisecond, so that a search may wait for texts without vectors."""
        ...

    async def prepare(self) -> None:
        """Do what the first text would have to wait for, on this machine.

        Raises:
            EmbedderError: the model cannot be loaded; a sentence says what to do.
        """
        ...

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """One vector a text, in order, each of length 1 (or 0 for a text that says nothing).

        Raises:
            EmbedderError: the model cannot be loaded or reached; a sentence says what to do.
        """
        ...


def unit(values: Sequence[float]) -> Vector:
    """`values` at length 1; all zeros stay."""
    length = sqrt(sum(map(mul, values, values)))
    return array("f", [value / length for value in values] if length > 0.0 else values)


def cosine(left: Vector, right: Vector) -> float:
    """The similarity of two vectors, -1…1; 0 where their lengths differ, since they are of different models."""
    return sum(map(mul, left, right)) if len(left) == len(right) else 0.0


def to_bytes(vector: Vector) -> bytes:
    """The stored form: 32-bit floats in the machine's order, which is what sqlite-vec reads."""
    return vector.tobytes()


def from_bytes(data: bytes) -> Vector:
    """The vector that `to_bytes` got; bytes that are no whole number of floats give an empty one."""
    vector = array("f")
    if len(data) % vector.itemsize == 0:
        vector.frombytes(data)
    return vector


DIMENSIONS = 512
"""A power of two, which the rotation needs; with half as many, chance likeness hides more of the true one."""

HASHED_NGRAMS = EmbeddingModel("hashed-ngrams-2", DIMENSIONS, floor=0.35, trust=0.3, weak=0.22)

_GRAMS = (3, 4, 5)
_WORD_SHARE = 2.0
"""Weight of a whole word against one of its n-grams."""

_WORD = late_pattern(r"[^\W_]+")
_LONGEST_WORD = 40
"""Longer runs of letters are data, such as a hash or base64; their beginning tells them apart."""

_SIGNS = tuple(-1.0 if crc32(b"sign %d" % place) & 1 else 1.0 for place in range(DIMENSIONS))
"""Arbitrary and fixed."""

_TEXTS_INLINE = 4
"""Texts up to this many are done at once, since a worker thread would cost as much."""


class HashedNgrams:
    """`Embedder` without a model."""

    model = HASHED_NGRAMS
    is_immediate = True

    async def prepare(self) -> None:
        """See `Embedder.prepare`; there is nothing to do."""

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`; never fails."""
        del use
        if len(texts) <= _TEXTS_INLINE:
            return tuple(hashed_vector(text) for text in texts)
        return await anyio.to_thread.run_sync(_all_vectors, tuple(texts))


@lru_cache(maxsize=128)
def hashed_vector(text: str) -> Vector:
    """The vector of one text. A prompt is asked for twice: it is searched with, and then stored."""
    words = [word.lower() for word in _WORD.findall(f"{text} {split_identifiers(text)}")]
    telling = Counter(word for word in words if word not in STOP_WORDS) or Counter(words)
    sums = [0.0] * DIMENSIONS
    for word, count in telling.items():
        weight = log1p(count)
        for place, value in _features(word[:_LONGEST_WORD]):
            sums[place] += weight * value
    return unit(_rotated(sums))


def _rotated(values: list[float]) -> list[float]:
    """The same vectors seen from another side: signs flipped at fixed places, then the Walsh-Hadamard transform.

    Likeness stays what it was, and everything spreads over all places. Without that a short text fills few of them, and
    an index that keeps one bit of each (db/table_rows.py) finds 1 of 12 that are near; see recall.md,
    "Speed".
    """
    turned = list(map(mul, values, _SIGNS))
    for _ in range(DIMENSIONS.bit_length() - 1):
        # Neighbours are added and subtracted, and places turn by one bit each time: after all bits they are back.
        left, right = turned[::2], turned[1::2]
        turned = [*map(add, left, right), *map(sub, left, right)]
    return turned


def _all_vectors(texts: tuple[str, ...]) -> tuple[Vector, ...]:
    return tuple(hashed_vector(text) for text in texts)


@lru_cache(maxsize=16_384)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """Positions of a word in the vector, with their values. Words repeat, so that most come from the cache."""
    marked = f"<{word}>"
    weights: dict[str, float] = {marked: _WORD_SHARE}
    for size in _GRAMS:
        for start in range(len(marked) - size + 1):
            weights.setdefault(marked[start : start + size], 1.0)
    # Each word counts the same, however many n-grams it has.
    length = sqrt(sum(weight * weight for weight in weights.values()))
    places = array("f", bytes(4 * DIMENSIONS))
    for feature, weight in weights.items():
        code = crc32(feature.encode("utf-8", "surrogatepass"))
        places[code % DIMENSIONS] += weight / length if code & 0x80000000 else -weight / length
    return tuple((place, value) for place, value in enumerate(places) if value)
