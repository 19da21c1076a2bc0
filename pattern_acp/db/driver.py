"""One apsw connection, set up the way a constellation needs it, and the fair lock of its writers.

Owns: opening the file (created private to the user), noticing that other files have its names or that a newer program
changed the schema, pragmas, the vector extension, the bounds of a transaction. Must
not know: tables, threads or the event loop. Every method runs on the connection's own thread.
"""

import importlib.util
import logging
import os
import random
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw
from msgspec import Struct

from pattern_acp.db.errors import DatabaseBusyError, DatabaseNewerError, DatabaseUnreachableError, of_system, translate
from pattern_acp.db.raw import RawConnection, connect
from pattern_acp.db.transaction import Transaction, open_transaction
from pattern_acp.domain.errors import DatabaseError

_ENDINGS = ("", "-wal", "-shm")
"""The file, its write-ahead log, and the memory in which processes that share it agree. The one who opens the name
after one of them was removed gets another, so what we continued writing would be in a file that nobody reads."""

Identity = tuple[int, int] | None


class OpenedFile:
    """The constellation at `path`, as the connection that is opened now found it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Spelled once: each transaction looks at them twice.
        self._names = tuple(f"{path}{ending}" for ending in _ENDINGS)
        self._identities = self._now()
        self.version: int | None = None
        """The schema version that this program works with; None until it is known, as in a migration."""

    def require_files(self) -> None:
        """Nothing, when each file still has its name. Asked before a transaction begins and again before its commit.

        Raises:
            DatabaseUnreachableError: one was deleted, moved or replaced; what is written would go with the process.
        """
        if self._now() != self._identities:
            raise DatabaseUnreachableError(
                f"The constellation {self._path} was deleted, moved or replaced while pattern-acp had it open, so "
                "nothing can be saved; start pattern-acp again."
            )

    def may_move_log(self) -> bool:
        """Return whether our log may still be moved into the file, as SQLite does when the last connection closes.

        Not once others may have begun a log of their own: ours would be written over what theirs brought. A log that
        alone was deleted is still ours: the one who had opened the file since had made a new one, and left it to us.
        """
        now = self._now()
        return now == self._identities or now == (self._identities[0], None, self._identities[2])

    def _now(self) -> tuple[Identity, ...]:
        return tuple(map(_identity, self._names))

    def require_version(self, found: int) -> None:
        """Nothing, unless a newer program has changed the schema since. Raises DatabaseNewerError where it has."""
        if self.version is not None and found > self.version:
            raise DatabaseNewerError(self._path, found=found, known=self.version, is_open=True)


def _identity(name: str) -> Identity:
    try:
        status = os.stat(name)  # noqa: PTH116  # before every commit: a Path each would cost as much again
    except OSError:
        return None
    return status.st_dev, status.st_ino


def sync_folder(path: Path) -> None:
    """Make names in a folder last; where a system cannot, its file system does it in its own time.

    Raises:
        OSError: the folder cannot be opened or written.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


STALE_NS = 200_000_000
"""Nanoseconds after which a note whose owner did not look is passed over: what a killed process costs the others, once.
A process that waits looks every 20 ms at most, and on an overloaded machine every 100 ms."""

_FORGOTTEN_NS = 5_000_000_000
"""Nanoseconds after which such a note is wiped out."""

PLACES = 64
"""Processes that can be noted at a time; any more of them ask at once."""

_NOTE = struct.Struct("<QQQ")
"""The owner (a random number; 0: nobody), when it came and when it last looked, in nanoseconds since 1970."""

_SIZE = PLACES * _NOTE.size
_NOBODY = bytes(_SIZE)

_FIRST_PAUSE = 0.0005
_PAUSE_BEHIND = 0.001
_LONGEST_PAUSE = 0.02


class _Note(Struct, frozen=True):
    place: int
    owner: int
    since: int
    seen: int


class FairWriteLock:
    """One connection's view of the queue of a constellation. Used on one thread; `close` when done.

    `now` gives nanoseconds since 1970: the one clock that processes share on every system, containers included.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`path` is the constellation's; the queue's file is beside it, and made when somebody first has to wait."""
        self._path = path.with_name(f"{path.name}-queue")
        self._now = now
        self._sleep = sleep
        self._descriptor: int | None = None
        self._owner = random.getrandbits(63) + 1
        self._since = 0
        self._place: int | None = None

    def acquire(self, attempt: Callable[[], bool], *, seconds: float, is_stopped: Callable[[], bool]) -> bool:
        """Call `attempt` when it is this one's turn, until it succeeds. False: `seconds` are over, or it was stopped.

        At once when nobody waits. Whatever `attempt` raises reaches the caller.
        """
        if not self._others(self._read()) and attempt():
            return True
        deadline = time.monotonic() + seconds
        self.join()
        try:
            while not is_stopped():
                ahead = self.ahead()
                if ahead == 0 and attempt():
                    return True
                if time.monotonic() >= deadline:
                    return False
                self._sleep(_pause(ahead))
            return False
        finally:
            self.leave()

    def join(self) -> None:
        """Note that this one waits, from now on."""
        self._since = self._now()
        self._open(create=True)
        self._take_place(self._read())

    def ahead(self) -> int:
        """Count the others that have waited longer, and show them that this one is still there."""
        notes = self._read()
        mine = next((note for note in notes if note.place == self._place and note.owner == self._owner), None)
        if mine is None:
            # Two that came in the same moment chose one place, or this process was suspended for long.
            self._take_place(notes)
        else:
            self._write(mine.place, self._owner, self._since, self._now())
        return sum((note.since, note.owner) < (self._since, self._owner) for note in self._others(notes))

    def leave(self) -> None:
        """Take the note away; harmless without one."""
        place, self._place = self._place, None
        if place is not None and any(note.place == place and note.owner == self._owner for note in self._read()):
            self._write(place, 0, 0, 0)

    def close(self) -> None:
        """Let go of the file; harmless when closed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _others(self, notes: Sequence[_Note]) -> list[_Note]:
        """Those who wait besides this one and are alive."""
        if not notes:
            return []
        now = self._now()
        return [note for note in notes if note.owner != self._owner and abs(now - note.seen) <= STALE_NS]

    def _take_place(self, notes: Sequence[_Note]) -> None:
        now = self._now()
        taken = {note.place for note in notes if abs(now - note.seen) <= STALE_NS}
        free = [place for place in range(PLACES) if place not in taken]
        self._place = random.choice(free) if free else None  # noqa: S311  # guards nothing
        if self._place is not None:
            self._write(self._place, self._owner, self._since, now)
        for note in notes:
            if abs(now - note.seen) > _FORGOTTEN_NS and note.place != self._place:
                self._write(note.place, 0, 0, 0)

    def _open(self, *, create: bool) -> int | None:
        if self._descriptor is None:
            flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (os.O_CREAT if create else 0)
            try:
                self._descriptor = os.open(self._path, flags, 0o600)
            except OSError:
                return None
        return self._descriptor

    def _read(self) -> list[_Note]:
        """All notes; none when the file cannot be read."""
        descriptor = self._open(create=False)
        if descriptor is None:
            return []
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = os.read(descriptor, _SIZE)
        except OSError:
            return []
        if data == _NOBODY[: len(data)]:
            return []
        whole = data[: len(data) // _NOTE.size * _NOTE.size]
        notes = enumerate(_NOTE.iter_unpack(whole))
        return [_Note(place, owner, since, seen) for place, (owner, since, seen) in notes if owner]

    def _write(self, place: int, owner: int, since: int, seen: int) -> None:
        descriptor = self._open(create=False)
        if descriptor is None:
            return
        try:
            os.lseek(descriptor, place * _NOTE.size, os.SEEK_SET)
            os.write(descriptor, _NOTE.pack(owner, since, seen))
        except OSError:
            # A full disk: the others do not see this one, which then waits for its luck.
            return


def _pause(ahead: int) -> float:
    longest = min(_FIRST_PAUSE + ahead * _PAUSE_BEHIND, _LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)  # noqa: S311  # spreads processes in time, guards nothing


T = TypeVar("T")

logger = logging.getLogger(__name__)

BUSY_BUDGET_SECONDS = 15.0
"""Longest wait for another process's lock. Four processes under load waited up to 4.2 s (memory.md section 3)."""

_BUSY_TIMEOUT_MS = 250
"""SQLite's own wait for a lock where several may have it; who writes next is decided by `db/driver.py`."""

_REWRITE_TIMEOUT_MS = 5_000
"""Longest wait for other processes when the file is written again; the one who asked for it is waiting too."""

_LOG_PAGES = 1_000
"""Pages of 4 KB by which the write-ahead log grows before it is moved into the file."""

_READERS_TIMEOUT_MS = 100
"""Longest wait for those who still read from the log, so that it can start over. Nobody writes meanwhile."""

_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05

_LONG_WAIT_SECONDS = 1.0
"""From here on a wait is noted in the log, for the one who wonders why something was slow."""

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
its size: of a thousand turns, the writer held 34 MB that nothing read (docs/reference/development/benchmarks.md)."""


class ApswConnection:
    """A connection that opens late, so that a failure to open is an ordinary error of an ordinary call.

    `open`, `write`, `read` and `close` are all that is used; aiosqlite itself only ever calls `close`.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool,
        busy_seconds: float,
        query_only: bool = False,
        is_lean: bool = False,
        shortens_log: bool = False,
    ) -> None:
        """`is_lean` takes little memory, at the price of slower searches.

        With `shortens_log` its user calls `shorten_log` after writes; otherwise SQLite does the same within commits.
        """
        self.path = path
        self._is_lean = is_lean
        self._shortens_log = shortens_log
        self.read_only = read_only
        self.query_only = query_only or read_only
        self.vector_version: str | None = None
        self._busy_seconds = busy_seconds
        self._raw: RawConnection | None = None
        self._opened: OpenedFile | None = None
        self._write_lock = FairWriteLock(path)
        self._is_stopped = False
        self._log_pages = 0
        self._long_log = _LOG_PAGES
        """Pages from which the log is moved."""

    @property
    def raw(self) -> RawConnection:
        """The driver's connection; for `db/` only."""
        if self._raw is None:
            raise apsw.ConnectionClosedError("the connection is closed")
        return self._raw

    @property
    def opened(self) -> OpenedFile:
        """The file that it was opened on; for `db/` only."""
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
            raise translate(of_system(error), self.path) from error

    def _configure(self, raw: RawConnection) -> None:
        raw.set_busy_timeout(_BUSY_TIMEOUT_MS)
        for name, value in _PRAGMAS:
            _wait_while_busy(partial(raw.pragma, name, value), self._busy_seconds)
        raw.pragma("cache_size", _READER_CACHE if self.query_only and not self._is_lean else _WRITER_CACHE)
        if self._is_lean:
            raw.pragma("mmap_size", 0)
        raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self.vector_version = _load_vectors(raw)
        # The first statement that reads the header: a file that is no database fails here, not in a store. The first to
        # come after a crash reads the whole log again, and the last to leave moves it; both keep others out meanwhile.
        _wait_while_busy(lambda: raw.pragma("schema_version"), self._busy_seconds)
        if not self.read_only and raw.pragma("journal_mode") != "wal":
            # Two processes that create one file both want this; SQLite does not wait for a change of the mode.
            _wait_while_busy(lambda: raw.pragma("journal_mode", "WAL"), self._busy_seconds)
            # Makes the log, so that all files are there whose identity `OpenedFile` keeps.
            raw.pragma("schema_version")
        if self.query_only:
            raw.pragma("query_only", 1)
        elif self._shortens_log:
            raw.set_wal_hook(self._note_log)

    def write(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` inside BEGIN IMMEDIATE … COMMIT; roll back on any exception.

        Raises:
            DatabaseError: the lock was not free in time, or a statement or the commit failed.
        """
        self.opened.require_files()
        began = time.monotonic()
        if not self._write_lock.acquire(
            self._begin_write, seconds=self._busy_seconds, is_stopped=lambda: self._is_stopped
        ):
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
                # A function that has read around damage learns of it once more here.
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
        """Move what the write-ahead log holds into the file, as far as readers allow."""
        self.opened.require_files()
        try:
            self.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def shorten_log(self) -> None:
        """Move a write-ahead log that has become long into the file, and let it start over; otherwise do nothing.

        For when nobody waits: it writes 4 MB. A log starts over when all of it is in the file and nobody reads from it.
        Where several processes always read, that moment has to be waited for. SQLite's own way is to move what is new
        with each further commit until it comes by chance: that was every fifth commit of eight processes.
        """
        if self._raw is None or self._log_pages < self._long_log:
            return
        self._long_log = self._log_pages + _LOG_PAGES
        try:
            # Most of it, while others may write.
            self.checkpoint()
            self._raw.set_busy_timeout(_READERS_TIMEOUT_MS)
            try:
                self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            finally:
                self._raw.set_busy_timeout(_BUSY_TIMEOUT_MS)
        except (DatabaseBusyError, apsw.BusyError):
            # Another process does it, or somebody reads for long; it is tried again when the log has grown.
            return
        except (DatabaseError, apsw.Error) as error:
            # Nothing is lost: all of it is in the log. What is wrong with the file, the next write says.
            logger.warning("the write-ahead log could not be moved into the constellation: %s", type(error).__name__)

    def _note_log(self, _connection: object, _name: str, pages: int) -> int:
        if pages < self._log_pages:
            # It started over.
            self._long_log = _LOG_PAGES
        self._log_pages = pages
        return apsw.SQLITE_OK

    def close(self) -> None:
        """Close; harmless when closed.

        Without `PRAGMA optimize`: statistics of a constellation that was small made SQLite scan whole tables once it
        had grown, and the statements are written for the indexes that there are.
        """
        raw, self._raw = self._raw, None
        self._write_lock.close()
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
    """Write the whole file again, without anything that was deleted, and empty the write-ahead log.

    False: other processes were in the way for too long, and something deleted may be left.

    Raises:
        DatabaseError: the disk has no space for the copy, or the file cannot be written.
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
