"""The `Transport` port: lines to and from one peer, and cutting bytes into lines."""

from typing import Protocol

from msgspec import Struct

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
        # One byte more than the limit is kept: it may be the carriage return of a line that fits.
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
