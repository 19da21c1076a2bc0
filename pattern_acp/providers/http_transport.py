"""HTTP/1.1 for httpx's client in less than half of its own transport's time (ADR 0030).

Owns: connections, their reuse and their end. Must not know: proxies, which httpx's own transport serves, and what a
request means.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import anyio
import anyio.lowlevel
import h11
import httpx

JOINED_BYTES = 65_536
"""Longest body that is written together with the head of its request."""

READ_BUFFER_BYTES = 256 * 1024
"""More than this unread makes the connection stop reading until someone takes it."""

_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
"""The size of a chunk without extensions."""

HEADER_BYTES = 100 * 1024
"""The largest status line and headers of an answer; h11's own 16 kB is less than some gateways send."""

EYEBALLS_SECONDS = 0.25
"""Time of trying an address before the next one is tried beside it (RFC 8305, section 5)."""

MAX_IDLE = 20
"""Idle connections of one server."""

_Origin = tuple[bytes, bytes, int | None]


class ReusingTransport(httpx.AsyncBaseTransport):
    """Sends requests straight to their servers. For one event loop.

    Args:
        tls: for servers behind https; without it there are none.
        idle_seconds: how long a connection may wait for its next request.
    """

    def __init__(self, tls: ssl.SSLContext | None, idle_seconds: float) -> None:
        self._tls = tls
        self._idle_seconds = idle_seconds
        self._idle: dict[_Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response once its headers are there; its body is read from the connection as the caller asks for it.

        Raises:
            httpx.TransportError: the server cannot be reached, or what it sends is not HTTP.
        """
        url = request.url
        origin = (url.raw_scheme, url.raw_host, url.port)
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        while True:
            idle = self._idle_connection(origin)
            connection = idle or await self._connect(request, timeout.get("connect"))
            try:
                head = await connection.exchange(request, timeout.get("write"))
                break
            except BaseException as error:
                connection.abort()
                # Its server closed it as this request was on the way, and never heard it (RFC 9112, section 9.3.1).
                if idle is None or not connection.is_silent or not isinstance(error, httpx.TransportError):
                    raise
        return httpx.Response(
            head.status_code,
            headers=list(head.headers),
            stream=_Body(connection, request, self._idle.setdefault(origin, [])),
            extensions={"http_version": b"HTTP/" + head.http_version, "reason_phrase": bytes(head.reason)},
        )

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            for connection in self._idle.popitem()[1]:
                connection.abort()
        # A transport tells the loop of its end in the loop's next pass.
        await anyio.lowlevel.checkpoint()

    def _idle_connection(self, origin: _Origin) -> "_Connection | None":
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_reusable(anyio.current_time() - self._idle_seconds):
                return connection
            connection.abort()
        return None

    async def _connect(self, request: httpx.Request, seconds: float | None) -> "_Connection":
        url = request.url
        is_safe = url.scheme == "https" and self._tls is not None
        if not is_safe and url.scheme != "http":
            raise httpx.UnsupportedProtocol(f"No connection is made for {url.scheme!r}.", request=request)
        host = url.raw_host.decode("ascii")
        try:
            with anyio.fail_after(seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    host,
                    url.port or (443 if is_safe else 80),
                    ssl=self._tls if is_safe else None,
                    server_hostname=host if is_safe else None,
                    happy_eyeballs_delay=EYEBALLS_SECONDS,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        # A host that no name service could ever know is a ValueError of the IDNA codec.
        except (OSError, ValueError) as error:
            raise httpx.ConnectError(str(error), request=request) from error
        return connection


class ChunkJoiner:
    """Joins the chunks of a body that one read brings, so that h11 reads one instead of hundreds.

    A chunk is joined only when all of it is there; everything else, and what is no chunk, continues as it came.
    """

    def __init__(self) -> None:
        self._left = 0
        """Bytes that are missing of the chunk whose beginning continued."""
        self._line = b""
        """The beginning of a line with a size that happened."""
        self._is_over = False

    def join(self, data: bytes) -> bytes:
        """The same body in fewer chunks."""
        if self._is_over:
            return data
        start = self._begun(data)
        payload: list[bytes] = []
        at = start
        while at < len(data) and not self._is_over and not self._left and not self._line:
            end = data.find(b"\r\n", at)
            if end < 0:
                self._line = data[at:]
                break
            stop = end + 2 + self._size(data[at:end])
            if self._is_over:
                break
            if stop + 2 > len(data):
                self._left = stop + 2 - len(data)
                break
            if data[stop : stop + 2] != b"\r\n":
                # For h11 to say what is wrong.
                self._is_over = True
                break
            payload.append(data[end + 2 : stop])
            at = stop + 2
        if len(payload) < 2:
            return data
        joined = b"".join(payload)
        return b"%b%x\r\n%b\r\n%b" % (data[:start], len(joined), joined, data[at:])

    def _begun(self, data: bytes) -> int:
        """Return where the chunk ends whose beginning, or whose line, continued before."""
        if self._line:
            end = data.find(b"\n")
            if end < 0:
                self._line += data
                return len(data)
            size = self._size((self._line + data[:end]).removesuffix(b"\r"))
            self._line, self._left = b"", 0 if self._is_over else end + 1 + size + 2
        taken = min(self._left, len(data))
        self._left -= taken
        return taken

    def _size(self, line: bytes) -> int:
        """The size of a chunk; the last one, and a line that is none, end the joining."""
        size = int(line, 16) if _CHUNK_SIZE.fullmatch(line) else 0
        self._is_over = not size
        return size


class _Connection(asyncio.Protocol):
    """One connection and the bytes that its server sent and nobody has read yet."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES)
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._is_full = False
        self._chunks: ChunkJoiner | None = None
        self.is_silent = True
        """True if nothing came since the last request."""
        self._change: asyncio.Future[None] | None = None
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.is_silent = False
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > READ_BUFFER_BYTES:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        self._wake()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def is_reusable(self, idle_since: float) -> bool:
        """Return whether it was idle no longer than since then, and its server neither closed it nor sent anything."""
        return self._idle_since >= idle_since and not self._ended and not self._unread

    def abort(self) -> None:
        """Close it at once."""
        self._transport.abort()

    async def exchange(self, request: httpx.Request, write_seconds: float | None) -> h11.Response:
        """Send all of `request` and wait for the head of its answer."""
        try:
            sent = self._http.send(
                h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            )
            body = await request.aread()
            content = self._http.send(h11.Data(body)) or b"" if body else b""
            end = self._http.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from error
        # A long body is not copied for the sake of one write less.
        pieces = (sent or b"", content, end)
        for piece in pieces if len(content) > JOINED_BYTES else (b"".join(pieces),):
            self._transport.write(piece)
        try:
            with anyio.fail_after(write_seconds):
                # A server that refuses a request for its size answers, and may close, before it has read all of it.
                while self._is_full and not self._unread and not self._ended:
                    await self._changed()
        except TimeoutError as error:
            raise httpx.WriteTimeout(str(error), request=request) from error
        while True:
            event = await self._next_event(request)
            if isinstance(event, h11.Response):
                if (b"transfer-encoding", b"chunked") in event.headers:
                    self._chunks = ChunkJoiner()
                    # What came with the head is h11's already.
                    self._chunks.join(bytes(self._http.trailing_data[0]))
                return event

    async def body(self, request: httpx.Request) -> AsyncGenerator[bytes, None]:
        """The body in the pieces in which the network brought it, however many pieces its server made of it."""
        event: object = None
        while not isinstance(event, h11.EndOfMessage):
            event = await self._next_event(request)
            pieces: list[bytes] = []
            while isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                event = self._event(request)
            if pieces:
                yield b"".join(pieces)

    def finish(self, idle: "list[_Connection]") -> None:
        """Put it with the idle ones where it can serve another request, and close it otherwise."""
        http, self._chunks = self._http, None
        is_over = http.our_state is http.their_state is h11.DONE and not http.trailing_data[0] and not self._is_full
        if is_over and len(idle) < MAX_IDLE:
            http.start_next_cycle()
            self.is_silent, self._idle_since = True, anyio.current_time()
            idle.append(self)
        else:
            self.abort()

    async def _next_event(self, request: httpx.Request) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._event(request)) is h11.NEED_DATA:
            if not self._unread and not self._ended:
                await self._changed()
            received, self._unread = b"".join(self._unread), []
            if self._unread_bytes > READ_BUFFER_BYTES and not self._ended:
                self._transport.resume_reading()
            self._unread_bytes = 0
            if not received and self._error is not None:
                raise httpx.ReadError(str(self._error), request=request) from self._error
            # No bytes are the end of the connection, for h11 as for us.
            self._http.receive_data(received if self._chunks is None else self._chunks.join(received))
        return event

    def _event(self, request: httpx.Request) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from error

    async def _changed(self) -> None:
        self._change = asyncio.get_running_loop().create_future()
        await self._change

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


class _Body(httpx.AsyncByteStream):
    def __init__(self, connection: _Connection, request: httpx.Request, idle: list[_Connection]) -> None:
        self._connection = connection
        self._request = request
        self._idle = idle
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._connection.body(self._request)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connection.finish(self._idle)
