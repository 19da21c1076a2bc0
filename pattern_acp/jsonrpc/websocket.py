"""WebSockets over byte streams, on both sides: handshake, messages, limits, and noticing a peer that is silently gone.

Owns: the package `websockets`, of which only the protocol without I/O is used, so that every task and every wait is
ours. Must not know: what the messages mean, or who may connect (`decide` says so).
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import anyio
from anyio.abc import ByteStream
from msgspec import Struct, field
from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from pattern_acp.jsonrpc.messages import ConnectionClosedError, ProtocolError

MESSAGE_LIMIT = 64 * 1024 * 1024
"""Bytes of one message: what a line on stdin may have (`transport.LINE_LIMIT`)."""

HANDSHAKE_SECONDS = 10.0
"""Longest that a peer may take from connecting to the end of its handshake."""

PING_SECONDS = 15.0
"""Silence of the peer after which it is asked whether it is there; as long again, and it counts as gone."""

CLOSE_SECONDS = 1.0
"""Longest that a farewell may take."""

READ_SIZE = 64 * 1024

NORMAL, GOING_AWAY = 1000, 1001
"""Codes of the end of a connection (RFC 6455, section 7.4.1)."""

STREAM_ERRORS = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""All that a stream raises when nobody is at its other end."""

logger = logging.getLogger(__name__)


class HandshakeRefusedError(ProtocolError):
    """The other side refused the handshake with an HTTP status and a sentence."""

    failure_code = "remote.handshake-refused"

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Upgrade(Struct, frozen=True):
    """A client's request to open a WebSocket."""

    path: str
    """With its query."""
    headers: Mapping[str, str]
    """By name in lower case; of a name that comes twice the last value."""

    @property
    def subprotocols(self) -> list[str]:
        """The protocols that the client offers."""
        return [each.strip() for each in self.headers.get("sec-websocket-protocol", "").split(",") if each.strip()]


class Refusal(Struct, frozen=True):
    """A handshake that is refused."""

    status: int
    sentence: str


class Acceptance(Struct, frozen=True):
    """A handshake that succeeds, with headers of ours and one of the offered subprotocols, if any."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    subprotocol: str = ""


class SocketMessage(Struct, frozen=True):
    """One message."""

    data: bytes
    is_text: bool


Decide: TypeAlias = Callable[[Upgrade], Acceptance | Refusal]


class WebSocket:
    """One open WebSocket."""

    def __init__(self, stream: ByteStream, protocol: ServerProtocol | ClientProtocol) -> None:
        self._stream = stream
        self._protocol = protocol
        self._writing = anyio.Lock(fast_acquire=True)
        self._messages: deque[SocketMessage] = deque()
        self._parts = bytearray()
        self._is_text = True
        self._heard = True
        self.end_code = 0
        """Code that the peer gave for the end; 0 when it was cut, or has not ended."""

    async def receive(self) -> SocketMessage | None:
        """Return the next message, or None when the connection is over."""
        while not self._messages:
            try:
                data = await self._stream.receive(READ_SIZE)
            except STREAM_ERRORS:
                self._protocol.receive_eof()
                return None
            self._heard = True
            self._protocol.receive_data(data)
            self.take(self._protocol.events_received())
            try:
                await self._flush()
            except ConnectionClosedError:
                return self._messages.popleft() if self._messages else None
            if self._protocol.state is not State.OPEN and not self._messages:
                return None
        return self._messages.popleft()

    async def send_text(self, data: bytes) -> None:
        """Send a text message of UTF-8. Raises ConnectionClosedError where the connection is over."""
        await self._send(data, is_text=True)

    async def send_binary(self, data: bytes) -> None:
        """Send a binary message. Raises like `send_text`."""
        await self._send(data, is_text=False)

    async def keep_alive(self, seconds: float = PING_SECONDS) -> None:
        """Ask a silent peer whether it is there, until it is not."""
        while True:
            self._heard = False
            await anyio.sleep(seconds)
            if self._heard or self._protocol.state is not State.OPEN:
                continue
            with contextlib.suppress(ConnectionClosedError), anyio.move_on_after(seconds):
                async with self._writing:
                    self._protocol.send_ping(b"")
                    await self._write_out()
            await anyio.sleep(seconds)
            if not self._heard:
                logger.info("A peer has not answered for %.0f s and counts as gone.", 2 * seconds)
                return

    async def close(self, code: int = NORMAL, sentence: str = "") -> None:
        """Take leave, within a bounded time, and close the stream."""
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            if self._protocol.state is State.OPEN:
                with contextlib.suppress(ConnectionClosedError):
                    async with self._writing:
                        self._protocol.send_close(code, sentence[:100])
                        await self._write_out()
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._stream)

    async def _send(self, data: bytes, *, is_text: bool) -> None:
        async with self._writing:
            if self._protocol.state is not State.OPEN:
                raise ConnectionClosedError("The peer closed the connection.")
            if is_text:
                self._protocol.send_text(data)
            else:
                self._protocol.send_binary(data)
            await self._write_out()

    async def _flush(self) -> None:
        # Nothing waits here for a sender who waits for the peer to read: the peer may wait for us to read.
        if self._protocol.writes and not self._writing.locked():
            async with self._writing:
                await self._write_out()

    async def _write_out(self) -> None:
        try:
            await _send_waiting(self._stream, self._protocol)
        except STREAM_ERRORS as error:
            raise ConnectionClosedError("The peer closed the connection.") from error

    def take(self, events: Sequence[object]) -> None:
        """Take what the protocol has read."""
        for event in events:
            if not isinstance(event, Frame):
                continue
            if event.opcode is Opcode.CLOSE:
                self.end_code = self._protocol.close_rcvd.code if self._protocol.close_rcvd is not None else 0
            elif event.opcode in {Opcode.TEXT, Opcode.BINARY, Opcode.CONT}:
                self._take_frame(event)

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            if frame.fin:
                self._messages.append(SocketMessage(bytes(frame.data), self._is_text))
                return
        self._parts += frame.data
        if frame.fin:
            self._messages.append(SocketMessage(bytes(self._parts), self._is_text))
            self._parts = bytearray()


async def accept(stream: ByteStream, decide: Decide, *, limit: int = MESSAGE_LIMIT) -> WebSocket | None:
    """Open the server's side of a connection; None when it was refused, with the reason sent, or nothing sensible came.

    The caller bounds the time.
    """
    protocol = ServerProtocol(max_size=limit, logger=_quiet(), select_subprotocol=_choose_none)
    socket = WebSocket(stream, protocol)
    request = await _first_request(stream, protocol)
    if request is None:
        await _send_rest(stream, protocol)
        return None
    verdict = decide(Upgrade(request.path, _plain(request.headers)))
    match verdict:
        case Refusal(status, sentence):
            response = protocol.reject(status, f"{sentence}\n")
        case Acceptance(headers, subprotocol):
            response = protocol.accept(request)
            if response.status_code == 101:
                for name, value in headers.items():
                    response.headers[name] = value
                if subprotocol:
                    response.headers["Sec-WebSocket-Protocol"] = subprotocol
    protocol.send_response(response)
    await _send_rest(stream, protocol)
    return socket if protocol.state is State.OPEN else None


async def dial(
    stream: ByteStream,
    url: str,
    headers: Mapping[str, str],
    *,
    limit: int = MESSAGE_LIMIT,
    subprotocols: Sequence[str] = (),
) -> tuple[WebSocket, Mapping[str, str]]:
    """Open the client's side of a connection; with the server's headers, by name in lower case.

    Raises:
        HandshakeRefusedError: the server refused, or is none for WebSockets.
        ConnectionClosedError: the server went away meanwhile, before it answered or after.
    """
    protocol = ClientProtocol(
        parse_uri(url),
        max_size=limit,
        logger=_quiet(),
        subprotocols=[Subprotocol(each) for each in subprotocols] or None,
    )
    request = protocol.connect()
    for name, value in headers.items():
        request.headers[name] = value
    protocol.send_request(request)
    socket = WebSocket(stream, protocol)
    await _send_rest(stream, protocol)
    answered = False
    while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
        try:
            data = await stream.receive(READ_SIZE)
        except STREAM_ERRORS:
            protocol.receive_eof()
            break
        answered = True
        protocol.receive_data(data)
    response, *more = protocol.events_received() or [None]
    if protocol.state is State.OPEN and isinstance(response, Response):
        # The server's first messages may have come with its answer.
        socket.take(more)
        return socket, _plain(response.headers)
    await anyio.aclose_forcefully(stream)
    refused = protocol.handshake_exc
    if isinstance(refused, InvalidStatus):
        said = bytes(refused.response.body or b"").decode("utf-8", "replace").strip()
        raise HandshakeRefusedError(refused.response.status_code, said or refused.response.reason_phrase)
    if answered and isinstance(refused, WebSocketException):
        raise HandshakeRefusedError(0, f"There is no WebSocket server at {url.partition('?')[0]}.")
    raise ConnectionClosedError("The server closed the connection before it was open.")


async def _first_request(stream: ByteStream, protocol: ServerProtocol) -> Request | None:
    while True:
        try:
            data = await stream.receive(READ_SIZE)
        except STREAM_ERRORS:
            return None
        protocol.receive_data(data)
        request = next((each for each in protocol.events_received() if isinstance(each, Request)), None)
        if request is not None or protocol.handshake_exc is not None:
            return request


async def _send_rest(stream: ByteStream, protocol: ServerProtocol | ClientProtocol) -> None:
    try:
        await _send_waiting(stream, protocol)
    except STREAM_ERRORS:
        logger.debug("A peer left during its handshake.")


async def _send_waiting(stream: ByteStream, protocol: ServerProtocol | ClientProtocol) -> None:
    for data in protocol.data_to_send():
        # Nothing stands for the end of the stream, which its owner closes.
        if data:
            await stream.send(data)


def _choose_none(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> None:
    """Leave the choice to `decide`."""
    del protocol, offered


def _plain(headers: Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.raw_items()}


def _quiet() -> logging.Logger:
    # The package writes what peers send to its log, and a token must not be there.
    silent = logging.getLogger("pattern_acp.websockets")
    silent.setLevel(logging.CRITICAL)
    return silent


def offered_token(upgrade: Upgrade) -> str:
    """Return the token that a client shows: as a bearer, else in a subprotocol, else in the query; empty without one.

    Pages in a browser can set no header.
    """
    scheme, _, token = upgrade.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for offered in upgrade.subprotocols:
        for prefix in ("pattern-token.", "bearer."):
            if offered.startswith(prefix):
                return offered.removeprefix(prefix)
    from urllib.parse import parse_qs

    return next(iter(parse_qs(upgrade.path.partition("?")[2]).get("token", ())), "")
