"""The `Transport` port: lines to and from one peer, and cutting bytes into lines.

`loopback_pair` connects two ends in one process, for tests and for embedding.
"""

from collections import deque
from types import TracebackType
from typing import Protocol

import anyio
from msgspec import Struct

from pattern_acp.jsonrpc.errors import ConnectionClosedError

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
