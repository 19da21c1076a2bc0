"""A connection on a thread of its own.

Owns: the thread, shielding its calls from cancellation, bounded closing. Must not know: transactions or tables.
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
import anyio.to_thread

from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.errors import DatabaseClosedError, DatabaseForkedError

if TYPE_CHECKING:
    import sqlite3
    from queue import SimpleQueue

    Queue = SimpleQueue[tuple[asyncio.Future[object], Callable[[], object]]]

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.2
"""Longest that a cancelled caller goes on waiting. Writes take 5 ms, but wait up to 15 s for a lock, and a cancel is
answered within 2 s (architecture.md, invariant 3)."""


class _Call(Generic[T]):
    """One call of a function on the connection's thread. What comes of it is kept for a caller that was cancelled."""

    def __init__(self, function: Callable[[ApswConnection], T], driver: ApswConnection) -> None:
        self._function = function
        self._driver = driver
        self._results: list[T] = []
        self._error: BaseException | None = None

    def __call__(self) -> T:
        try:
            result = self._function(self._driver)
        except BaseException as error:
            # Whatever it was: a caller that was cancelled meanwhile asks how the call ended.
            self._error = error
            raise
        self._results.append(result)
        return result

    @property
    def has_ended(self) -> bool:
        return bool(self._results) or self._error is not None

    def outcome(self) -> T:
        """What the function gave. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def report_late(self, _fence: object) -> None:
        """What nobody waits for any longer still must not fail in silence."""
        if self._error is not None:
            name = type(self._error).__name__
            logger.warning("a call of the database failed after its caller was cancelled: %s", name)


class WorkerConnection(aiosqlite.Connection):
    """aiosqlite's thread and queue around an `ApswConnection`, with one call that runs a function there.

    aiosqlite's own statement methods are not used: each of them is a step of its own between two awaits.
    """

    def __init__(self, driver: ApswConnection, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`patience_seconds` is the longest that a cancelled caller goes on waiting."""
        super().__init__(cast("Callable[[], sqlite3.Connection]", lambda: driver), iter_chunk_size=64)
        # A thread that is not a daemon keeps an unclosed process alive for ever (aiosqlite#290).
        self._thread = threading.Thread(target=_work, args=(self._thread.run, self._queue), daemon=True)
        self._driver = driver
        self._process = os.getpid()
        self._patience_seconds = patience_seconds

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
        if not self._running or self._connection is None:
            raise DatabaseClosedError(
                f"The constellation {self._driver.path} is already closed; start pattern-acp again to use it."
            )
        call, running = _Call(function, self._driver), asyncio.get_running_loop().create_future()
        self._queue.put_nowait((running, call))
        try:
            # Waited for without a shield or a timer, which would cost as much as a short transaction.
            return await running
        except asyncio.CancelledError:
            # That of a scope comes again at the next wait, so it may be put off; one of asyncio's own may not.
            if anyio.current_effective_deadline() != -math.inf:
                raise
        return await self._after_cancel(call)

    async def _after_cancel(self, call: _Call[T]) -> T:
        behind: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        # The thread takes one thing after the other: when this is done, the call is.
        self._queue.put_nowait((behind, lambda: None))
        with anyio.CancelScope(shield=True):
            await asyncio.wait((behind,), timeout=self._patience_seconds)
        if not call.has_ended:
            behind.add_done_callback(call.report_late)
            await anyio.sleep_forever()
        return call.outcome()

    @property
    def _queue(self) -> "Queue":
        # aiosqlite leaves the type of what is queued open.
        return cast("Queue", self._tx)  # pyright: ignore[reportUnknownMemberType]

    async def close_within(self, seconds: float) -> bool:
        """Close after what is queued, stopping a running statement when time is up. False: it did not close."""
        if self._is_copy():
            return True  # the process that opened it closes it
        with anyio.move_on_after(seconds / 2, shield=True):
            await self.close()
            return True
        self._driver.interrupt()
        with anyio.move_on_after(seconds / 2, shield=True):
            await anyio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)
            return True
        return False

    def _is_copy(self) -> bool:
        """Whether this process was forked from the one that opened the file.

        It must not use the connections and locks of that one (sqlite.org/howtocorrupt.html, section 2.6), and has not
        got its threads.
        """
        return os.getpid() != self._process


def _work(run: Callable[[], None], calls: "Queue") -> None:
    """Run a connection's calls, also when the event loop ends before them, as after a close that was given up."""
    try:
        run()
    except RuntimeError:
        # That the loop is closed; what a call raises does not come here. Nobody waits for the rest, but the last of it
        # closes the file.
        logger.info("an event loop ended before the last calls of a database")
        while not calls.empty():
            with suppress(Exception):
                calls.get()[1]()
