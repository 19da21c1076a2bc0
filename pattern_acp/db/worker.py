"""A connection on a thread of its own.

Owns: the thread (aiosqlite's), its calls, which no cancellation cuts, bounded closing. Must not know: transactions or
tables.
"""

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import aiosqlite
import anyio

from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.errors import DatabaseClosedError, DatabaseForkedError

if TYPE_CHECKING:
    import sqlite3
    from queue import SimpleQueue

    Queue = SimpleQueue[tuple[None, Callable[[], None]]]

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 0.2
"""Longest that a cancelled caller goes on waiting. Writes take 5 ms, but wait up to 15 s for a lock, and a cancel is
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
        `patience_seconds` the cancellation goes on, and the function runs in its turn all the same.

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
    """A connection for each driver. `patience_seconds` is the longest that a cancelled caller goes on waiting."""
    made: list[WorkerConnection] = []
    # A thread that is not a daemon keeps an unclosed process alive for ever (aiosqlite#290); a thread is one where the
    # thread that makes it is one.
    maker = threading.Thread(
        target=lambda: made.extend(WorkerConnection(driver, patience_seconds) for driver in drivers), daemon=True
    )
    maker.start()
    maker.join()
    return tuple(made)
