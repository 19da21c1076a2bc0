"""Transports over WebSockets that may be cut: what was sent and not acknowledged is sent again over the next one.

Owns: counting messages in both directions, the bounded buffer, and acknowledgements. Must not know: who may connect, or
what the messages mean. Both sides of a connection are the same here. A text message is one JSON-RPC message, and the
number of a message is its place in its direction, so nothing is added to it; a binary message is the decimal number of
messages that its sender has taken, of which peers that know nothing of it take no notice.
"""

from collections import deque

import anyio

from pattern_acp.jsonrpc.messages import ConnectionClosedError, ProtocolError
from pattern_acp.jsonrpc.transport import Oversize
from pattern_acp.jsonrpc.websocket import GOING_AWAY, NORMAL, PING_SECONDS, WebSocket

BUFFER_BYTES = 8 * 1024 * 1024
"""Bytes that may wait for the peer; beyond it `send` waits, so a turn stands still rather than the memory growing.

An hour of a model's text is less."""

ACKNOWLEDGE_MESSAGES = 16
ACKNOWLEDGE_BYTES = 128 * 1024
"""Messages, or their bytes, behind which the other side learns that it need not keep them."""


class CannotResumeError(ProtocolError):
    """The two sides do not agree on what was sent: one of them is another one than before."""

    failure_code = "remote.count-differs"


class ResumableLink:
    """`Transport` over one WebSocket after another.

    A link that is not `resumable` ends with its first one.
    """

    def __init__(self, *, resumable: bool = True, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.is_resumable = resumable
        self._buffer_bytes = buffer_bytes
        self._sent: deque[bytes] = deque()
        """Messages that the peer may lack, from number `_taken_by_peer` on."""
        self._sent_bytes = 0
        self._taken_by_peer = 0
        self._incoming: deque[bytes] = deque()
        self._incoming_bytes = 0
        self._received = 0
        self._acknowledged = 0
        self._unacknowledged_bytes = 0
        self._changed = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._attachment = 0
        self._ended = False

    @property
    def is_attached(self) -> bool:
        """True while a WebSocket carries it."""
        return self._scope is not None

    @property
    def is_ended(self) -> bool:
        """True when nothing more comes or goes."""
        return self._ended

    @property
    def received(self) -> int:
        """Number of messages that came."""
        return self._received

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        while not self._incoming:
            if self._ended:
                return None
            await self._changed.wait()
        message = self._incoming.popleft()
        self._incoming_bytes -= len(message)
        self._wake()
        return message

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        while self._sent_bytes >= self._buffer_bytes and not self._ended:
            await self._changed.wait()
        if self._ended:
            raise ConnectionClosedError("The peer closed the connection.")
        message = line.removesuffix(b"\n")
        self._sent.append(message)
        self._sent_bytes += len(message)
        self._wake()

    def end(self) -> None:
        """End both directions; a WebSocket that carries it still takes what waits."""
        self._ended = True
        self._wake()

    def detach(self) -> int:
        """Take nothing more from the WebSocket that carries it; number of messages that came."""
        self._attachment += 1
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None
        return self._received

    async def carry(self, socket: WebSocket, taken_by_peer: int, *, ping_seconds: float = PING_SECONDS) -> None:
        """Send and receive over `socket` until it is over; `taken_by_peer` messages need not be sent again.

        Raises:
            CannotResumeError: the peer has taken what was never sent, or lacks what it said it had.
        """
        self.detach()
        if not self._taken_by_peer <= taken_by_peer <= self._taken_by_peer + len(self._sent):
            await socket.close(GOING_AWAY)
            raise CannotResumeError("The other side counts other messages than this one; begin a new connection.")
        self._acknowledge(taken_by_peer)
        self._acknowledged = self._received
        attachment = self._attachment
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._receive_from, socket, attachment, tasks.cancel_scope)
                    tasks.start_soon(self._ping, socket, ping_seconds, tasks.cancel_scope)
                    await self._send_to(socket, taken_by_peer)
                    tasks.cancel_scope.cancel()
            finally:
                if self._attachment == attachment:
                    self._scope = None
                # A farewell means something to the peer, and only an end is one.
                if self._ended:
                    await socket.close(NORMAL)
                else:
                    await socket.close(GOING_AWAY, "Another connection continues in its place.")
                self._wake()
        if not self.is_resumable:
            self.end()

    async def _send_to(self, socket: WebSocket, number: int) -> None:
        while True:
            # A peer that claims to have more than it was sent does without.
            number = max(number, self._taken_by_peer)
            try:
                while self._taken_by_peer <= number < self._taken_by_peer + len(self._sent):
                    await socket.send_text(self._sent[number - self._taken_by_peer])
                    number += 1
                    if not self.is_resumable:
                        self._acknowledge(number)
                if self._acknowledgement_is_due():
                    self._acknowledged, self._unacknowledged_bytes = self._received, 0
                    await socket.send_binary(b"%d" % self._received)
                if self._ended:
                    return
            except ConnectionClosedError:
                return
            if number == self._taken_by_peer + len(self._sent) and not self._acknowledgement_is_due():
                await self._changed.wait()

    async def _receive_from(self, socket: WebSocket, attachment: int, scope: anyio.CancelScope) -> None:
        while (message := await socket.receive()) is not None:
            if self._attachment != attachment:
                return
            if message.is_text:
                self._received += 1
                self._unacknowledged_bytes += len(message.data)
                self._incoming.append(message.data)
                self._incoming_bytes += len(message.data)
                self._wake()
            elif self.is_resumable and message.data.isdigit() and len(message.data) < 20:
                self._acknowledge(min(int(message.data), self._taken_by_peer + len(self._sent)))
            while self._incoming_bytes >= self._buffer_bytes:
                await self._changed.wait()
        if socket.end_code == NORMAL:
            self.end()
        scope.cancel()

    async def _ping(self, socket: WebSocket, seconds: float, scope: anyio.CancelScope) -> None:
        await socket.keep_alive(seconds)
        scope.cancel()

    def _acknowledgement_is_due(self) -> bool:
        waiting = self._received - self._acknowledged
        return self.is_resumable and (
            waiting >= ACKNOWLEDGE_MESSAGES or (waiting > 0 and self._unacknowledged_bytes >= ACKNOWLEDGE_BYTES)
        )

    def _acknowledge(self, number: int) -> None:
        while self._taken_by_peer < number:
            self._sent_bytes -= len(self._sent.popleft())
            self._taken_by_peer += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
