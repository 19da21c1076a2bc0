"""Vectors of what is searched: which models there are, what is still to be embedded, and what is near a query.

Owns: `embedding_models`, `embedding_queue`, `vectors` and `index_leftovers`. Must not know: how vectors are made, what
is stored of their signs (`codes`), or what a score is. Every text waits in the queue of every model from the moment it
is stored (a trigger), so that a change of the embedder is a new model whose queue holds everything; search uses the
vectors of one model alone.
"""

import importlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain
from typing import Protocol, cast

from msgspec import Struct, field

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.embeddings import EmbeddingModel, Vector, cosine, from_bytes, to_bytes
from pattern_acp.memory.search_terms import Filters

_QUERIES = load_queries("pattern_acp.memory")

EXACT_ENTRIES = 4_000
"""Up to this many visible entries every vector is compared, which takes 4 ms; above it codes choose which."""

CODED_ENTRIES = EXACT_ENTRIES // 2
"""Entries from which codes are stored: making those of a turn takes 1 ms of each turn, and fewer entries never need
them. Half, so that all are there by the time that the first search goes by them."""

COMPARED = 300
"""Vectors that codes choose to be compared at first: of the ten nearest of 10,000 hashed ones they hold 86 of 100
(docs/explanation/recall.md, "Speed"). Where too few of them are visible, ever more are."""

_MORE = 8
"""Times as many, each time that too few were visible."""

_LAST_ENTRY = (1 << 63) - 1

_LARGEST = 8_192
"""Dimensions of a vector that can have a code at most; sqlite-vec's own limit."""

UNUSED_MS = 60 * 24 * 3_600_000
"""The vectors of a model that no start used for two months are dropped; its texts would be embedded again."""


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


class VectorTable(Struct, frozen=True):
    """One model's vectors, as this process may use them."""

    model: int
    """Its number in `embedding_models`."""
    has_extension: bool
    """True when sqlite-vec is loaded."""
    exact_entries: int = EXACT_ENTRIES
    coded_entries: int = CODED_ENTRIES
    codes: CodeCache = field(default_factory=CodeCache)
    """Codes of the model that this process caches."""


class QueryVector(Struct, frozen=True):
    """A query as a vector, and where to look for what is near it."""

    table: VectorTable
    model: EmbeddingModel
    vector: Vector


class Extent(Struct, frozen=True):
    """The number of visible entries, with the first and the last that may be one: a session's own are the newest."""

    count: int
    first: int = 0
    last: int = _LAST_ENTRY


class QueuedText(Struct, frozen=True):
    """A text that is not embedded yet."""

    entry: int
    text: str


def open_model(tx: Transaction, model: EmbeddingModel, *, has_extension: bool, now_ms: int) -> VectorTable:
    """The table of a model, which is queued for every entry when it is new. Drops models unused for `UNUSED_MS`.

    Where sqlite-vec is loaded, its indexes of older programs go.
    """
    number = _number(tx, model.name)
    if number is None:
        new: dict[str, SqlValue] = {"name": model.name, "dimensions": model.dimensions, "now_ms": now_ms}
        number = tx.insert(_QUERIES["insert_model"], new)
        tx.execute(_QUERIES["queue_everything"], {"model": number})
    else:
        tx.execute(_QUERIES["use_model"], {"id": number, "now_ms": now_ms})
    for row in tx.all(_QUERIES["unused_models"], {"before_ms": now_ms - UNUSED_MS}):
        tx.execute(_QUERIES["delete_model"], {"id": row[0]})
    if has_extension:
        from pattern_acp.db.table_rows import drop_old_indexes

        drop_old_indexes(tx)
    return VectorTable(number, has_extension)


def find_model(tx: Transaction, name: str, *, has_extension: bool) -> VectorTable | None:
    """The table of a model that was opened before; writes nothing."""
    number = _number(tx, name)
    return None if number is None else VectorTable(number, has_extension)


def waiting(tx: Transaction, table: VectorTable, limit: int) -> tuple[QueuedText, ...]:
    """Texts that are not embedded yet, newest first, since those are what the next question is about."""
    rows = tx.all(_QUERIES["waiting"], {"model": table.model, "limit": limit})
    return tuple(QueuedText(columns.integer(row[0]), columns.text(row[1])) for row in rows)


def count_waiting(tx: Transaction, table: VectorTable, at_most: int) -> int:
    """The number of texts that are not embedded yet; counts no further than `at_most`."""
    row = tx.one(_QUERIES["count_waiting"], {"model": table.model, "at_most": at_most})
    return columns.integer(row[0]) if row else 0


def is_waiting_beside(tx: Transaction, table: VectorTable, source: str) -> bool:
    """True when a text that is from another source than this one is not embedded yet."""
    return tx.one(_QUERIES["waiting_beside"], {"model": table.model, "source": source}) is not None


def store_vectors(tx: Transaction, table: VectorTable, made: Sequence[tuple[QueuedText, Vector]]) -> int:
    """Store vectors of texts that `waiting` gave, and say how many.

    Texts that changed or went since are left out, and those that another process has stored the vector of.
    """
    if made:
        _note_dimensions(tx, table, len(made[0][1]))
    stored = 0
    for one, values in made:
        row = tx.one(_QUERIES["read_entry"], {"id": one.entry})
        if row is None or columns.text(row[0]) != one.text:
            continue
        if not tx.execute(_QUERIES["unqueue"], {"model": table.model, "entry": one.entry}):
            continue
        fields: dict[str, SqlValue] = {
            "entry": one.entry,
            "model": table.model,
            "dimensions": len(values),
            "content_hash": sha256(one.text.encode("utf-8")).hexdigest(),
            "vector": to_bytes(values),
            "seq": row[1],
        }
        tx.execute(_QUERIES["store_vector"], fields)
        stored += 1
    return stored


def can_code(dimensions: int) -> bool:
    """True when vectors of this many dimensions can have codes: bits are stored as whole bytes."""
    return 0 < dimensions <= _LARGEST and dimensions % 8 == 0


def needs_mending(tx: Transaction, table: VectorTable) -> bool:
    """True when `mend_codes` has something to do."""
    if not _keeps_codes(tx, table) or not can_code(_dimensions(tx, table)):
        return False
    return tx.one(_QUERIES["is_behind"], {"model": table.model}) is not None


def mend_codes(tx: Transaction, table: VectorTable, limit: int) -> None:
    """Bring the codes up to the vectors: the portions of at most `limit` entries that changed.

    What processes without sqlite-vec stored and deleted is made up for here, and so are codes that were dropped, and
    those of entries that were too few to need any (`CODED_ENTRIES`).
    """
    dimensions = _dimensions(tx, table)
    if not _keeps_codes(tx, table) or not can_code(dimensions):
        return
    gone = tx.all(_QUERIES["leftovers"], {"model": table.model, "limit": limit})
    new = tx.all(_QUERIES["not_indexed"], {"model": table.model, "limit": limit - len(gone)})
    portions = portions_of(columns.integer(row[0]) for row in (*gone, *new))
    for portion in sorted(portions):
        write_portion(tx, table.model, portion, dimensions)
    if portions:
        note_change(tx, table.model)


def _keeps_codes(tx: Transaction, table: VectorTable) -> bool:
    return table.has_extension and _newest_entry(tx) > table.coded_entries


def _newest_entry(tx: Transaction) -> int:
    # Entries are numbered from 1, so there are never more of them than this.
    row = tx.one(_QUERIES["newest_entry"])
    return columns.integer(row[0]) if row else 0


def drop_stale_codes(tx: Transaction) -> int:
    """Drop the portions of codes that have something of vectors that are gone, and say how many those were.

    They are made again from the vectors that are left.
    """
    rows = tx.all(_QUERIES["all_leftovers"])
    stale = {(columns.integer(row[0]), portion) for row in rows for portion in portions_of([columns.integer(row[1])])}
    for model, portion in sorted(stale):
        drop_portion(tx, model, portion)
    return len(stale)


def extent_of(tx: Transaction, filters: Filters, at_most: int) -> Extent:
    """The number of visible entries, counted no further than `at_most`, and between which entries they are."""
    asked: dict[str, SqlValue] = {**filters.params(), "at_most": at_most}
    may_reach = not filters.narrows and _newest_entry(tx) >= at_most
    if may_reach and tx.one(_QUERIES["reaches_visible"], asked) is not None:
        return Extent(at_most)
    (row,) = tx.all(_QUERIES["visible_extent"], asked)
    count, first, last = map(columns.integer, row)
    return Extent(count, first, last) if count < at_most else Extent(count)


def count_visible(tx: Transaction, filters: Filters, at_most: int) -> int:
    """The number of entries that are visible; counts no further than `at_most`."""
    return extent_of(tx, filters, at_most).count


def nearest(
    tx: Transaction, query: QueryVector, filters: Filters, *, visible: int, count: int
) -> tuple[tuple[int, float], ...]:
    """The visible entries whose vectors are nearest to the query's with their cosines, nearest first.

    `visible` is how many entries are, as far as it was counted.
    """
    if query.table.has_extension and visible > query.table.exact_entries:
        portions = query.table.codes.of_owners(tx, query.table.model, filters.owners)
        if portions:
            return _from_codes(tx, query, filters, portions, count)
    return _from_all(tx, query, filters, count)


def meanings(tx: Transaction, query: QueryVector, entries: Sequence[int]) -> dict[int, float]:
    """The cosine of the query and each of `entries` that has a vector of its model."""
    wanted: dict[str, SqlValue] = {"model": query.table.model, "entries": json.dumps(sorted(entries))}
    if query.table.has_extension:
        rows = tx.all(_QUERIES["distances"], {**wanted, **_asked(query)})
        return dict(map(_likeness, rows))
    return dict(_scanned(query, tx.all(_QUERIES["read_vectors"], wanted)))


def _from_all(tx: Transaction, query: QueryVector, filters: Filters, count: int) -> tuple[tuple[int, float], ...]:
    visible: dict[str, SqlValue] = {**filters.params(), "model": query.table.model}
    if query.table.has_extension:
        rows = tx.all(_QUERIES["nearest_of_all"], {**visible, **_asked(query), "count": count})
        return tuple(map(_likeness, rows))
    return _sorted(_scanned(query, tx.all(_QUERIES["visible_vectors"], visible)))[:count]


def _scanned(query: QueryVector, rows: Sequence[Row]) -> list[tuple[int, float]]:
    # Late: with sqlite-vec nobody asks.

    alike = cosines(query.vector, [columns.data(row[1]) for row in rows])
    return [(columns.integer(row[0]), likeness) for row, likeness in zip(rows, alike, strict=True)]


def _sorted(alike: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(alike, key=lambda one: (-one[1], -one[0])))


def _from_codes(
    tx: Transaction, query: QueryVector, filters: Filters, portions: Sequence[Portion], count: int
) -> tuple[tuple[int, float], ...]:
    asked: dict[str, SqlValue] = {**filters.params(), **_asked(query), "count": count}
    code, all_of_them = code_of(query.vector), sum(len(one.codes) for one in portions)
    compared = COMPARED
    while True:
        entries = likely_nearest(portions, code, compared)
        rows = tx.all(_QUERIES["nearest_of"], {**asked, "entries": json.dumps(entries)})
        if len(rows) >= count or len(entries) >= all_of_them:
            return tuple(map(_likeness, rows))
        compared *= _MORE


def _asked(query: QueryVector) -> dict[str, SqlValue]:
    vector = to_bytes(query.vector)
    return {"model": query.table.model, "vector": vector, "size": len(vector)}


def _number(tx: Transaction, name: str) -> int | None:
    row = tx.one(_QUERIES["find_model"], {"name": name})
    return columns.integer(row[0]) if row else None


def _dimensions(tx: Transaction, table: VectorTable) -> int:
    row = tx.one(_QUERIES["model_dimensions"], {"id": table.model})
    return columns.integer(row[0]) if row else 0


def _note_dimensions(tx: Transaction, table: VectorTable, dimensions: int) -> None:
    known = _dimensions(tx, table)
    if known == dimensions:
        return
    if known:
        # The server gives another model under the same name now: nothing that is stored can be compared with it.
        tx.execute(_QUERIES["delete_vectors"], {"model": table.model})
        tx.execute(_QUERIES["queue_everything"], {"model": table.model})
        drop_codes(tx, table.model)
    tx.execute(_QUERIES["set_dimensions"], {"id": table.model, "dimensions": dimensions})


def _likeness(row: Row) -> tuple[int, float]:
    entry, distance = row
    if not isinstance(entry, int) or not isinstance(distance, float):
        raise TypeError("A distance is something else than a number.")
    return entry, 1.0 - distance


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


PORTION = 128
"""Entries whose codes are written together: making them again takes 0.4 ms."""

_SAMPLED = 16
"""One of so many codes tells how near the others are."""

_ANY = 1 << 62
"""More bits than a code has, and more than an entry's id."""

_ID_BITS = 48
"""Bits for an entry's id, and as many for all that it is not; the number of ones of both together."""

_IDS = (1 << _ID_BITS) - 1


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
