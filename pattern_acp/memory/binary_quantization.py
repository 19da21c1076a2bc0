"""The signs of vectors, by which the vectors that a query is compared with are chosen.

Owns: `vector_codes` (one bit for each dimension, in portions of `PORTION` entries) and what a process keeps of them.
Must not know: what is visible, or how near a vector really is. They are made from the vectors, and can be dropped.

Going through bits in Python takes 0.08 µs an entry, so 0.8 ms for 10,000; sqlite-vec, which sorts as many as are asked
for by looking for the least again and again, took 0.9 ms an owner for a hundred of them (ADR 0026). One number an entry
is all that is gone through: above the bits of its code stands its id, and above that everything that the id is not, so
that what stands there has as many ones for each. A second list beside the codes takes a quarter longer.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.embeddings import Vector

_QUERIES = load_queries("pattern_acp.memory")

PORTION = 128
"""Entries whose codes are written together: making them again takes 0.4 ms."""

_SAMPLED = 16
"""One of so many codes tells how near the others are."""

_ANY = 1 << 62
"""More bits than a code has, and more than an entry's id."""

_ID_BITS = 48
"""Bits for an entry's id, and as many for all that it is not; the number of ones of both together."""

_IDS = (1 << _ID_BITS) - 1


class Portion(Struct, frozen=True):
    """Codes of one owner's entries, each with the entry's id above it."""

    stamp: int
    bits: int
    """Bits of a code."""
    codes: list[int]

    @classmethod
    def of(cls, stamp: int, bits: int, entries: Iterable[int], codes: Iterable[int]) -> "Portion":
        """The codes of `entries`, which are in the same places."""
        marked = [
            ((entry ^ _IDS) << _ID_BITS | entry) << bits | code for entry, code in zip(entries, codes, strict=True)
        ]
        return cls(stamp, bits, marked)


class _Held(Struct, frozen=True):
    """The codes of one model as a snapshot of the file had them."""

    stamp: int
    portions: Mapping[tuple[int, str], Portion]
    owners: Mapping[str, Portion]
    """All portions of an owner as one."""


_NOTHING = _Held(0, {}, {})


class CodeCache:
    """Codes of one model in this process: 120 bytes an entry of 512 dimensions.

    What other processes write is noticed by its stamp, and only portions that changed are read again. Several threads
    may use it; at worst two read the same.
    """

    def __init__(self) -> None:
        self._held = _NOTHING

    def of_owners(self, tx: Transaction, model: int, owners: Iterable[str]) -> list[Portion]:
        """The codes of each of `owners` that has some, as the snapshot of `tx` has them."""
        row = tx.one(_QUERIES["codes_stamp"], {"model": model})
        stamp = columns.integer(row[0]) if row else 0
        held = self._held
        if held.stamp != stamp:
            held = self._held = _read(tx, model, stamp, held)
        return [held.owners[owner] for owner in dict.fromkeys(owners) if owner in held.owners]


def code_of(vector: Vector) -> int:
    """The code of one vector: bit `i` is 1 where its number `i` is above 0."""
    return int("".join("1" if value > 0.0 else "0" for value in reversed(vector)), 2) if vector else 0


def likely_nearest(portions: Sequence[Portion], code: int, count: int) -> list[int]:
    """The `count` entries whose codes differ least from `code`, and all others that differ as little; ascending."""
    near = _within(portions, code, _likely_most(portions, code, count))
    if len(near) < count:
        near = _within(portions, code, _ANY)
    near.sort()
    if len(near) > count:
        near = near[: bisect_right(near, (near[count - 1][0], _ANY))]
    return sorted(entry for _, entry in near)


def _within(portions: Sequence[Portion], code: int, most: int) -> list[tuple[int, int]]:
    """Entries whose codes differ from `code` in at most so many bits, each behind its number of bits."""
    most += _ID_BITS
    return [
        ((marked ^ code).bit_count() - _ID_BITS, marked >> one.bits & _IDS)
        for one in portions
        for marked in [marked for marked in one.codes if (marked ^ code).bit_count() <= most]
    ]


def _likely_most(portions: Sequence[Portion], code: int, count: int) -> int:
    """A number of bits that somewhat more than `count` codes differ in at most, judged by one of `_SAMPLED` codes."""
    bits = sorted([(marked ^ code).bit_count() for portion in portions for marked in portion.codes[::_SAMPLED]])
    place = 4 + 5 * count // (4 * _SAMPLED)
    return bits[place] - _ID_BITS if place < len(bits) else _ANY


def portions_of(entries: Iterable[int]) -> set[int]:
    """The portions that these entries are in."""
    return {entry // PORTION for entry in entries}


def write_portion(tx: Transaction, model: int, portion: int, dimensions: int) -> None:
    """Make the codes of a portion from its vectors. Needs the extension.

    Raises:
        DatabaseError: it is not loaded, or the file cannot be written.
    """
    where = _where(model, portion)
    found: dict[str, tuple[array[int], list[bytes]]] = {}
    for row in tx.all(_QUERIES["code_vectors"], {**where, "size": 4 * dimensions}):
        entries, codes = found.setdefault(columns.text(row[1]), (array("q"), []))
        entries.append(columns.integer(row[0]))
        codes.append(columns.data(row[2]))
    tx.execute(_QUERIES["delete_codes"], {"model": model, "portion": portion})
    for owner, (entries, codes) in found.items():
        made: dict[str, SqlValue] = {"model": model, "portion": portion, "owner": owner}
        tx.execute(_QUERIES["insert_codes"], {**made, "entries": entries.tobytes(), "codes": b"".join(codes)})
    tx.execute(_QUERIES["mark_indexed"], where)
    tx.execute(_QUERIES["delete_leftovers"], where)


def drop_portion(tx: Transaction, model: int, portion: int) -> None:
    """Drop the codes of a portion, which are made again from its vectors."""
    where = _where(model, portion)
    tx.execute(_QUERIES["delete_codes"], {"model": model, "portion": portion})
    tx.execute(_QUERIES["forget_indexed_between"], where)
    tx.execute(_QUERIES["delete_leftovers"], where)
    note_change(tx, model)


def drop_codes(tx: Transaction, model: int) -> None:
    """Drop all codes of a model, which are made again from its vectors."""
    tx.execute(_QUERIES["delete_all_codes"], {"model": model})
    tx.execute(_QUERIES["forget_indexed"], {"model": model})
    note_change(tx, model)


def note_change(tx: Transaction, model: int) -> None:
    """Tell every process that the codes of a model are others now."""
    tx.execute(_QUERIES["stamp_codes"], {"model": model})


def _where(model: int, portion: int) -> dict[str, SqlValue]:
    return {"model": model, "first": portion * PORTION, "last": (portion + 1) * PORTION - 1}


def _read(tx: Transaction, model: int, stamp: int, before: _Held) -> _Held:
    portions: dict[tuple[int, str], Portion] = {}
    for row in tx.all(_QUERIES["code_stamps"], {"model": model}):
        key, its_stamp = (columns.integer(row[0]), columns.text(row[1])), columns.integer(row[2])
        known = before.portions.get(key)
        portions[key] = known if known is not None and known.stamp == its_stamp else _portion(tx, model, key, its_stamp)
    by_owner: dict[str, list[Portion]] = {}
    for (_, owner), portion in portions.items():
        by_owner.setdefault(owner, []).append(portion)
    return _Held(stamp, portions, {owner: _joined(several) for owner, several in by_owner.items()})


def _portion(tx: Transaction, model: int, key: tuple[int, str], stamp: int) -> Portion:
    entries, codes, size = array("q"), list[int](), 0
    row = tx.one(_QUERIES["read_codes"], {"model": model, "portion": key[0], "owner": key[1]})
    if row is not None:
        entries.frombytes(columns.data(row[0]))
        data = columns.data(row[1])
        size = len(data) // len(entries) if entries else 1
        # The bits of each byte are in the order of the machine's smallest first, as sqlite-vec packs them.
        codes = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    return Portion.of(stamp, 8 * size, entries, codes)


def _joined(portions: Sequence[Portion]) -> Portion:
    bits = max(portion.bits for portion in portions)
    return Portion(0, bits, [*chain.from_iterable(portion.codes for portion in portions if portion.bits == bits)])
