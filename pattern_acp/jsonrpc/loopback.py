"""Two transports in one process, each the other's peer; for tests and for embedding."""

from collections import deque
from types import TracebackType

import anyio

from pattern_acp.jsonrpc.errors import ConnectionClosedError
from pattern_acp.jsonrpc.transport import Oversize

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
        self._wake()

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
