"""Vectors that stand for the meaning of texts, and the port that makes them.

Owns: the type of vectors, their form at rest, and what an embedder promises. Must not know: any embedder, SQL.
"""

from array import array
from collections.abc import Sequence
from enum import StrEnum
from math import sqrt
from operator import mul
from typing import Protocol, TypeAlias

from msgspec import Struct

from pattern_acp.domain.errors import PatternError

Vector: TypeAlias = "array[float]"
"""32-bit floats, of length 1 unless it is empty of meaning, so that the product of two is their cosine."""


class EmbedderError(PatternError):
    """Texts could not be embedded. Search goes on with words alone."""

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
    """True when its cosines order passages, and say nothing by themselves."""


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
    """The vector that `to_bytes` was given; bytes that are no whole number of floats give an empty one."""
    vector = array("f")
    if len(data) % vector.itemsize == 0:
        vector.frombytes(data)
    return vector
