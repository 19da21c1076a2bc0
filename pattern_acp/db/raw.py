"""The part of apsw that we use, with types of our own.

Owns: the types of values and rows, and how a connection is made. Must not know: pragmas, transactions or tables. apsw's
own annotations are partly unknown to a type checker on Python 3.11, so its connection is used through a Protocol.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, cast

import apsw

SqlValue: TypeAlias = int | float | str | bytes | None
"""A value that SQLite stores."""

Row: TypeAlias = tuple[SqlValue, ...]
"""One result row, columns in the order of the statement."""

Token: TypeAlias = tuple[int, int, str]
"""A word as the full-text index has it, behind where it begins and ends in the text's UTF-8."""

_COPY_TIMEOUT_MS = 5_000
"""Longest wait for a lock before a copy begins."""

Params: TypeAlias = Sequence[SqlValue] | Mapping[str, SqlValue]
"""Values for `?` placeholders in order, or for `:name` placeholders by name. A name that is missing is an error."""


class RawCursor(Protocol):
    """The result of one call of `RawConnection.execute`."""

    def __iter__(self) -> Iterator[Row]:
        """Each row when it is asked for."""
        ...

    def fetchall(self) -> list[Row]:
        """Run to the end and give every row."""
        ...


class RawTokenizer(Protocol):
    """A tokenizer of FTS5."""

    def __call__(self, utf8: bytes, flags: int, locale: str | None, *, include_colocated: bool) -> list[Token]:
        """The tokens of a text, in order; of several in one place the first, unless `include_colocated`."""
        ...


class RawConnection(Protocol):
    """apsw's connection, method by method as apsw documents it."""

    @property
    def in_transaction(self) -> bool:
        """True when a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Params | None = None) -> RawCursor:
        """Run every statement of the text, up to the first row."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Sequence[Params]) -> RawCursor:
        """Run the statements once for each of the values."""
        ...

    def pragma(self, name: str, value: SqlValue = None) -> SqlValue:
        """Read or set a pragma; the first value of its first row."""
        ...

    def changes(self) -> int:
        """Rows changed by the newest INSERT, UPDATE or DELETE."""
        ...

    def last_insert_rowid(self) -> int:
        """Rowid of the newest INSERT."""
        ...

    def fts5_tokenizer(self, name: str, args: list[str]) -> RawTokenizer:
        """A tokenizer with its settings."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """The time that SQLite itself waits for a lock."""
        ...

    def config(self, op: int, *args: int) -> int:
        """Set one of SQLite's per-connection switches."""
        ...

    def enable_load_extension(self, enable: bool) -> None:  # noqa: FBT001  # apsw's signature
        """Allow or forbid loading extensions."""
        ...

    def load_extension(self, filename: str) -> None:
        """Load an extension; the system's file ending may be left out."""
        ...

    def set_wal_hook(self, called: Callable[[object, str, int], int], /) -> None:
        """Have a function called after each commit with the pages in the write-ahead log, instead of moving it."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        """Move the write-ahead log into the file."""
        ...

    def interrupt(self) -> None:
        """Stop what another thread runs on this connection."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def connect(name: str, *, flags: int) -> RawConnection:
    """Open a database file, or a `file:` address with `SQLITE_OPEN_URI`.

    Raises:
        apsw.Error: see its subclasses.
    """
    return cast("RawConnection", apsw.Connection(name, flags=flags))


def copy_database(source: Path, target: Path, *, between: Callable[[], object] = lambda: None) -> None:
    """Copy the committed state of `source` over the database `target`, page by page.

    The state is that of the beginning, however much others write meanwhile: without a snapshot of our own, SQLite
    begins again after every commit of another process, and may never end. `between` is called after every 4 MB; what it
    raises ends the copying.

    Raises:
        apsw.Error: one of them cannot be read or written.
    """
    from_file = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        from_file.set_busy_timeout(_COPY_TIMEOUT_MS)
        snapshot = cast("RawConnection", from_file)
        snapshot.execute("BEGIN")
        snapshot.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        to_file = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with to_file.backup("main", from_file, "main") as copy:
                while not copy.done:
                    copy.step(1024)
                    between()
        finally:
            to_file.close()
    finally:
        from_file.close()
