"""The index file of a workspace: its path, opening it in whatever state it is, and reading it.

Owns: its path, dropping one that is damaged or of another version, and the statements that read rows as values. Must
not know: how rows come about (`recording.py`), whether they are still true (`indexing.py`), or how answers are ranked.

Reading functions take a transaction: `await index.read(lambda tx: symbols_named(tx, "append"))`. SQL of another
query belongs to the query, in the manner of the functions here: `SYMBOLS + "WHERE …"` with `symbol_of`, and so on.
"""

import hashlib
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import LiteralString, cast

from pattern_acp.codemap.model import FileRecord, FileStatus, Import, Reference, ReferenceKind, Symbol, SymbolKind
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Database, open_database
from pattern_acp.db.errors import DatabaseBusyError, DiskFullError
from pattern_acp.db.migrate import Migration
from pattern_acp.db.raw import Row
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import DatabaseError

INDEX_VERSION = 1
"""Raise it with every change of the schema, of a language's query, or of the facts read from a file."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE files (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  base_name TEXT NOT NULL,  -- the last part of path, lower case
  language TEXT NOT NULL,
  status TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  read_ns INTEGER NOT NULL,  -- when it was read, by the same clock as mtime_ns
  content_hash TEXT NOT NULL,
  lines INTEGER NOT NULL,
  is_test INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE INDEX files_base_name ON files (base_name);

CREATE TABLE symbols (
  id INTEGER PRIMARY KEY,
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  parent_id INTEGER,  -- a symbol of the same file
  name TEXT NOT NULL,
  folded TEXT NOT NULL,  -- the name in lower case without underscores and dashes: getUser and get_user are getuser
  words TEXT NOT NULL,  -- its words in lower case between spaces: ' get user '
  qualified_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  column_number INTEGER NOT NULL,
  signature TEXT NOT NULL,
  exported INTEGER NOT NULL
) STRICT;
CREATE INDEX symbols_file ON symbols (file_id);
CREATE INDEX symbols_name ON symbols (name);
CREATE INDEX symbols_folded ON symbols (folded, words);

CREATE TABLE imports (
  id INTEGER PRIMARY KEY,
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  module TEXT NOT NULL,
  tail TEXT NOT NULL,  -- the last part of module without an ending, lower case
  name TEXT NOT NULL,
  folded TEXT NOT NULL,  -- name in lower case
  local TEXT NOT NULL,
  line INTEGER NOT NULL,
  resolved_path TEXT
) STRICT;
CREATE INDEX imports_file ON imports (file_id);
CREATE INDEX imports_tail ON imports (tail);
CREATE INDEX imports_name ON imports (name);
CREATE INDEX imports_folded ON imports (folded);
CREATE INDEX imports_resolved ON imports (resolved_path);

CREATE TABLE refs (
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  line INTEGER NOT NULL,
  column_number INTEGER NOT NULL,
  name TEXT NOT NULL,
  receiver TEXT NOT NULL,
  kind TEXT NOT NULL,
  symbol_id INTEGER,
  count INTEGER NOT NULL,
  PRIMARY KEY (file_id, line, column_number, name, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX refs_name ON refs (name, kind);
"""

MIGRATIONS = (Migration(INDEX_VERSION, "codemap", _SCHEMA),)
"""Migrations of an index file, for `db.connection.open_database`."""


_LOGGER = logging.getLogger(__name__)

FILES: LiteralString = (
    "SELECT f.id, f.path, f.language, f.status, f.size, f.lines, f.content_hash, f.is_test, f.note FROM files AS f "
)
"""Columns for `file_of`, up to the WHERE."""

SYMBOLS: LiteralString = (
    "SELECT s.id, f.path, s.name, s.qualified_name, s.kind, s.line, s.end_line, s.column_number, s.signature, "
    "s.exported, s.parent_id FROM symbols AS s JOIN files AS f ON f.id = s.file_id "
)
"""Columns for `symbol_of`, up to the WHERE."""

IMPORTS: LiteralString = (
    "SELECT f.path, i.module, i.name, i.local, i.line, i.resolved_path "
    "FROM imports AS i JOIN files AS f ON f.id = i.file_id "
)
"""Columns for `import_of`, up to the WHERE."""

REFERENCES: LiteralString = (
    "SELECT f.path, r.name, r.receiver, r.kind, r.line, r.column_number, r.symbol_id, r.count "
    "FROM refs AS r JOIN files AS f ON f.id = r.file_id "
)
"""Columns for `reference_of`, up to the WHERE."""


def index_path(cache: Path, root: str) -> Path:
    """Path of the index of the workspace at the absolute path `root`, below the cache directory."""
    real = os.path.normcase(os.path.realpath(root))
    name = hashlib.blake2b(os.fsencode(real), digest_size=10).hexdigest()
    return cache / "codemap" / name / f"index-{INDEX_VERSION}.db"


@asynccontextmanager
async def open_index(path: Path, *, clock: Clock) -> AsyncGenerator[Database, None]:
    """Open the index at `path`, empty if there was none; a damaged one is deleted first, as are older versions.

    Raises:
        DatabaseError: it can be neither opened nor made again.
    """
    delete_other_versions(path)
    async with AsyncExitStack() as stack:
        try:
            database = await stack.enter_async_context(open_database(path, clock=clock, migrations=MIGRATIONS))
            await database.read(_check)
        except (DatabaseBusyError, DiskFullError):
            raise
        except DatabaseError as error:
            _LOGGER.warning("The code map is built again, since its file cannot be used: %s", error)
            await stack.aclose()
            delete_index(path)
            database = await stack.enter_async_context(open_database(path, clock=clock, migrations=MIGRATIONS))
        yield database


def _check(tx: Transaction) -> None:
    tx.all("SELECT name, value FROM meta")
    tx.one("SELECT id FROM files ORDER BY id LIMIT 1")


def delete_index(path: Path) -> None:
    """Delete an index file and SQLite's files beside it."""
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + ending).unlink()


def delete_other_versions(path: Path) -> None:
    """Delete indexes of older versions beside `path`; a newer program may still use a newer one."""
    for other in path.parent.glob("index-*.db"):
        version = other.stem.removeprefix("index-")
        if version.isdecimal() and int(version) < INDEX_VERSION:
            delete_index(other)


def files_at(tx: Transaction, path: str) -> list[FileRecord]:
    """The file at `path`, or every file below it when it ends with a slash ("" is everything)."""
    if path and not path.endswith("/"):
        return [file_of(row) for row in tx.all(FILES + "WHERE f.path = ?", (path,))]
    after = path[:-1] + "0" if path else "\U0010ffff"  # "0" is the character behind "/"
    return [file_of(row) for row in tx.all(FILES + "WHERE f.path >= ? AND f.path < ? ORDER BY f.path", (path, after))]


def files_called(tx: Transaction, base_name: str) -> list[FileRecord]:
    """All files whose last part is `base_name`, in any case."""
    return [file_of(row) for row in tx.all(FILES + "WHERE f.base_name = ? ORDER BY f.path", (base_name.lower(),))]


def symbols_in(tx: Transaction, path: str) -> list[Symbol]:
    """Definitions of the file at `path`, in the order of lines; outer symbols come before inner ones."""
    rows = tx.all(SYMBOLS + "WHERE f.path = ? ORDER BY s.line, s.column_number, s.end_line DESC, s.id", (path,))
    return [symbol_of(row) for row in rows]


def symbols_named(tx: Transaction, name: str) -> list[Symbol]:
    """All symbols with exactly this name, in the order of paths and lines."""
    return [symbol_of(row) for row in tx.all(SYMBOLS + "WHERE s.name = ? ORDER BY f.path, s.line", (name,))]


def symbols_folded(tx: Transaction, part: str, *, limit: int) -> list[Symbol]:
    """Symbols whose folded name (`naming.fold`) contains `part`, shortest names first; at most `limit`."""
    rows = tx.all(
        SYMBOLS + "WHERE instr(s.folded, ?) ORDER BY length(s.folded), s.exported DESC, f.path, s.line LIMIT ?",
        (part, limit),
    )
    return [symbol_of(row) for row in rows]


def symbol_with(tx: Transaction, symbol_id: int) -> Symbol | None:
    """The symbol with this id, None when its file was read again since."""
    row = tx.one(SYMBOLS + "WHERE s.id = ?", (symbol_id,))
    return symbol_of(row) if row else None


def imports_of(tx: Transaction, path: str) -> list[Import]:
    """Imports of the file at `path`, in the order of lines."""
    return [import_of(row) for row in tx.all(IMPORTS + "WHERE f.path = ? ORDER BY i.line, i.id", (path,))]


def imports_naming(tx: Transaction, name: str) -> list[Import]:
    """All imports of a symbol called `name`, from any module."""
    return [import_of(row) for row in tx.all(IMPORTS + "WHERE i.name = ? ORDER BY f.path, i.line", (name,))]


def references_to(tx: Transaction, name: str) -> list[Reference]:
    """All uses of a symbol called `name`, in the order of paths and lines."""
    return [reference_of(row) for row in tx.all(REFERENCES + "WHERE r.name = ? ORDER BY f.path, r.line", (name,))]


def file_of(row: Row) -> FileRecord:
    """Read a row of `FILES`."""
    return FileRecord(
        id=integer(row[0]),
        path=text(row[1]),
        language=text(row[2]),
        status=cast("FileStatus", text(row[3])),
        size=integer(row[4]),
        lines=integer(row[5]),
        content_hash=text(row[6]),
        is_test=bool(row[7]),
        note=text(row[8]),
    )


def symbol_of(row: Row) -> Symbol:
    """Read a row of `SYMBOLS`."""
    return Symbol(
        id=integer(row[0]),
        path=text(row[1]),
        name=text(row[2]),
        qualified_name=text(row[3]),
        kind=cast("SymbolKind", text(row[4])),
        line=integer(row[5]),
        end_line=integer(row[6]),
        column=integer(row[7]),
        signature=text(row[8]),
        exported=bool(row[9]),
        parent_id=None if row[10] is None else integer(row[10]),
    )


def import_of(row: Row) -> Import:
    """Read a row of `IMPORTS`."""
    return Import(
        path=text(row[0]),
        module=text(row[1]),
        name=text(row[2]),
        local=text(row[3]),
        line=integer(row[4]),
        resolved_path=None if row[5] is None else text(row[5]),
    )


def reference_of(row: Row) -> Reference:
    """Read a row of `REFERENCES`."""
    return Reference(
        path=text(row[0]),
        name=text(row[1]),
        receiver=text(row[2]),
        kind=cast("ReferenceKind", text(row[3])),
        line=integer(row[4]),
        column=integer(row[5]),
        symbol_id=None if row[6] is None else integer(row[6]),
        count=integer(row[7]),
    )
