"""Indexes of sqlite-vec over vectors that are stored elsewhere.

Owns: the tables `vector_index_N`, one a model N, and every statement on them. Must not know: what a vector stands for.
An index holds one bit a dimension, partitioned by owner: it gives candidates, whose order is computed from the vectors
themselves. Bits take a fifth of the time of floats at 100,000 entries, and a filter by a column takes thrice as long
as a partition (docs/recall.md, "Speed").

All of these may only be called on a connection that has loaded the extension (`DatabaseFacts.vector_version`). Names
and dimensions are integers of ours, and SQL has no placeholders for either, which is why statements are put together
here and nowhere else.
"""

from typing import LiteralString, cast

from pattern_acp.db import columns
from pattern_acp.db.transaction import Transaction

MOST_NEAREST = 100
"""Entries that one query of an index may ask for; its time grows with their number (200 take three times as long)."""

_EXISTS: LiteralString = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
_INDEXES: LiteralString = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%USING vec0%'"


def can_index(dimensions: int) -> bool:
    """Whether an index can hold vectors of this many dimensions: bits are stored as whole bytes."""
    return 0 < dimensions <= 8192 and dimensions % 8 == 0


def create_index(tx: Transaction, model: int, dimensions: int) -> bool:
    """Make the index of a model unless it is there. True: it is new, so that nothing is in it.

    Raises:
        DatabaseError: it cannot be made.
    """
    if has_index(tx, model):
        return False
    definition = f"entry INTEGER PRIMARY KEY, owner TEXT PARTITION KEY, code BIT[{dimensions:d}]"
    tx.execute(_literal(f"CREATE VIRTUAL TABLE {_name(model)} USING vec0({definition})"))
    return True


def has_index(tx: Transaction, model: int) -> bool:
    """Whether there is an index of this model."""
    return tx.one(_EXISTS, (_name(model),)) is not None


def drop_index(tx: Transaction, model: int) -> None:
    """Drop the index of a model if there is one."""
    tx.execute(_literal(f"DROP TABLE IF EXISTS {_name(model)}"))


def index_names(tx: Transaction) -> tuple[str, ...]:
    """The tables of all indexes."""
    return tuple(columns.text(row[0]) for row in tx.all(_INDEXES))


def put(tx: Transaction, model: int, entry: int, owner: str, vector: bytes) -> None:
    """Index a vector, in the place of what the index held of `entry`."""
    remove(tx, model, entry)
    insert = f"INSERT INTO {_name(model)} (entry, owner, code) VALUES (?, ?, vec_quantize_binary(?))"  # noqa: S608
    tx.execute(_literal(insert), (entry, owner, vector))


def remove(tx: Transaction, model: int, entry: int) -> None:
    """Take an entry out of the index; harmless when it is not in it."""
    tx.execute(_literal(f"DELETE FROM {_name(model)} WHERE entry = ?"), (entry,))  # noqa: S608


def nearest(tx: Transaction, model: int, owner: str, vector: bytes, count: int = MOST_NEAREST) -> list[int]:
    """The entries of `owner` whose bits are nearest to those of `vector`."""
    search = f"SELECT entry FROM {_name(model)} WHERE code MATCH vec_quantize_binary(?) AND owner = ? AND k = ?"  # noqa: S608
    return [columns.integer(row[0]) for row in tx.all(_literal(search), (vector, owner, count))]


def _name(model: int) -> str:
    return f"vector_index_{model:d}"


def _literal(sql: str) -> LiteralString:
    return cast("LiteralString", sql)
