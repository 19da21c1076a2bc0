"""Copying a constellation while it is used, and putting a copy in its place.

Owns: the steps that keep both files whole whatever fails between them, and where copies are. Must not know: which are
stored for how long, or what any table means. Everything here blocks: call it on a worker thread, or where there is no
loop.
"""

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import LiteralString

import apsw

from pattern_acp.db.driver import BUSY_BUDGET_SECONDS, ApswConnection, sync_folder
from pattern_acp.db.errors import DatabaseBusyError, DatabaseCorruptError, is_of_write, of_system, translate
from pattern_acp.db.migrate import load_migrations, schema_version
from pattern_acp.db.raw import connect, copy_database
from pattern_acp.db.transaction import Transaction

_MOST_PROBLEMS = 20


def quick_check(tx: Transaction) -> tuple[str, ...]:
    """Problems of the file's structure and of its foreign keys, at most 20 of each; empty when it is sound.

    Raises:
        DatabaseError: the file cannot be read at all.
    """
    return _check(tx, "PRAGMA quick_check(20)")


def full_check(tx: Transaction) -> tuple[str, ...]:
    """Problems as of `quick_check`, and of indexes that differ from their table; takes several times as long.

    Raises:
        DatabaseError: the file cannot be read at all.
    """
    return _check(tx, "PRAGMA integrity_check(20)")


def _check(tx: Transaction, pragma: LiteralString) -> tuple[str, ...]:
    structure = [str(row[0]) for row in tx.all(pragma) if row[0] != "ok"]
    references = [
        f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing"
        for row in tx.all("PRAGMA foreign_key_check")
    ]
    return (*structure, *references[:_MOST_PROBLEMS])


RESTORING = ".restoring"
"""Ends the name of a file that is about to take the place of the constellation."""

PART = ".part"
"""Ends the name of a copy that is not whole yet."""

FOLDER = "backups"
"""The folder of copies, beside the constellation."""

COMPANIONS = ("-wal", "-shm")
"""Endings of SQLite's files beside a database; the first may have commits that the file lacks."""

_SHARED_BYTES = (0x40000002, 510)
"""First byte and number of those that SQLite locks for reading (sqlite.org/lockingv3.html, os_unix.c); a connection to
a file with a write-ahead log holds one of them from its first statement until it is closed."""


def copies_of(path: Path) -> tuple[Path, ...]:
    """Everything beside the constellation that holds an earlier state of it.

    These are copies before migrations, and the folder of backups when there is something in it.
    """
    folder = path.parent / FOLDER
    filled = (folder,) if folder.is_dir() and any(folder.iterdir()) else ()
    return (*sorted(path.parent.glob(f"{path.stem}.*.backup.db")), *filled)


def back_up(source: Path, target: Path, *, between: Callable[[], object] = lambda: None) -> int:
    """Copy what is committed in `source` to the new file `target`; the size in bytes.

    Others may write meanwhile: the copy is the state of one moment. `target` appears only once it is whole, was checked
    and is on the disk; it is private to the user and needs no other file beside it. `between` is called every 4 MB;
    what it raises ends the copying, and nothing is left of it.

    Raises:
        FileExistsError: `target` is there already, or another process is making it.
        DatabaseError: `source` cannot be read, the copy is damaged as `source` is, or the disk is full.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, "it exists already", str(target))
    part = target.with_name(target.name + PART)
    with _written_by_us(part):
        if target.exists():
            # Another process has made it meanwhile.
            raise FileExistsError(errno.EEXIST, "it exists already", str(target))
        try:
            copy_database(source, part, between=between)
            _without_log(part)
        except apsw.Error as error:
            is_of_target = isinstance(error, apsw.FullError) or is_of_write(error)
            raise translate(error, target if is_of_target else source, copied=source) from error
        try:
            check_copy(part)
        except DatabaseCorruptError as error:
            raise translate(apsw.CorruptError("a copy of it did not pass the check"), source) from error
        _sync(part)
        size = part.stat().st_size
        part.replace(target)
        sync_folder(target.parent)
    return size


def check_copy(path: Path) -> int:
    """Check a copy from end to end; its schema version.

    Raises:
        DatabaseCorruptError: it is damaged, or holds nothing.
        DatabaseNewerError: a newer pattern-acp wrote it.
        DatabaseForeignError: it is a database of another program.
    """
    driver = ApswConnection(path, read_only=True, busy_seconds=BUSY_BUDGET_SECONDS)
    try:
        driver.open()
        version = schema_version(driver, load_migrations())
        problems = driver.read(quick_check) if version else ("it holds nothing",)
    except DatabaseCorruptError as error:
        # Its own sentence is about a constellation in use, and how to get that back.
        raise DatabaseCorruptError(
            f"The copy {path} cannot be used (it is damaged, or no database); choose another one."
        ) from error
    finally:
        driver.close()
    if problems:
        raise DatabaseCorruptError(f"The copy {path} cannot be used ({problems[0]}); choose another one.")
    return version


def put_in_place(copy: Path, target: Path, *, safety: Path) -> None:
    """Make `target` hold what `copy` holds, after saving all that was there in the new folder `safety`.

    `copy` is to be checked before (`check_copy`). At no moment is there neither the old file nor the new one, and the
    write-ahead log of the old one never is beside the new one.

    Raises:
        DatabaseBusyError: another process has `target` open.
        DatabaseError: a file cannot be read or written; `target` is then as it was, or, when only its write-ahead log
            was moved, that lies in `safety`.
    """
    # SQLite follows a link too, and has the log beside the file that it names.
    target = Path(os.path.realpath(target))
    fresh = target.with_name(target.name + RESTORING)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with alone(target):
            fresh.unlink(missing_ok=True)
            with _written_by_us(fresh):
                shutil.copyfile(copy, fresh)
                _sync(fresh)
                _keep(target, safety)
                fresh.replace(target)
                sync_folder(target.parent)
    except PermissionError as error:
        if sys.platform == "win32":
            raise _held(target) from error
        raise translate(apsw.PermissionsError(error.strerror or "not allowed"), target) from error
    except OSError as error:
        raise translate(of_system(error), target) from error


@contextlib.contextmanager
def alone(path: Path) -> Generator[None]:
    """Keep other processes from using the database `path` in this block; a file that is not there keeps none out.

    Only for a process that has no connection to the file: closing any descriptor of it would drop its own locks.

    Raises:
        DatabaseBusyError: another process has it open.
    """
    if sys.platform == "win32" or not path.exists():
        # Windows refuses to replace a file that is open.
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDWR)
    try:
        first, count = _SHARED_BYTES
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise
            raise _held(path) from error
        yield
    finally:
        os.close(descriptor)


def _held(path: Path) -> DatabaseBusyError:
    return DatabaseBusyError(
        f"The constellation {path} is open in another process; close the editors and terminals that use it, then try "
        "again. Nothing was changed."
    )


def _keep(target: Path, safety: Path) -> None:
    """Copy the database, and move its companions, into `safety`."""
    if not target.exists():
        return
    safety.mkdir(parents=True, mode=0o700)
    copy = safety / target.name
    shutil.copy2(target, copy)
    _sync(copy)
    for ending in COMPANIONS:
        companion = target.with_name(target.name + ending)
        if companion.exists():
            companion.replace(safety / companion.name)
    sync_folder(safety)
    sync_folder(target.parent)


@contextlib.contextmanager
def _written_by_us(path: Path) -> Generator[None]:
    """Make the new private file `path`, and take it away again unless the block gave it another name.

    As soon as it has another name, the next process may make a file of this one, which is not touched.

    Raises:
        FileExistsError: it is there already.
        DatabaseError: it cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        raise
    except OSError as error:
        raise translate(of_system(error), path) from error
    try:
        made = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    try:
        yield
    except BaseException:
        # Ctrl-C too leaves no half of a copy; a file that another one put there since then is not ours.
        if path.exists() and os.path.samestat(made, path.stat()):
            for ending in ("", "-journal", *COMPANIONS):
                path.with_name(path.name + ending).unlink(missing_ok=True)
        raise


def _without_log(path: Path) -> None:
    """Let the copy stand alone: a file in WAL mode wants to write beside itself even to be read."""
    raw = connect(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        raw.pragma("journal_mode", "DELETE")
    finally:
        raw.close()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
