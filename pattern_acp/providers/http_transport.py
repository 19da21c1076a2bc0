"""HTTP/1.1 straight to the servers of models (docs/adr/0048-http-without-a-library.md).

Owns: connections, their reuse and their end, and the form of requests and answers. Must not know: proxies, the time
that an answer may take, and what a request means.
"""

import asyncio
import base64
import math
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache
from typing import NoReturn, cast
from urllib.parse import quote, unquote, urlsplit

import anyio
import anyio.lowlevel
from msgspec import Struct

from pattern_acp import __version__
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.http_errors import ProviderConnectionError, ProviderRequestError

JOINED_BYTES = 65_536
"""Longest body that is written together with the head of its request."""

READ_BUFFER_BYTES = 256 * 1024
"""More than this unread makes the connection stop reading until someone takes it."""

HEADER_BYTES = 100 * 1024
"""The largest status line and headers of an answer, and the longest line of a chunk: some gateways send 20 kB."""

EYEBALLS_SECONDS = 0.25
"""Time of trying an address before the next one is tried beside it (RFC 8305, section 5)."""

WRITE_SECONDS = 60.0
"""A request with images can be megabytes on a slow line."""

CROSSING_SECONDS = 1.0
"""A request that met the end of its idle connection hears of it within one way there and back."""

MAX_IDLE = 20
"""Idle connections of one server."""

USUAL_HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "User-Agent": f"pattern-acp/{__version__}",
}
"""Sent unless a request has its own."""

_PLAIN_URL = "%/:?#[]@!$&'()*+,;=~|"
"""Characters of a path or query that are sent as they are, beside letters, digits and `_.-`."""

_NAME_MARKS = frozenset("!#$%&'*+-.^_`|~")
_HEXADECIMAL = b"0123456789abcdefABCDEF"

_Origin = tuple[bool, str, int]


class RawRequest(Struct, frozen=True):
    """A request. `who` is the name of the server's owner, for sentences."""

    method: str
    who: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class RawResponse(Struct, frozen=True):
    """The answer of a server. `body` is still on its way, and packed if `content-encoding` says so."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: AsyncIterator[bytes]
    """The pieces that the network brings.

    Raises:
        ProviderConnectionError: the connection broke.
    """
    close: Callable[[], Awaitable[None]]
    """End the exchange, however much of the body was read."""


class DirectTransport:
    """Sends requests to their servers, without a proxy. For one event loop.

    Args:
        tls: for servers behind https; without it there are none.
        connect_seconds: how long a connection may take to come about.
        idle_seconds: how long a connection may wait for its next request.
        crossing_seconds: how soon a reused connection must end for its request to be sent once more.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        connect_seconds: float,
        idle_seconds: float,
        clock: Clock,
        crossing_seconds: float = CROSSING_SECONDS,
    ) -> None:
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._crossing_seconds = crossing_seconds
        self._idle: dict[_Origin, list[_Connection]] = {}
        self._cookies: dict[_Origin, Cookies] = {}

    async def send(self, request: RawRequest) -> RawResponse:
        """The answer once its headers are there.

        Raises:
            ProviderConnectionError: the server cannot be reached, or the connection broke.
            ProviderRequestError: the address or a header cannot be sent.
        """
        try:
            address = _address(request.url)
            origin = address.origin
            cookies = self._cookies.get(origin)
            head = _encode_head(request, address, cookies.header(address.target) if cookies else "")
        except ValueError:
            raise unsendable(request.who) from None
        if address.is_safe and self._tls is None:
            raise unsendable(request.who)
        idle = self._idle_connection(origin)
        while True:
            connection = idle or await self._connect(request.who, address)
            try:
                found = await connection.exchange(request.who, head, request.body or b"")
                break
            except BaseException as error:
                connection.abort()
                # Its server closed it as this request was on the way, and never heard it (RFC 9112, section 9.3.1).
                # After a longer silence it may have: to send that once more could pay for the answer twice.
                is_unheard = idle is not None and connection.has_ended_in_silence(self._crossing_seconds)
                if not is_unheard or not isinstance(error, ProviderConnectionError):
                    raise
                idle = None
        if found.cookies:
            cookies = self._cookies.setdefault(origin, Cookies(self._clock, is_safe=address.is_safe))
            cookies.take(found.cookies, address.target)

        async def close() -> None:
            connection.finish(self._idle.setdefault(origin, []))

        return RawResponse(found.status, found.headers, connection.body(), close)

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

    async def _connect(self, who: str, address: "_Address") -> "_Connection":
        try:
            with anyio.fail_after(self._connect_seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    address.host,
                    address.port,
                    ssl=self._tls if address.is_safe else None,
                    server_hostname=address.host if address.is_safe else None,
                    happy_eyeballs_delay=EYEBALLS_SECONDS,
                )
        # A host that no name service could ever know is a ValueError of the IDNA codec.
        except (OSError, ValueError) as error:
            raise unreachable(who, address.host, error) from error
        return connection


class _Address(Struct, frozen=True):
    is_safe: bool
    host: str
    port: int
    target: str
    headers: Mapping[str, str]
    """Headers that the address decides: the host, and a name and password."""

    @property
    def origin(self) -> _Origin:
        return (self.is_safe, self.host, self.port)


@lru_cache(maxsize=16)
def _address(url: str) -> _Address:
    """Take an address apart; each provider has one or two. ValueError if it cannot be asked."""
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable():
        raise ValueError(url)
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    is_safe = parts.scheme == "https"
    named = f"[{host}]" if ":" in host else host
    headers = {"Host": named if parts.port is None else f"{named}:{parts.port}"}
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
    target = quote(parts.path or "/", safe=_PLAIN_URL)
    if parts.query:
        target += f"?{quote(parts.query, safe=_PLAIN_URL)}"
    return _Address(is_safe, host, parts.port or (443 if is_safe else 80), target, headers)


def _encode_head(request: RawRequest, address: _Address, cookies: str) -> bytes:
    """Write the request line and the headers. ValueError for what cannot be in them."""
    headers = {**address.headers, **USUAL_HEADERS}
    if request.body is not None:
        headers["Content-Length"] = str(len(request.body))
    if cookies:
        headers["Cookie"] = cookies
    for name, value in request.headers.items():
        if not name or not all(letter.isalnum() or letter in _NAME_MARKS for letter in name):
            raise ValueError(name)
        if not value.isprintable() or value != value.strip():
            raise ValueError(name)
    own = {name.lower() for name in request.headers}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() not in own]
    lines += [f"{name}: {value}\r\n" for name, value in request.headers.items()]
    return f"{request.method} {address.target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("ascii")


class Cookies:
    """The cookies of one server, for it alone (RFC 6265): by them gateways lead a client to the same machine again.

    Args:
        is_safe: whether the server is behind https.
    """

    def __init__(self, clock: Clock, *, is_safe: bool) -> None:
        self._clock = clock
        self._is_safe = is_safe
        self._values: dict[tuple[str, str], tuple[str, float]] = {}
        """Value, and end in milliseconds since 1970, by name and path."""

    def take(self, lines: Sequence[str], target: str) -> None:
        """Keep, replace or drop what the `Set-Cookie` headers of an answer from `target` say."""
        for line in lines:
            pair, *rest = line.split(";")
            name, is_pair, value = (part.strip() for part in pair.partition("="))
            attributes = {key.strip().lower(): text.strip() for key, _, text in (each.partition("=") for each in rest)}
            if not (is_pair and name and line.isascii() and line.isprintable()):
                continue
            if "secure" in attributes and not self._is_safe:
                continue
            path = attributes.get("path", "")
            if not path.startswith("/"):
                path = target.partition("?")[0].rpartition("/")[0] or "/"
            self._values[name, path] = (value, _end_of_cookie(attributes, self._clock.now_ms()))

    def header(self, target: str) -> str:
        """Return the `Cookie` header of a request for `target`; empty without any."""
        now = self._clock.now_ms()
        self._values = {key: each for key, each in self._values.items() if each[1] > now}
        asked = target.partition("?")[0]
        found = [
            (path, f"{name}={value}")
            for (name, path), (value, _) in self._values.items()
            if asked == path or asked.startswith(f"{path.removesuffix('/')}/")
        ]
        return "; ".join(pair for _, pair in sorted(found, key=lambda each: -len(each[0])))


def _end_of_cookie(attributes: Mapping[str, str], now_ms: int) -> float:
    age = attributes.get("max-age", "")
    if age.removeprefix("-").isdigit():
        return now_ms + 1000 * float(age)
    if expires := attributes.get("expires"):
        # Late: only for cookies with a date. `http.cookiejar`, which knows all this, takes four times as long.
        from calendar import timegm
        from email.utils import parsedate

        with suppress(ValueError, OverflowError):
            if date := parsedate(expires):
                return 1000 * timegm(date)
    return math.inf


class _Place(Enum):
    """The meaning of the next line of a body in chunks."""

    SIZE = auto()
    END_OF_CHUNK = auto()
    TRAILER = auto()


class BodyReader:
    """Takes a body out of the bytes of a connection, whatever they are cut into; sans I/O.

    Args:
        length: its bytes; None where it lasts as long as the connection, or is in chunks.
        in_chunks: whether it comes in chunks, each with its length.
    """

    rest: bytes
    """Bytes behind the body."""

    def __init__(self, length: int | None = None, *, in_chunks: bool = False) -> None:
        self._in_chunks = in_chunks
        self._missing = length or 0
        """Bytes of the body, or of the chunk."""
        self.lasts = length is None and not in_chunks
        """True where it lasts as long as the connection."""
        self.is_over = length == 0
        self._place = _Place.SIZE
        self._line: bytes = b""
        """The beginning of a line whose end did not come yet."""
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the part of `data` that belongs to the body. Raises ValueError where it is not in chunks."""
        if self.lasts:
            return data
        if self.is_over:
            self.rest += data
            return b""
        if self._in_chunks:
            return self._feed_chunks(data)
        content, self.rest = data[: self._missing], data[self._missing :]
        self._missing -= len(content)
        self.is_over = not self._missing
        return content

    def _feed_chunks(self, data: bytes) -> bytes:
        data, self._line = self._line + data, b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_over:
            if self._missing:
                piece = data[at : at + self._missing]
                pieces.append(piece)
                at += len(piece)
                self._missing -= len(piece)
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line, at = data[at:], len(data)
                if len(self._line) > HEADER_BYTES:
                    raise ValueError("a line without an end")
            else:
                self._take_line(data[at:end].removesuffix(b"\r"))
                at = end + 1
        self.rest = data[at:]
        return b"".join(pieces)

    def _take_line(self, line: bytes) -> None:
        if self._place is _Place.SIZE:
            size = line.partition(b";")[0].strip(b" \t")
            if not 0 < len(size) <= 16 or size.strip(_HEXADECIMAL):
                raise ValueError("no size of a chunk")
            self._missing = int(size, 16)
            self._place = _Place.END_OF_CHUNK if self._missing else _Place.TRAILER
        elif self._place is _Place.TRAILER:
            self.is_over = not line
        elif line:
            raise ValueError("no end of a chunk")
        else:
            self._place = _Place.SIZE


class Head(Struct, frozen=True):
    """The status line and headers of an answer. `size`: their bytes."""

    status: int
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    body: BodyReader
    lasts: bool
    """True if the connection may serve another request behind this one."""
    size: int


def read_head(data: bytes) -> Head | None:
    """The head at the beginning of `data`, None if it is not all there. Raises ValueError where it is not HTTP/1."""
    ends = [place for end in (b"\n\r\n", b"\n\n") if (place := data.find(end)) >= 0]
    if not ends:
        if len(data) > HEADER_BYTES or not data.startswith(b"HTTP/1."[: len(data)]):
            raise ValueError("no head")
        return None
    end = min(ends)
    lines = data[:end].decode("latin-1").replace("\r\n", "\n").replace("\n ", " ").replace("\n\t", " ").split("\n")
    version, _, reason = lines[0].partition(" ")
    code = reason[:3]
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not (code.isascii() and code.isdigit() and len(code) == 3):
        raise ValueError("no status line")
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ValueError("no header")
        name, value = name.lower(), value.strip()
        if name == "set-cookie":
            cookies.append(value)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    status = int(code)
    body = _body_of(status, headers)
    is_closing = "close" in headers.get("connection", "").lower()
    lasts = version == "HTTP/1.1" and not is_closing and not body.lasts
    return Head(status, headers, tuple(cookies), body, lasts, end + (2 if data[end + 1 : end + 2] == b"\n" else 3))


def _body_of(status: int, headers: Mapping[str, str]) -> BodyReader:
    """Return the reader of a body (RFC 9112, section 6.3)."""
    if status < 200 or status in {204, 304}:
        return BodyReader(0)
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise ValueError("no transfer encoding that is known")
        return BodyReader(in_chunks=True)
    if "content-length" in headers:
        lengths = {each.strip() for each in headers["content-length"].split(",")}
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()):
            raise ValueError("no length")
        return BodyReader(int(length))
    return BodyReader()


class _Connection(asyncio.Protocol):
    """One connection and the bytes that its server sent and nobody has read yet."""

    _transport: asyncio.Transport
    _head: Head

    def __init__(self) -> None:
        self._who = ""
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._is_full = False
        self._begun = b""
        """The part of the body that came with the head."""
        self._is_silent = True
        """True if nothing came since the last request."""
        self._asked_at = 0.0
        self._change: asyncio.Future[None] | None = None
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._is_silent = False
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

    def has_ended_in_silence(self, seconds: float) -> bool:
        """Return whether its server ended it less than `seconds` after the last request, and answered nothing."""
        return self._ended and self._is_silent and anyio.current_time() - self._asked_at < seconds

    def abort(self) -> None:
        """Close it at once."""
        self._transport.abort()

    async def exchange(self, who: str, head: bytes, body: bytes) -> Head:
        """Send a request and wait for the head of its answer."""
        self._who, self._asked_at = who, anyio.current_time()
        # A long body is not copied for the sake of one write less.
        for piece in (head, body) if len(body) > JOINED_BYTES else (head + body,):
            self._transport.write(piece)
        try:
            with anyio.fail_after(WRITE_SECONDS):
                # A server that refuses a request for its size answers, and may close, before it has read all of it.
                while self._is_full and not self._unread and not self._ended:
                    await self._changed()
        except TimeoutError as error:
            raise broken(who) from error
        received = b""
        while True:
            try:
                found = read_head(received)
            except ValueError as error:
                raise broken(who) from error
            if found is None:
                received += await self._read() or self._cut()
                continue
            received = received[found.size :]
            if found.status >= 200:
                self._head, self._begun = found, received
                return found

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The body in the pieces in which the network brought it, however many pieces its server made of it."""
        body, data = self._head.body, self._begun
        while True:
            try:
                content = body.feed(data)
            except ValueError as error:
                raise broken(self._who) from error
            if content:
                yield content
            if body.is_over:
                return
            data = await self._read()
            if not data:
                if not body.lasts:
                    self._cut()
                return

    def finish(self, idle: "list[_Connection]") -> None:
        """Put it with the idle ones where it can serve another request, and close it otherwise."""
        body = self._head.body
        if self._head.lasts and body.is_over and not body.rest and not self._is_full and len(idle) < MAX_IDLE:
            self._is_silent, self._idle_since = True, anyio.current_time()
            idle.append(self)
        else:
            self.abort()

    async def _read(self) -> bytes:
        """Return what came since the last read, or comes next; nothing once the server has ended the connection."""
        while not self._unread and not self._ended:
            await self._changed()
        received = b"".join(self._unread)
        self._unread.clear()
        if self._unread_bytes > READ_BUFFER_BYTES and not self._ended:
            self._transport.resume_reading()
        self._unread_bytes = 0
        if not received and self._error is not None:
            raise broken(self._who) from self._error
        return received

    def _cut(self) -> NoReturn:
        raise broken(self._who)

    async def _changed(self) -> None:
        self._change = asyncio.get_running_loop().create_future()
        await self._change

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


def unreachable(who: str, host: str, error: Exception) -> ProviderError:
    """The error of a connection that did not come about."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ProviderConnectionError(
            f"{who} cannot be reached safely: the certificate of {host} is not trusted. Check its base_url and the "
            "clock; where a proxy of the network signs certificates, name its own one in SSL_CERT_FILE."
        )
    return ProviderConnectionError(
        f"{who} cannot be reached at {host}; check the network, the proxy and the provider's base_url."
    )


def broken(who: str) -> ProviderError:
    """The error of a connection that broke, or on which something else than HTTP came."""
    return ProviderConnectionError(f"The connection to {who} broke; try again.")


def unsendable(who: str) -> ProviderError:
    """The error of a request that cannot be written. Without what is wrong: that may be a key."""
    return ProviderRequestError(
        f"The address, key or headers of {who} hold characters that cannot be sent; check its configuration."
    )
