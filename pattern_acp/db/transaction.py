"""Transactions: what a function may do inside one.

Owns: running statements on the connection's own thread, and that they stop working when it ends. Must not know: when a
transaction begins or ends (`db/connection.py`), or what any table means.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import apsw
from msgspec import Struct

from pattern_acp.db.errors import translate
from pattern_acp.db.raw import Params, RawConnection, Row, SqlValue, Token


def storable(text: str) -> str:
    """`text` with each lone surrogate replaced, since SQLite's text is UTF-8; models write them in escapes."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _storable_params(params: Params) -> Params:
    if isinstance(params, Mapping):
        return {name: storable(value) if isinstance(value, str) else value for name, value in params.items()}
    return [storable(value) if isinstance(value, str) else value for value in params]


class Handle(Struct):
    """The connection while its transaction lasts, then None. Belongs to the one who begins and ends the transaction."""

    connection: RawConnection | None


class Transaction:
    """Statements of one transaction. Valid only inside the function it is handed to, and only on that thread."""

    __slots__ = ("_handle", "_path", "found")

    def __init__(self, handle: Handle, path: Path) -> None:
        self._handle = handle
        self._path = path
        self.found: dict[object, object] = {}
        """Findings of stores that need them again in this transaction, each under a key of its own."""

    def execute(self, sql: LiteralString, params: Params = ()) -> int:
        """Run an INSERT, UPDATE or DELETE and return how many rows it changed itself (not its triggers).

        Raises:
            DatabaseError: a subclass from `db/errors.py`; the transaction is then rolled back as a whole unless the
                function handles it.
        """
        self._rows(sql, params)
        return self._live().changes()

    def execute_each(self, sql: LiteralString, rows: Sequence[Sequence[SqlValue]]) -> None:
        """Run an INSERT, UPDATE or DELETE once for each row of values; four times as fast as that many `execute`."""
        if not rows:
            return
        try:
            self._live().executemany(sql, rows).fetchall()
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def insert(self, sql: LiteralString, params: Params = ()) -> int:
        """Run one INSERT and return the rowid of the new row."""
        self._rows(sql, params)
        return self._live().last_insert_rowid()

    def one(self, sql: LiteralString, params: Params = ()) -> Row | None:
        """The first row of a query, or None."""
        rows = self._rows(sql, params)
        return rows[0] if rows else None

    def all(self, sql: LiteralString, params: Params = ()) -> list[Row]:
        """Every row of a query."""
        return self._rows(sql, params)

    def each(self, sql: LiteralString, params: Params = ()) -> Iterator[Row]:
        """The rows of a query one after the other, for more than should be in memory at once."""
        try:
            yield from self._live().execute(sql, params)
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def tokenizer(self, name: str, *settings: str) -> Callable[[str], list[Token]]:
        """A function that makes words of texts like a full-text index with `tokenize = 'name settings'`.

        Raises:
            DatabaseError: there is no such tokenizer.
        """
        try:
            split = self._live().fts5_tokenizer(name, list(settings))
        except apsw.Error as error:
            raise translate(error, self._path) from error

        def tokens(text: str) -> list[Token]:
            return split(text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)

        return tokens

    def overwrite_deleted(self) -> None:
        """Let whatever this connection deletes from here on be overwritten with zeros (sqlite.org/pragma.html).

        For words that have to go: a process that ends before it wrote the whole file again leaves none of them in it
        once the write-ahead log was moved into it.

        Raises:
            DatabaseError: see `execute`.
        """
        self._rows("PRAGMA secure_delete = ON", ())

    def _rows(self, sql: str, params: Params) -> list[Row]:
        try:
            return self._live().execute(sql, params).fetchall()
        except UnicodeEncodeError:
            # Any text that a model or an editor names may hold half of a pair; asked for, it is what is stored for it.
            return self._rows(sql, _storable_params(params))
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def _live(self) -> RawConnection:
        connection = self._handle.connection
        if connection is None:
            raise RuntimeError("A transaction was used after its function had returned; keep its rows instead.")
        return connection


@contextmanager
def open_transaction(connection: RawConnection, path: Path) -> Generator[Transaction]:
    """A `Transaction` that stops working when the block ends; beginning and ending is the caller's part."""
    handle = Handle(connection)
    try:
        yield Transaction(handle, path)
    finally:
        handle.connection = None
