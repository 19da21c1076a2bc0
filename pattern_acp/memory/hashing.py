"""An embedder that needs nothing: words and their character n-grams, hashed into a vector.

Owns: which features a text has and where they fall. Must not know: SQL, other embedders. It knows no meanings, but it
finds other forms, parts and misspellings of a word, which full-text search does not.
"""

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import log1p, sqrt
from operator import add, mul, sub
from zlib import crc32

import anyio.to_thread

from pattern_acp.memory.embeddings import EmbeddingModel, TextUse, Vector, unit
from pattern_acp.memory.words import STOP_WORDS, split_identifiers

DIMENSIONS = 512
"""A power of two, which the rotation needs; with half as many, chance likeness hides more of the true one."""

HASHED_NGRAMS = EmbeddingModel("hashed-ngrams-2", DIMENSIONS, floor=0.35, trust=0.3, weak=0.22)

_GRAMS = (3, 4, 5)
_WORD_SHARE = 2.0
"""Weight of a whole word against one of its n-grams."""

_WORD = re.compile(r"[^\W_]+")
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
    an index that keeps one bit of each (db/legacy_vector_indexes.py) finds 1 of 12 that are near; see recall.md,
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
