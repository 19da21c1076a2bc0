"""An embedder that needs no package: a vector for each piece of a word, learned from MiniLM, added up.

Owns: the file of these vectors, and the vector of a text. Must not know: SQL, or how MiniLM runs. It knows which words
mean like things (`settings` and `configuration`), and nothing of their order; MiniLM finds more (recall.md). The
file is made by benchmarks/recall/distil.py: four bits a number, the first half of a vector's numbers in the low bits.
"""

import threading
from collections.abc import Sequence
from hashlib import file_digest
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack

import anyio.to_thread

from pattern_acp.memory.embeddings import EmbedderError, EmbeddingModel, TextUse, Vector, unit
from pattern_acp.memory.minilm import load_vocabulary, piece_numbers
from pattern_acp.memory.words import split_identifiers

DIMENSIONS = 192

DISTILLED = EmbeddingModel("distilled-minilm-192-1", DIMENSIONS, floor=0.2, trust=0.85, weak=0.16, is_rough=True)

TABLE = Path(__file__).parent / "vocabulary" / "distilled-192.bin"
TABLE_SHA256 = "126f671d8bdf607663d2be5a583324e9cba645c54c80d2e3a0b4c9064c90917f"

_REINSTALL = "reinstall pattern-acp, or set [memory] embedder to hash"

MOST_PIECES = 512
"""Pieces of a text that count; a passage of a message has about as many."""

_HALF = DIMENSIONS // 2
_ZERO = 8
"""The four bits that stand for zero."""
_LANES = int.from_bytes(b"\x0f\x00" * (_HALF // 2), "little")
_UNSIGNED = f"<{_HALF // 2}H"

_TEXTS_INLINE = 2
"""Texts up to this many are done at once once the table is there, since a worker thread would cost as much."""


class DistilledMiniLm:
    """`Embedder` by the table, which is read at the first text."""

    model = DISTILLED
    is_immediate = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: bytes | mmap = b""
        """Mapped: of 2.9 MB a session uses the rows of its own words."""

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""
        await anyio.to_thread.run_sync(self._load)

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        del use
        if self._table and len(texts) <= _TEXTS_INLINE:
            return self._vectors(texts)
        return await anyio.to_thread.run_sync(self._vectors, tuple(texts))

    def _vectors(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        self._load()
        return tuple(_vector(text, self._table) for text in texts)

    def _load(self) -> None:
        with self._lock:
            if self._table:
                return
            try:
                with TABLE.open("rb") as file:
                    digest = file_digest(file, "sha256").hexdigest()
                    data = mmap(file.fileno(), 0, access=ACCESS_READ)
                load_vocabulary()
            except (OSError, ValueError) as error:
                raise EmbedderError(f"The file {TABLE.name} cannot be read; {_REINSTALL}.") from error
            if digest != TABLE_SHA256:
                raise EmbedderError(f"The file {TABLE.name} was changed; {_REINSTALL}.")
            self._table = data


def _vector(text: str, table: bytes | mmap) -> Vector:
    numbers = piece_numbers(f"{text} {split_identifiers(text)}", MOST_PIECES)[1:-1]
    # Four sums of 48 lanes of 16 bits each, which hold the 512 numbers below 16 that may be added up.
    first = second = third = fourth = 0
    for number in numbers:
        row = int.from_bytes(table[number * _HALF : (number + 1) * _HALF], "little")
        first += row & _LANES
        second += row >> 4 & _LANES
        third += row >> 8 & _LANES
        fourth += row >> 12 & _LANES
    values = [0.0] * DIMENSIONS
    for start, lanes in ((0, first), (_HALF, second), (1, third), (_HALF + 1, fourth)):
        sums = unpack(_UNSIGNED, lanes.to_bytes(_HALF, "little"))
        values[start : start + _HALF - 1 : 2] = [float(value - _ZERO * len(numbers)) for value in sums]
    return unit(values)
