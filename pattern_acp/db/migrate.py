"""Bring a constellation's schema to the version that this program knows.

Owns: numbered forward-only migrations, the two header numbers, refusing what is newer or not ours, and the backup
before a change. Must not know: what any table means. Runs on the connection's own thread.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import apsw
from msgspec import Struct

from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.errors import DatabaseForeignError, DatabaseNewerError, translate
from pattern_acp.db.raw import Row, copy_database
from pattern_acp.db.transaction import Transaction

APPLICATION_ID = 0x50414350
"""`PACP` in the file's header: what tells a constellation from any other SQLite file."""

_INSERT_BACKUP = "INSERT INTO backups (at_ms, from_version, to_version, path) VALUES (?, ?, ?, ?)"


class Migration(Struct, frozen=True):
    """One step, which brings the schema from `version - 1` to `version`. `source`: the SQL, or its file."""

    version: int
    name: str
    source: str | Path

    @property
    def sql(self) -> str:
        """The statements. A file is read each time, which a start without a migration does without."""
        return self.source if isinstance(self.source, str) else self.source.read_text(encoding="utf-8")


@cache
def load_migrations() -> tuple[Migration, ...]:
    """The migrations that ship with this program, oldest first: `migrations/NNNN_name.sql`."""
    files = sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
    return tuple(Migration(int(file.name.partition("_")[0]), file.stem, file) for file in files)


def whole_schema() -> str:
    """The statements that all of `load_migrations` come to, in a third of their time: schema.sql without comments."""
    lines = (Path(__file__).parent / "schema.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line.partition("--")[0].rstrip() for line in lines)


def schema_version(connection: ApswConnection, migrations: Sequence[Migration]) -> int:
    """The version of the open file, after checking that this program may use it. 0: it is empty.

    Raises:
        DatabaseNewerError: the version is above the newest of `migrations`.
        DatabaseForeignError: the file belongs to another program.
    """

    def check(transaction: Transaction) -> int:
        return _check_header(transaction, connection.path, known=migrations[-1].version)

    return connection.read(check)


def migrate(connection: ApswConnection, migrations: Sequence[Migration], *, now_ms: int) -> int:
    """Apply what is missing, all in one transaction, and return the version then reached.

    An empty file gets the whole schema at once where `migrations` are those of `load_migrations`.

    Safe when several processes do it at once: the version is read again under the write lock, and the file is copied
    first, under that same lock, when it held anything.

    Raises:
        DatabaseNewerError: see `schema_version`.
        DatabaseForeignError: see `schema_version`.
        DatabaseError: a migration or the backup failed; the file is as it was.
    """
    newest = migrations[-1].version
    if schema_version(connection, migrations) == newest:
        return newest

    def apply(transaction: Transaction) -> None:
        current = _check_header(transaction, connection.path, known=newest)
        missing = [migration for migration in migrations if migration.version > current]
        if not missing:
            return
        backup = _back_up(connection, current, now_ms) if current else None
        is_new = not current and migrations is load_migrations()
        for script in (whole_schema(),) if is_new else (migration.sql for migration in missing):
            # One apsw call runs every statement of the script.
            connection.raw.execute(script).fetchall()
        connection.raw.pragma("application_id", APPLICATION_ID)
        connection.raw.pragma("user_version", newest)
        if backup is not None:
            transaction.insert(_INSERT_BACKUP, (now_ms, current, newest, backup.name))

    connection.write(apply)
    return newest


def _check_header(transaction: Transaction, path: Path, *, known: int) -> int:
    version = _number(transaction.one("PRAGMA user_version"))
    application = _number(transaction.one("PRAGMA application_id"))
    if application == APPLICATION_ID:
        if version > known:
            raise DatabaseNewerError(path, found=version, known=known)
        return version
    if version or application or transaction.one("SELECT 1 FROM sqlite_schema LIMIT 1"):
        raise DatabaseForeignError(
            f"The file {path} is a database of another program; choose another constellation with --constellation."
        )
    return 0


def _number(row: Row | None) -> int:
    return int(row[0]) if row and isinstance(row[0], int) else 0


def _back_up(connection: ApswConnection, version: int, now_ms: int) -> Path:
    """Copy the file as last committed; the write lock that the caller holds keeps it from changing meanwhile."""
    path = connection.path
    target = path.with_name(f"{path.stem}.v{version}.{now_ms}.backup.db")
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        copy_database(path, target)
    except OSError as error:
        raise translate(apsw.CantOpenError(error.strerror or type(error).__name__), target) from error
    except apsw.Error as error:
        raise translate(error, target, copied=path) from error
    return target
