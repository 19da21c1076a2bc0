"""One apsw connection, set up the way a constellation needs it.

Owns: opening the file (created private to the user), pragmas, the vector extension, the bounds of a transaction. Must
not know: tables, threads or the event loop. Every method runs on the connection's own thread.
"""

import errno
import importlib.util
import logging
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from pattern_acp.db.errors import translate
from pattern_acp.db.files import OpenedFile, sync_folder
from pattern_acp.db.queue import WriteQueue
from pattern_acp.db.raw import RawConnection, connect
from pattern_acp.db.transaction import Transaction, open_transaction

T = TypeVar("T")

logger = logging.getLogger(__name__)

BUSY_BUDGET_SECONDS = 15.0
"""Longest wait for another process's lock. Four processes under load waited up to 4.2 s (memory.md section 3)."""

_BUSY_TIMEOUT_MS = 250
"""SQLite's own wait for a lock where several may have it; who writes next is decided by `db/queue.py`."""

_REWRITE_TIMEOUT_MS = 5_000
"""Longest wait for other processes when the file is written anew; whoever asked for it is waiting too."""

_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05

_LONG_WAIT_SECONDS = 1.0
"""From here on a wait is noted in the log, for whoever wonders why something was slow."""

_PRAGMAS: tuple[tuple[str, int | str], ...] = (
    ("foreign_keys", 1),
    ("trusted_schema", 0),
    # FULL and no less: what was acknowledged also survives a power cut (ADR 0021).
    ("synchronous", "FULL"),
    # macOS alone: its fsync leaves data in the drive's own cache.
    ("fullfsync", 1),
    # Together with the reader's cache, halves the time of a vector search (memory.md section 0, item 7).
    ("mmap_size", 1 << 30),
    ("journal_size_limit", 8 << 20),
    ("temp_store", "MEMORY"),
)


_READER_CACHE = -65_536
_WRITER_CACHE = -8_192
"""Kilobytes, as negative numbers. Pages of the file itself are mapped, so a cache fills with what was written, up to
its size: of a thousand turns, the writer kept 34 MB that nothing read (docs/benchmarks.md)."""


class ApswConnection:
    """A connection that opens late, so that a failure to open is an ordinary error of an ordinary call.

    `open`, `write`, `read` and `close` are all that is used; aiosqlite itself only ever calls `close`.
    """

    def __init__(self, path: Path, *, read_only: bool, busy_seconds: float, query_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.query_only = query_only or read_only
        self.vector_version: str | None = None
        self._busy_seconds = busy_seconds
        self._raw: RawConnection | None = None
        self._opened: OpenedFile | None = None
        self._queue = WriteQueue(path)
        self._is_stopped = False

    @property
    def raw(self) -> RawConnection:
        """The driver's connection; for `db/` only."""
        if self._raw is None:
            raise apsw.ConnectionClosedError("the connection is closed")
        return self._raw

    @property
    def opened(self) -> OpenedFile:
        """What it was opened on; for `db/` only."""
        if self._opened is None:
            raise apsw.ConnectionClosedError("the connection is closed")
        return self._opened

    def open(self) -> None:
        """Open the file, creating it and its folder for this user alone when it may be created.

        Raises:
            DatabaseError: the file cannot be opened or is not a database.
        """
        try:
            if not self.read_only:
                _create_private(self.path)
            self._raw = _open_file(self.path, read_only=self.read_only, busy_seconds=self._busy_seconds)
            self._configure(self._raw)
            self._opened = OpenedFile(self.path)
        except apsw.Error as error:
            self.close()
            raise translate(error, self.path) from error
        except UnicodeEncodeError as error:
            # SQLite takes names in UTF-8 only.
            raise translate(apsw.CantOpenError("its name is not UTF-8 text"), self.path) from error
        except OSError as error:
            detail = error.strerror or type(error).__name__
            driver_error = apsw.FullError if error.errno == errno.ENOSPC else apsw.CantOpenError
            raise translate(driver_error(detail), self.path) from error

    def _configure(self, raw: RawConnection) -> None:
        raw.set_busy_timeout(_BUSY_TIMEOUT_MS)
        for name, value in _PRAGMAS:
            _wait_while_busy(partial(raw.pragma, name, value), self._busy_seconds)
        raw.pragma("cache_size", _READER_CACHE if self.query_only else _WRITER_CACHE)
        raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self.vector_version = _load_vectors(raw)
        # The first statement that reads the header: a file that is no database fails here, not in a store. The first to
        # come after a crash reads the whole log anew, and the last to leave moves it; both keep others out meanwhile.
        _wait_while_busy(lambda: raw.pragma("schema_version"), self._busy_seconds)
        if not self.read_only and raw.pragma("journal_mode") != "wal":
            # Two processes that create one file both want this; SQLite does not wait for a change of the mode.
            _wait_while_busy(lambda: raw.pragma("journal_mode", "WAL"), self._busy_seconds)
            # Makes the log, so that all files are there whose identity `OpenedFile` keeps.
            raw.pragma("schema_version")
        if self.query_only:
            raw.pragma("query_only", 1)

    def write(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` inside BEGIN IMMEDIATE … COMMIT; roll back on any exception.

        Raises:
            DatabaseError: the lock was not free in time, or a statement or the commit failed.
        """
        self.opened.require_files()
        began = time.monotonic()
        if not self._queue.in_turn(self._begin_write, seconds=self._busy_seconds, is_stopped=lambda: self._is_stopped):
            raise translate(apsw.BusyError(f"for longer than {time.monotonic() - began:.0f} s"), self.path)
        if (waited := time.monotonic() - began) >= _LONG_WAIT_SECONDS:
            logger.info("waited %.1f s for other processes to write", waited)
        return self._finish(function, before_commit=self.opened.require_files)

    def _begin_write(self) -> bool:
        """Begin, unless another process writes; does not wait for it."""
        raw = self.raw
        raw.set_busy_timeout(0)
        try:
            raw.execute("BEGIN IMMEDIATE")
        except (apsw.BusyError, apsw.LockedError):
            return False
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            raw.set_busy_timeout(_BUSY_TIMEOUT_MS)
        return True

    def read(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` on one snapshot of the file.

        Raises:
            DatabaseError: the file cannot be read, or `function` tried to write.
        """
        self._retry_while_busy(self._begin_snapshot)
        return self._finish(function, is_read=True)

    def _begin_snapshot(self) -> None:
        self.raw.execute("BEGIN")
        try:
            # A deferred transaction has no snapshot, and can still be refused, until its first read.
            self.opened.require_version(_stored_version(self.raw))
        except BaseException:
            self._roll_back()
            raise

    def _finish(
        self,
        function: Callable[[Transaction], T],
        before_commit: Callable[[], object] | None = None,
        *,
        is_read: bool = False,
    ) -> T:
        try:
            if not is_read:
                self.opened.require_version(_stored_version(self.raw))
            with open_transaction(self.raw, self.path) as transaction:
                result = function(transaction)
            if before_commit is not None:
                before_commit()
            try:
                self.raw.execute("COMMIT")
            except apsw.CorruptError:
                # A function that has read around damage is told of it once more here.
                if not is_read:
                    raise
                self._roll_back()
        except apsw.Error as error:
            self._roll_back()
            raise translate(error, self.path) from error
        except BaseException:
            self._roll_back()
            raise
        return result

    def _roll_back(self) -> None:
        # A full disk or a failed read has already rolled back inside SQLite.
        if self.raw.in_transaction:
            self.raw.execute("ROLLBACK")

    def _retry_while_busy(self, step: Callable[[], object]) -> None:
        try:
            _wait_while_busy(step, self._busy_seconds)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the file, as far as readers allow.

        Raises:
            DatabaseError: the file cannot be written.
        """
        self.opened.require_files()
        try:
            self.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def close(self) -> None:
        """Close; harmless when closed.

        Without `PRAGMA optimize`: statistics of a constellation that was small made SQLite scan whole tables once it
        had grown, and the statements are written for the indexes that there are.
        """
        raw, self._raw = self._raw, None
        self._queue.close()
        if raw is not None:
            if self._opened is not None and not self._opened.may_move_log():
                raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            try:
                raw.close()
            except apsw.Error as error:
                # It is closed all the same; what could not be moved into the file is still in the log.
                logger.warning("the last step of closing the constellation failed: %s", error)

    def interrupt(self) -> None:
        """Stop the running statement, and waiting for other processes; the one method that any thread may call."""
        self._is_stopped = True
        if self._raw is not None:
            self._raw.interrupt()


def _stored_version(raw: RawConnection) -> int:
    # As a statement, which is prepared once; `pragma` prepares its own each time.
    rows = raw.execute("PRAGMA user_version").fetchall()
    found = rows[0][0] if rows else 0
    return found if isinstance(found, int) else 0


def rewrite_file(connection: ApswConnection) -> bool:
    """Write the whole file anew, without anything that was deleted, and empty the write-ahead log.

    False: other processes were in the way for too long, and something deleted may be left.

    Raises:
        DatabaseError: there is no room for the copy, or the file cannot be written.
    """
    raw = connection.raw
    connection.opened.require_files()
    raw.set_busy_timeout(_REWRITE_TIMEOUT_MS)
    try:
        raw.execute("VACUUM").fetchall()
        raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    except apsw.Error as error:
        raise translate(error, connection.path) from error
    finally:
        raw.set_busy_timeout(_BUSY_TIMEOUT_MS)
    return True


def _wait_while_busy(step: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            step()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() >= deadline:
                raise
        else:
            return
        time.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # spreads processes in time, guards nothing
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _create_private(path: Path) -> None:
    made = [folder for folder in path.parents if not folder.exists()]
    if made:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in made:
            # SQLite does it for the folder that it makes files in.
            with suppress(OSError):
                sync_folder(folder.parent)
    try:
        # Only ever a new file: closing a second descriptor of an open database would drop SQLite's POSIX locks.
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    os.close(descriptor)


def _open_file(path: Path, *, read_only: bool, busy_seconds: float) -> RawConnection:
    if not read_only:
        return connect(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    raw = connect(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        _wait_while_busy(lambda: raw.pragma("schema_version"), busy_seconds)
    except apsw.CantOpenError:
        # A write-ahead log needs a shared-memory file; without one and without leave to make one, nobody is writing.
        raw.close()
        uri = f"{path.absolute().as_uri()}?immutable=1"
        return connect(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    return raw


def _load_vectors(raw: RawConnection) -> str | None:
    """Load sqlite-vec when its package is installed; its version, or None.

    Its path is looked up and not imported: the package's own import costs 81 ms (memory.md section 2.1).
    """
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        return None
    library = Path(spec.submodule_search_locations[0]) / "vec0"
    raw.enable_load_extension(enable=True)
    try:
        raw.load_extension(str(library))
        rows = raw.execute("SELECT vec_version()").fetchall()
    except apsw.Error:
        return None
    finally:
        raw.enable_load_extension(enable=False)
    return str(rows[0][0])
