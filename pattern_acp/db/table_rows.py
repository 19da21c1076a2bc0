"""Rows of whichever tables, by the event that they were last changed by.

Owns: the SQL that is put together from names of tables and columns, which come from the schema and are checked. Must
not know: what any table means. Every table of state has a column `last_seq` (rule R1); nothing else is relied on.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import LiteralString, cast

from pattern_acp.db import columns
from pattern_acp.db.columns import integer, text
from pattern_acp.db.raw import Row
from pattern_acp.db.transaction import Transaction

_LAST_SEQ = "last_seq"

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def columns_of(tx: Transaction, table: str) -> tuple[str, ...]:
    """The columns of a table in their order; none when there is no such table."""
    return tuple(text(row[0]) for row in tx.all("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,)))


def text_columns(tx: Transaction, table: str) -> tuple[str, ...]:
    """The columns of a table that hold texts, in their order; none when there is no such table."""
    rows = tx.all("SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT' ORDER BY cid", (table,))
    return tuple(text(row[0]) for row in rows)


def tables_of_state(tx: Transaction) -> tuple[str, ...]:
    """The tables that have a `last_seq`, by name."""
    tables = [text(row[0]) for row in tx.all("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return tuple(table for table in tables if _LAST_SEQ in columns_of(tx, table))


def rows_between(
    tx: Transaction, table: str, columns: Sequence[str], after: int, upto: int, *, by: str = _LAST_SEQ
) -> Iterator[Row]:
    """Yield the rows of a table that an event after `after`, up to `upto`, changed last, in the order of those events.

    `by` is the column that holds the event's number.
    """
    number = _names([by])
    sql = f"SELECT {_names(columns)} FROM {_names([table])} WHERE {number} > ? AND {number} <= ? ORDER BY {number}"
    yield from tx.each(_sql(sql), (after, upto))


def rows_with(tx: Transaction, table: str, columns: Sequence[str], column: str, value: str) -> list[Row]:
    """The rows of a table with a value in a column, in the order in which events changed them last."""
    sql = f"SELECT {_names(columns)} FROM {_names([table])} WHERE {_names([column])} = ? ORDER BY {_LAST_SEQ}"
    return tx.all(_sql(sql), (value,))


def all_rows(tx: Transaction, table: str, columns: Sequence[str]) -> list[Row]:
    """Every row of a table, in the order of `columns`."""
    names = _names(columns)
    return tx.all(_sql(f"SELECT {names} FROM {_names([table])} ORDER BY {names}"))


def ordinary_tables(tx: Transaction) -> tuple[str, ...]:
    """The tables that are neither virtual nor the inner ones of a virtual table, by name; SQLite's own among them."""
    listed = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    return tuple(text(row[0]) for row in tx.all(listed))


def each_row(tx: Transaction, table: str) -> Iterator[Row]:
    """Every row of a table, with all columns in the order of `columns_of`, one after the other."""
    return tx.each(_sql(f"SELECT * FROM {_names([table])}"))


def count_rows(tx: Transaction, table: str) -> int:
    """Count the rows of a table."""
    row = tx.one(_sql(f"SELECT count(*) FROM {_names([table])}"))
    return 0 if row is None else integer(row[0])


def put_rows(tx: Transaction, table: str, columns: Sequence[str], rows: Sequence[Row], *, replace: bool = True) -> None:
    """Add rows; one of the same key is replaced, or stays with `replace` off.

    Raises:
        DatabaseError: a row breaks a rule of the schema, or the file cannot be written.
    """
    verb = "REPLACE" if replace else "IGNORE"
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT OR {verb} INTO {_names([table])} ({_names(columns)}) VALUES ({marks})"
    tx.execute_each(_sql(sql), rows)


def clear_table(tx: Transaction, table: str) -> None:
    """Delete every row of a table."""
    tx.execute(_sql(f"DELETE FROM {_names([table])}"))


def drop_rows(tx: Transaction, table: str, column: str, values: Sequence[str]) -> int:
    """Delete the rows of a table that have one of some values in a column; returns how many those were.

    Raises:
        DatabaseError: another row refers to one, or the file cannot be written.
    """
    sql = f"DELETE FROM {_names([table])} WHERE {_names([column])} IN (SELECT value FROM json_each(?))"
    return tx.execute(_sql(sql), (json.dumps(list(values)),))


def mend_references(tx: Transaction, table: str) -> tuple[int, int]:
    """Let rows of a table refer to events and rows that are there; how many were moved, and how many deleted.

    A row whose event is gone counts as changed by the event before; what refers to something else that is gone goes.
    """
    name, moved, gone = _names([table]), 0, 0
    if not _in_key(tx, table, _LAST_SEQ):
        moved = tx.execute(
            _sql(
                f"UPDATE {name} SET {_LAST_SEQ} = (SELECT max(seq) FROM events WHERE seq < {name}.{_LAST_SEQ}) "
                f"WHERE NOT EXISTS (SELECT 1 FROM events WHERE seq = {name}.{_LAST_SEQ}) "
                f"AND EXISTS (SELECT 1 FROM events WHERE seq < {name}.{_LAST_SEQ})"
            )
        )
    for parent, column, target in _references(tx, table):
        own = f"{name}.{_names([column])}"
        found = f"SELECT 1 FROM {_names([parent])} AS parent WHERE parent.{_names([target])} = {own}"
        gone += tx.execute(_sql(f"DELETE FROM {name} WHERE {own} IS NOT NULL AND NOT EXISTS ({found})"))
    return moved, gone


def _references(tx: Transaction, table: str) -> list[tuple[str, str, str]]:
    rows = tx.all('SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)', (table,))
    return [(text(row[0]), text(row[1]), text(row[2])) for row in rows]


def _in_key(tx: Transaction, table: str, column: str) -> bool:
    row = tx.one("SELECT pk FROM pragma_table_info(?) WHERE name = ?", (table, column))
    return row is not None and integer(row[0]) > 0


def _names(names: Sequence[str]) -> str:
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a table or column.")
    return ", ".join(names)


def _sql(statement: str) -> LiteralString:
    # Names are checked, and every value is bound.
    return cast("LiteralString", statement)


_INDEXES: LiteralString = (
    "SELECT name FROM sqlite_schema"
    " WHERE type = 'table' AND sql LIKE '%USING vec0%' AND name GLOB 'vector_index_[0-9]*'"
)


def drop_old_indexes(tx: Transaction) -> int:
    """Drop every index of sqlite-vec, and say how many there were.

    Raises:
        DatabaseError: the extension is not loaded, and there is one.
    """
    names = [columns.text(row[0]) for row in tx.all(_INDEXES)]
    for name in names:
        tx.execute(cast("LiteralString", f'DROP TABLE "{name}"'))
    return len(names)
