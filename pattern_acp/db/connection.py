"""The database as the rest of the program sees it: one function is one transaction, on a connection's own thread.

Owns: the two connections of a constellation, and their threads. Must not know: any table. Why one function: cancelling
a task that awaits `BEGIN IMMEDIATE` leaves the lock held, so a transaction never spans two awaits.
"""

import asyncio
import logging
import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import aiosqlite
import anyio
import apsw
from msgspec import Struct

from pattern_acp.db.driver import BUSY_BUDGET_SECONDS, ApswConnection, rewrite_file
from pattern_acp.db.errors import DatabaseClosedError, DatabaseCorruptError, DatabaseForkedError, is_of_index
from pattern_acp.db.migrate import Migration, load_migrations, migrate, schema_version
from pattern_acp.db.raw import Params, Row, SqlValue
from pattern_acp.db.segment_files import delete_segments
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import Clock

if TYPE_CHECKING:
    import sqlite3
    from queue import SimpleQueue

    Queue = SimpleQueue[tuple[None, Callable[[], None]]]


T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 0.2
"""Longest that a cancelled caller continues waiting. Writes take 5 ms, but wait up to 15 s for a lock, and a cancel is
answered within 2 s (architecture.md, invariant 3)."""


class _Call(Generic[T]):
    """One call of a function on the connection's thread.

    It stores how the function ended, also for a caller that was cancelled, or whose event loop has ended, meanwhile.
    """

    def __init__(self, function: Callable[[ApswConnection], T], driver: ApswConnection) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._function = function
        self._driver = driver
        self._results: list[T] = []
        self._error: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._results.append(self._function(self._driver))
        except BaseException as error:  # noqa: BLE001  the caller gets it, whatever it is
            self._error = error
        # A loop that has ended takes no answer, and nobody waits for one.
        with suppress(RuntimeError):
            self.future.get_loop().call_soon_threadsafe(self._answer)
        # Behind the answer, since it takes as long as several commits.
        self._driver.shorten_log()

    def _answer(self) -> None:
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._results[0])

    @property
    def has_ended(self) -> bool:
        return bool(self._results) or self._error is not None

    def outcome(self) -> T:
        """The function's result. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def report_late(self, _fence: object) -> None:
        """Log an error that nobody waits for any longer, which must not pass in silence."""
        if self._error is not None:
            name = type(self._error).__name__
            logger.warning("a call of the database failed after its caller was cancelled: %s", name)


class WorkerConnection:
    """An `ApswConnection` on the thread of an `aiosqlite.Connection`, with one call that runs a function there.

    aiosqlite's own statement methods are not used: each of them is a step of its own between two awaits.
    """

    def __init__(self, driver: ApswConnection, patience_seconds: float) -> None:
        """See `worker_connections`, which alone makes them."""
        self._worker = aiosqlite.Connection(
            cast("Callable[[], sqlite3.Connection]", lambda: driver), iter_chunk_size=64
        )
        self._driver = driver
        self._process = os.getpid()
        self._patience_seconds = patience_seconds
        self._is_started = False
        self._closing: _Call[None] | None = None

    async def start(self) -> None:
        """Start the thread; the file is opened by the first call."""
        self._is_started = True
        with anyio.CancelScope(shield=True):
            await self._worker

    async def run(self, function: Callable[[ApswConnection], T]) -> T:
        """Run `function` on the connection's thread, to its end, whatever is cancelled meanwhile.

        Who is cancelled still waits for the end of an ordinary call, but not for another process's lock: after
        `patience_seconds` the cancellation continues, and the function runs in its turn all the same.

        Raises:
            DatabaseClosedError: the connection was closed before.
            DatabaseForkedError: this process is a fork of the one that opened it, and has not got its thread.
        """
        if self._is_copy():
            raise DatabaseForkedError(
                f"The constellation {self._driver.path} was opened by process {self._process}, of which this one is a "
                "copy; open it again in this process to use it."
            )
        if not self._is_started or self._closing is not None:
            raise DatabaseClosedError(
                f"The constellation {self._driver.path} is already closed; start pattern-acp again to use it."
            )
        call = self._enqueue(function)
        try:
            # Waited for without a shield or a timer, which would cost as much as a short transaction.
            return await call.future
        except asyncio.CancelledError:
            # That of a scope comes again at the next wait, so it may be put off; one of asyncio's own may not.
            if anyio.current_effective_deadline() != -math.inf:
                raise
        return await self._after_cancel(call)

    def _enqueue(self, function: Callable[[ApswConnection], T]) -> _Call[T]:
        call = _Call(function, self._driver)
        # The one thing of aiosqlite's that is not public (ADR 0002); tests/db/test_worker.py holds what is relied on.
        # Its public statements, and `_execute` below them, answer a future, and a loop that ended meanwhile kills the
        # thread then, together with the calls behind.
        queue = cast(
            "Queue",
            self._worker._tx,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
        )
        queue.put_nowait((None, call))
        return call

    async def _after_cancel(self, call: _Call[T]) -> T:
        # The thread takes one thing after the other: when this is done, the call is.
        behind = self._enqueue(lambda _: None).future
        with anyio.CancelScope(shield=True):
            await asyncio.wait((behind,), timeout=self._patience_seconds)
        if not call.has_ended:
            behind.add_done_callback(call.report_late)
            await anyio.sleep_forever()
        return call.outcome()

    async def close_within(self, seconds: float) -> bool:
        """Close after what is queued, stopping a running statement when time is up. False: it did not close."""
        if self._is_copy() or not self._is_started:
            return True  # the process that opened it closes it
        if self._closing is None:
            self._closing = self._enqueue(self._close)
        with anyio.CancelScope(shield=True):
            await asyncio.wait((self._closing.future,), timeout=seconds / 2)
            if not self._closing.has_ended:
                self._driver.interrupt()
                await asyncio.wait((self._closing.future,), timeout=seconds / 2)
        if self._closing.has_ended:
            self._closing.outcome()
        return self._closing.has_ended

    def _close(self, driver: ApswConnection) -> None:
        try:
            driver.close()
        finally:
            # On its own thread, where no loop runs, it sends no answer to one, which may have ended by then.
            self._worker.stop()  # pyright: ignore[reportUnknownMemberType]

    def _is_copy(self) -> bool:
        """Return whether this process was forked from the one that opened the file.

        It must not use the connections and locks of that one (sqlite.org/howtocorrupt.html, section 2.6), and has not
        got its threads.
        """
        return os.getpid() != self._process


def worker_connections(
    *drivers: ApswConnection, patience_seconds: float = _PATIENCE_SECONDS
) -> tuple[WorkerConnection, ...]:
    """A connection for each driver. `patience_seconds` is the longest that a cancelled caller continues waiting."""
    made: list[WorkerConnection] = []
    # A thread that is not a daemon keeps an unclosed process alive for ever (aiosqlite#290); a thread is one where the
    # thread that makes it is one.
    maker = threading.Thread(
        target=lambda: made.extend(WorkerConnection(driver, patience_seconds) for driver in drivers), daemon=True
    )
    maker.start()
    maker.join()
    return tuple(made)


__all__ = ["Database", "DatabaseFacts", "Params", "Row", "SqlValue", "Transaction", "open_database", "read_file"]


_SEGMENTS_SECONDS = 2.0
"""Longest wait for a process that is writing segments, when they are to be deleted."""

_CLOSE_SECONDS = 1.0
"""Longest wait for a connection to close; the whole program has 2 s after its stdin ends (invariant 9)."""


class DatabaseFacts(Struct, frozen=True):
    """Facts about the database, for `doctor`."""

    path: Path
    sqlite_version: str
    vector_version: str | None
    """Version of sqlite-vec; None when it is not installed or does not load."""
    fts5: bool
    schema_version: int
    read_only: bool


class Database:
    """An open constellation: one connection that writes and one that reads, so that a reader never waits."""

    def __init__(self, writer: WorkerConnection, reader: WorkerConnection, facts: DatabaseFacts) -> None:
        self._writer = writer
        self._reader = reader
        self.facts = facts
        self.writes = 0
        """Transactions so far that others of this process may wait for; see `next_write`."""
        self._written = anyio.Event()
        self._damage = ""

    @property
    def path(self) -> Path:
        """The constellation's file."""
        return self.facts.path

    @property
    def damage(self) -> str:
        """A sentence when the file was found to be damaged: nothing is written any more; empty while it is sound."""
        return self._damage

    async def write(self, function: Callable[[Transaction], T], *, quietly: bool = False) -> T:
        """Run `function` as one write transaction and return what it returns, after the commit.

        One that runs `quietly`, such as the renewal of a lease, wakes nobody who waits for the next write.

        It runs on another thread, so it must touch nothing that other tasks change, and it should take less than 5 ms.
        Any exception rolls back. Cancellation does not reach it: a caller that is cancelled meanwhile has still
        written, or will have once another process lets go of the lock; later calls come after it.

        Raises:
            DatabaseError: the lock was not free in time, or a statement or the commit failed; nothing was written.
            DatabaseCorruptError: the file is damaged, and was perhaps found to be so before.
        """
        if self._damage:
            # What is built on damage makes more of it; what can be read still is.
            raise DatabaseCorruptError(self._damage)
        try:
            return await self._noticing(self._writer, lambda driver: driver.write(function))
        finally:
            if not quietly:
                self.writes += 1
                self._written.set()
                self._written = anyio.Event()

    async def next_write(self, seen: int) -> None:
        """Wait until this process has written more than the `seen` times."""
        while self.writes <= seen:
            await self._written.wait()

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` on one snapshot, which holds every write that was awaited before.

        Raises:
            DatabaseError: the file cannot be read, or `function` tried to write.
        """
        return await self._noticing(self._reader, lambda driver: driver.read(function))

    async def _noticing(self, connection: WorkerConnection, function: Callable[[ApswConnection], T]) -> T:
        try:
            return await connection.run(function)
        except DatabaseCorruptError as error:
            if not is_of_index(error):
                self._damage = error.sentence
            raise

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the file, as far as that needs no waiting."""
        await self._writer.run(ApswConnection.checkpoint)

    async def rewrite(self) -> bool:
        """Write the whole file again, so that nothing deleted is left in it, in its write-ahead log or in its segments.

        False: other processes were in the way, and something may be left. Takes as long as writing the file does. The
        segments are deleted; the one who keeps them writes them again.

        Raises:
            DatabaseError: the disk has no space for the copy, or the file cannot be written.
        """
        return await self._writer.run(_rewrite)

    async def close(self) -> bool:
        """Close both connections; harmless when closed. False: one did not close in time and was abandoned."""
        reader_closed = await self._reader.close_within(_CLOSE_SECONDS / 2)
        writer_closed = await self._writer.close_within(_CLOSE_SECONDS)
        return reader_closed and writer_closed


@asynccontextmanager
async def open_database(
    path: Path,
    *,
    clock: Clock,
    read_only: bool = False,
    busy_seconds: float = BUSY_BUDGET_SECONDS,
    migrations: Sequence[Migration] | None = None,
    is_lean: bool = False,
) -> AsyncGenerator[Database, None]:
    """Open the constellation at `path`, creating or migrating it unless `read_only`, and close it at the end.

    `busy_seconds` is the longest wait for another process's lock; `migrations` replaces the shipped ones, for tests.
    `is_lean` is for what goes through all of a file once: none of it is mapped, so that its size costs no memory.

    Raises:
        DatabaseError: a subclass that says what is wrong and what to do.
    """
    steps = load_migrations() if migrations is None else migrations
    now_ms = clock.now_ms()

    def prepare(driver: ApswConnection) -> int:
        driver.open()
        version = schema_version(driver, steps) if read_only else migrate(driver, steps, now_ms=now_ms)
        driver.opened.version = version
        return version

    def open_beside(driver: ApswConnection) -> DatabaseFacts:
        driver.open()
        driver.opened.version = version
        return _facts(driver, version)

    writer, reader = worker_connections(
        ApswConnection(path, read_only=read_only, busy_seconds=busy_seconds, is_lean=is_lean, shortens_log=True),
        ApswConnection(path, read_only=read_only, busy_seconds=busy_seconds, query_only=True, is_lean=is_lean),
    )
    database: Database | None = None
    try:
        await writer.start()
        version = await writer.run(prepare)
        await reader.start()
        database = Database(writer, reader, await reader.run(open_beside))
        yield database
    finally:
        await reader.close_within(_CLOSE_SECONDS / 2)
        await writer.close_within(_CLOSE_SECONDS)


@asynccontextmanager
async def open_for_reading(path: Path, *, clock: Clock) -> AsyncGenerator[Database, None]:
    """Open the constellation at `path` to read it as this program knows it.

    A file that an older version used last is migrated first, since our queries name columns that it has not.

    Raises:
        DatabaseError: a subclass that says what is wrong and what to do.
    """
    newest = load_migrations()[-1].version
    async with open_database(path, clock=clock, read_only=True) as database:
        if database.facts.schema_version == newest:
            yield database
            return
    async with open_database(path, clock=clock) as migrated:
        yield migrated


class FileReader:
    """A connection of a thread of its own, which reads one snapshot after another."""

    def __init__(self, driver: ApswConnection) -> None:
        self._driver = driver

    def read(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` on one snapshot.

        Raises:
            DatabaseError: the file cannot be read, or `function` tried to write.
        """
        return self._driver.read(function)


@contextmanager
def reading_file(path: Path, *, is_lean: bool = False) -> Generator[FileReader]:
    """Read the constellation at `path` on this thread, for as long as the context lasts; see `open_database`."""
    driver = ApswConnection(path, read_only=True, busy_seconds=BUSY_BUDGET_SECONDS, is_lean=is_lean)
    try:
        driver.open()
        yield FileReader(driver)
    finally:
        driver.close()


def read_file(path: Path, function: Callable[[Transaction], T]) -> T:
    """Run `function` on one snapshot of the constellation at `path`, on this thread: for a process that has no loop.

    Raises:
        DatabaseError: the file cannot be read, or `function` tried to write.
    """
    with reading_file(path) as file:
        return file.read(function)


def change_file(path: Path, function: Callable[[Transaction], T]) -> T:
    """Run `function` as one write transaction on the file at `path`, as it is, on this thread.

    For a process that has no loop. Nothing is migrated.

    Raises:
        DatabaseError: see `Database.write`.
    """
    driver = ApswConnection(path, read_only=False, busy_seconds=BUSY_BUDGET_SECONDS)
    try:
        driver.open()
        return driver.write(function)
    finally:
        driver.close()


def rewrite_in_place(path: Path) -> bool:
    """Write the file at `path` again without what was deleted in it, on this thread; segments stay.

    False: other processes were in the way for too long.

    Raises:
        DatabaseError: the disk has no space for the copy, or the file cannot be written.
    """
    driver = ApswConnection(path, read_only=False, busy_seconds=BUSY_BUDGET_SECONDS)
    try:
        driver.open()
        return rewrite_file(driver)
    finally:
        driver.close()


def _rewrite(driver: ApswConnection) -> bool:
    try:
        gone = delete_segments(driver.path, seconds=_SEGMENTS_SECONDS)
    except OSError:
        logger.warning("The segments of %s could not be deleted.", driver.path, exc_info=True)
        gone = False
    return rewrite_file(driver) and gone


def make_file(
    path: Path,
    version: int,
    fill: Callable[[Transaction], T],
    finish: Callable[[Transaction], object],
    *,
    now_ms: int,
) -> T:
    """Make the new constellation `path` with the schema of `version`, fill it, bring it up to date, and finish it.

    Raises:
        DatabaseError: it cannot be written, or what it was filled with breaks a rule of the schema.
    """
    steps = load_migrations()
    driver = ApswConnection(path, read_only=False, busy_seconds=BUSY_BUDGET_SECONDS)
    try:
        driver.open()
        migrate(driver, steps[:version], now_ms=now_ms)
        filled = driver.write(fill)
        migrate(driver, steps, now_ms=now_ms)
        driver.write(finish)
    finally:
        driver.close()
    return filled


def _facts(driver: ApswConnection, version: int) -> DatabaseFacts:
    return DatabaseFacts(
        path=driver.path,
        sqlite_version=apsw.sqlite_lib_version(),
        vector_version=driver.vector_version,
        fts5="ENABLE_FTS5" in apsw.compile_options,
        schema_version=version,
        read_only=driver.read_only,
    )
