"""Comparing a query with every vector, for where sqlite-vec does not.

Owns: the one loop over vectors. Must not know: where they are stored. numpy does it twenty times as fast where it is
installed (it comes with `pattern-acp[semantic]`); the order is the same.
"""

import importlib
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Protocol, cast

from pattern_acp.memory.embeddings import Vector, cosine, from_bytes, to_bytes

WORTH_NUMPY = 500
"""Vectors from which on numpy's import, a tenth of a second once, is worth it."""


class _Array(Protocol):
    """numpy's array, as far as it is used."""

    def reshape(self, rows: int, columns: int) -> "_Array": ...

    def __matmul__(self, other: "_Array") -> "_Array": ...

    def tolist(self) -> list[float]: ...


class _Numpy(Protocol):
    def frombuffer(self, data: bytes, dtype: str) -> _Array: ...


def cosines(query: Vector, stored: Sequence[bytes], *, may_use_numpy: bool = True) -> list[float]:
    """The cosine of the query and each stored vector, in order; 0 for one of another length."""
    size = len(to_bytes(query))
    if may_use_numpy and len(stored) >= WORTH_NUMPY and all(len(one) == size for one in stored):
        numpy = _numpy()
        if numpy is not None:
            matrix = numpy.frombuffer(b"".join(stored), dtype="f4").reshape(len(stored), len(query))
            return (matrix @ numpy.frombuffer(to_bytes(query), dtype="f4")).tolist()
    return [cosine(query, from_bytes(one)) for one in stored]


@cache
def _numpy() -> _Numpy | None:
    return cast("_Numpy", importlib.import_module("numpy")) if find_spec("numpy") is not None else None
