"""The `Transport` port: lines to and from one peer; and its form over a pair of descriptors of any kind.

Owns: cutting bytes into lines, `loopback_pair`, which connects two ends in one process, and two threads that block so
that the loop need not. An event loop cannot wait for regular files, nor for pipes on Windows, and making inherited
descriptors non-blocking would do it to the parent too (SDK fault 10). Must not know: what the lines mean.
"""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import anyio
from msgspec import Struct

from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.stdio import takes_at_once, wait_until_readable, write_all

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes of one line. Clients send files and images inline; issue 2 section 11 asks for 60 MB."""


class Oversize(Struct, frozen=True):
    """Stands for a line that was longer than `limit` bytes and was thrown away."""

    limit: int


class LineDecoder:
    """Splits a stream of bytes into lines: the same lines however the bytes are cut.

    A carriage return before the line feed is not part of the line, and blank lines are left out.
    """

    def __init__(self, *, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._discarding = False

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """The lines that `data` completes, in order."""
        lines: list[bytes | Oversize] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data, start, end)
            lines.extend(self._finish())
            start = end + 1
        self._take(data, start, len(data))
        return lines

    def finish(self) -> list[bytes | Oversize]:
        """The last line, when the stream ended without a line feed."""
        return self._finish()

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._discarding:
            return
        # One byte more than the limit is stored: it may be the carriage return of a line that fits.
        if len(self._partial) + end - start > self._limit + 1:
            self._discarding = True
            self._partial = bytearray()
            return
        self._partial += memoryview(data)[start:end]

    def _finish(self) -> list[bytes | Oversize]:
        if self._discarding:
            self._discarding = False
            return [Oversize(self._limit)]
        line = bytes(self._partial)
        self._partial.clear()
        line = line.removesuffix(b"\r")
        if len(line) > self._limit:
            return [Oversize(self._limit)]
        return [line] if line.strip() else []


class Transport(Protocol):
    """Lines to and from one peer, in order."""

    async def receive(self) -> bytes | Oversize | None:
        """The next line without its line feed, a mark for a line that was too long, or None when the peer is gone."""
        ...

    async def send(self, line: bytes) -> None:
        """Take a line, with its line feed, for writing; waits while the peer does not read.

        A call that ends by cancellation has taken nothing of the line.

        Raises:
            ConnectionClosedError: nothing can be written any more.
        """
        ...


LOOPBACK_LINES = 256
"""Lines that may wait to be received in one direction; beyond it `send` waits, as it would on a pipe."""


class _Pipe:
    """One direction."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._closed = False
        self._changed = anyio.Event()

    async def receive(self) -> bytes | None:
        while not self._lines and not self._closed:
            await self._changed.wait()
        line = self._lines.popleft() if self._lines else None
        self._wake()
        return line

    async def send(self, line: bytes) -> None:
        while len(self._lines) >= LOOPBACK_LINES and not self._closed:
            await self._changed.wait()
        if self._closed:
            raise ConnectionClosedError("The peer closed the connection.")
        self._lines.append(line)
        self._changed.set()
        self._changed = anyio.Event()

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class LoopbackTransport:
    """One end; see `loopback_pair`. Leaving its context closes it."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def __aenter__(self) -> "LoopbackTransport":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        line = await self._incoming.receive()
        return None if line is None else line.removesuffix(b"\n")

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        await self._outgoing.send(line)

    def close_sending(self) -> None:
        """Send no more: the other end receives what is on its way, then the end."""
        self._outgoing.close()

    def close(self) -> None:
        """End both directions."""
        self._outgoing.close()
        self._incoming.close()


def loopback_pair() -> tuple[LoopbackTransport, LoopbackTransport]:
    """Two connected ends."""
    there, back = _Pipe(), _Pipe()
    return LoopbackTransport(back, there), LoopbackTransport(there, back)


READ_SIZE = 256 * 1024
"""Bytes asked for at once; a pipe gives 64 kB at most, a file as much as is asked."""

READ_AHEAD = 64
"""Reads whose lines may wait to be taken. Beyond it the reader stops and the peer feels it: memory stays bounded."""

WRITE_QUEUE_BYTES = 1024 * 1024
"""Bytes that may wait to be written. Beyond it `send` waits; updates are small, so this is seconds of output."""

AT_ONCE_BYTES = 4096
"""Bytes of lines that leave together at most: what a pipe with space takes at once on Linux."""

CLOSE_SECONDS = 1.0
"""Seconds that closing waits for a peer to take what is queued (architecture.md, invariant 9: gone within 2 s)."""

logger = logging.getLogger(__name__)


class StdioTransport:
    """Lines over two descriptors, which it owns from construction on. Use as `async with`."""

    def __init__(self, read_fd: int, write_fd: int, received: bytes = b"") -> None:
        """`received` was read from `read_fd` before and belongs in front."""
        self._reader = _Reader(read_fd, received)
        self._writer = _Writer(write_fd, on_failure=self._reader.stop)
        self.receive = self._reader.receive
        """See `Transport.receive`."""
        self.send = self._writer.send
        """See `Transport.send`."""

    async def __aenter__(self) -> "StdioTransport":
        loop = asyncio.get_running_loop()
        self._reader.start(loop)
        self._writer.start(loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.stop()
        self._writer.stop()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._writer.wait_until_done()


class _Wakeup:
    """An event of the loop that a thread may set."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = anyio.Event()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def set(self) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._set)
            except RuntimeError:
                logger.debug("The event loop ended before a thread of the transport did.")

    def _set(self) -> None:
        self._event.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; the one who changes it calls `set` afterwards."""
        while not condition():
            if self._event.is_set():
                self._event = anyio.Event()
            else:
                await self._event.wait()


class _Reader:
    """Reads lines in a thread of its own.

    The thread may sit in a read that never returns. Nobody waits for it: it is a daemon, and the one who stops the
    reader sees the end at once.
    """

    def __init__(self, descriptor: int, received: bytes) -> None:
        self._descriptor = descriptor
        self._received = received
        self._lines: deque[bytes | Oversize] = deque()
        self._batches: deque[int] = deque()
        self._credit = threading.Semaphore(READ_AHEAD)
        self._ended = False
        self._stopped = False
        self._news = _Wakeup()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._news.bind(loop)
        threading.Thread(target=self._run, name="jsonrpc reader", daemon=True).start()

    def stop(self) -> None:
        """End the stream now, whatever the thread is doing."""
        self._stopped = True
        self._credit.release()
        self._news.set()

    async def receive(self) -> bytes | Oversize | None:
        await self._news.wait_until(lambda: bool(self._lines) or self._ended or self._stopped)
        if self._stopped or not self._lines:
            return None
        line = self._lines.popleft()
        self._batches[0] -= 1
        if not self._batches[0]:
            self._batches.popleft()
            self._credit.release()
        return line

    def _run(self) -> None:
        decoder = LineDecoder()
        try:
            self._publish(decoder.feed(self._received))
            while not self._stopped and (data := _read(self._descriptor)):
                self._publish(decoder.feed(data))
            self._publish(decoder.finish())
        finally:
            self._ended = True
            os.close(self._descriptor)
            self._news.set()

    def _publish(self, lines: list[bytes | Oversize]) -> None:
        if lines and not self._stopped:
            self._credit.acquire()
            # The count first: the loop takes a line as soon as it sees one.
            self._batches.append(len(lines))
            self._lines.extend(lines)
            self._news.set()


class _Writer:
    """Writes lines in order, and makes senders wait for a peer that does not read.

    Lines that are sent in two passes of the loop leave together: each write wakes the peer. What may block is written
    in a thread of its own.
    """

    def __init__(self, descriptor: int, *, on_failure: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_failure = on_failure
        self._soon: list[bytes] = []
        """Lines of these passes; only while the thread has nothing to write."""
        self._soon_bytes = 0
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._ended = False
        self._progress = _Wakeup()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._progress.bind(loop)
        threading.Thread(target=self._run, name="jsonrpc writer", daemon=True).start()

    def stop(self) -> None:
        """Take no more lines and end once the queue is written."""
        self._write_soon()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._progress.set()

    async def send(self, line: bytes) -> None:
        if self._soon_bytes + len(line) > AT_ONCE_BYTES:
            self._write_soon()
        await self._progress.wait_until(lambda: self._queued_bytes < WRITE_QUEUE_BYTES or self._stopping or self._ended)
        with self._changed:
            if self._stopping or self._ended:
                raise ConnectionClosedError("The peer no longer reads; the connection is closed.")
            if self._queued_bytes:
                self._queue_up([line])
                return
        if not self._soon:
            loop = asyncio.get_running_loop()
            # Not in the next pass, in which what this one began is often answered, but in the one behind it.
            loop.call_soon(loop.call_soon, self._write_soon)
        self._soon.append(line)
        self._soon_bytes += len(line)
        if self._soon_bytes > AT_ONCE_BYTES:
            self._write_soon()

    def _write_soon(self) -> None:
        """Write these lines, here where that surely does not wait: the thread costs more than that."""
        if not self._soon:
            return
        lines, self._soon, self._soon_bytes = self._soon, [], 0
        if not self._wrote(b"".join(lines)):
            with self._changed:
                self._queue_up(lines)

    def _queue_up(self, lines: list[bytes]) -> None:
        if not self._queue:
            # Otherwise it has been woken, and has not come to take them yet.
            self._changed.notify()
        self._queue.extend(lines)
        self._queued_bytes += sum(map(len, lines))

    def _wrote(self, data: bytes) -> bool:
        try:
            if not takes_at_once(self._descriptor, len(data)):
                return False
            write_all(self._descriptor, data)
        except OSError:
            # The thread meets it as well, and says so.
            return False
        return True

    async def wait_until_done(self) -> None:
        await self._progress.wait_until(lambda: self._ended)

    def _run(self) -> None:
        failed = not self._write_queue()
        # The end is known before the reader ends, so that the one who sees one sees the other.
        self._ended = True
        self._close()
        self._progress.set()
        if failed:
            self._on_failure()

    def _write_queue(self) -> bool:
        """Write what comes until told to stop; False when the peer no longer reads."""
        try:
            while data := self._take():
                write_all(self._descriptor, data)
                self._finish(len(data))
        except OSError as error:
            logger.info("The peer stopped reading: %s.", error.strerror)
            return False
        return True

    def _take(self) -> bytes:
        """Everything that is queued, or nothing when it is time to end."""
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            data = b"".join(self._queue)
            self._queue.clear()
            return data

    def _finish(self, size: int) -> None:
        with self._changed:
            was_full = self._queued_bytes >= WRITE_QUEUE_BYTES
            self._queued_bytes -= size
        if was_full:
            self._progress.set()

    def _close(self) -> None:
        try:
            os.close(self._descriptor)
        except OSError as error:
            logger.info("Closing the peer's stream failed: %s.", error.strerror)


def _read(descriptor: int) -> bytes:
    """The next bytes, or none at the end and after an error (a vanished peer looks like either)."""
    while True:
        try:
            return os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            wait_until_readable(descriptor)
        except OSError as error:
            logger.info("Reading from the peer failed: %s.", error.strerror)
            return b""
