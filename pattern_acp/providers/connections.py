"""Connections of our own to model servers: HTTP/1.1 over h11, kept open from one request to the next.

Owns: addresses, connecting (with TLS where the address says so), which connection can be used again, and unpacking.
Must not know: proxies (`httpx_client.py` has those), deadlines of answers, and what a body means.

Why not httpx for all: of each request it takes 1 ms that h11 alone does not, and of a start 40 ms (ADR 0027).
"""

import select
import ssl
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.providers.exchanges import Asked, broken, unpackable, unreachable, unsendable

KEPT_SECONDS = 30.0
"""How long a connection that nobody uses is kept. Servers keep theirs for a minute or more, and what they close before
is noticed; but a network between may forget a silent one without a word."""

KEPT = 8
"""Connections that are kept to one server: subagents ask side by side."""

READ_BYTES = 65_536

HEAD_BYTES = 100 * 1024
"""Largest head of an answer, which is held in memory."""

JOINED_BYTES = 65_536
"""Up to this size a body goes out together with its head: one packet less, and no copy of megabytes."""

_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, h11.RemoteProtocolError)
"""What reading and writing raise when the other side is gone or speaks no HTTP. `TimeoutError` is an `OSError`."""

_PATH_CHARACTERS = "/%:@!$&'()*+,;=~-._[]?"
"""What an address may hold as it is (RFC 3986); everything else is written in percent signs."""

_ACCEPTED = (("accept", "*/*"), ("accept-encoding", "gzip, deflate"), ("connection", "keep-alive"))

Unpack = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes. `host` is as it is connected to, `named` as the server is told."""

    is_secure: bool
    host: str
    port: int
    named: str
    target: str
    login: str
    """`user:password` of the address; empty without."""


class Connections:
    """`Sender` over connections of our own. `context` has the certificates; without one, only plain HTTP is spoken."""

    def __init__(self, *, connect_seconds: float, write_seconds: float, context: ssl.SSLContext | None = None) -> None:
        self._connect_seconds = connect_seconds
        self._write_seconds = write_seconds
        self._context = context
        self._kept: dict[tuple[bool, str, int], list[OpenConnection]] = {}

    async def send(self, asked: Asked) -> "ConnectionAnswer":
        """See `Sender.send`."""
        place, head = request_of(asked)
        connection = await self._take(place) or await self._connect(asked.who, place)
        try:
            return await self._exchange(connection, asked, head)
        except BaseException as error:
            await connection.close()
            if isinstance(error, _BROKEN):
                raise broken(asked.who) from error
            if isinstance(error, h11.LocalProtocolError):
                # The error's own text may hold a header's value, and a key is one.
                raise unsendable(asked.who) from None
            raise

    async def _exchange(self, connection: "OpenConnection", asked: Asked, head: h11.Request) -> "ConnectionAnswer":
        out = [connection.state.send(head) or b""]
        if asked.body:
            out.append(connection.state.send(h11.Data(data=asked.body)) or b"")
        connection.state.send(h11.EndOfMessage())
        if sum(map(len, out)) <= JOINED_BYTES:
            out = [b"".join(out)]
        try:
            with anyio.fail_after(self._write_seconds):
                for data in out:
                    await connection.stream.send(data)
        except TimeoutError:
            raise
        except (OSError, anyio.BrokenResourceError):
            # A server may refuse a request before it took all of it; what it says is worth more than this.
            pass
        response = await connection.head()
        return ConnectionAnswer(self, connection, response, asked.who)

    async def _take(self, place: Place) -> "OpenConnection | None":
        kept = self._kept.get((place.is_secure, place.host, place.port), [])
        while kept:
            connection = kept.pop()
            if connection.is_fresh():
                return connection
            await connection.close()
        return None

    async def _connect(self, who: str, place: Place) -> "OpenConnection":
        try:
            with anyio.fail_after(self._connect_seconds):
                plain = await anyio.connect_tcp(place.host, place.port)
                stream = await self._secured(plain, place) if place.is_secure else plain
        except UnicodeError:
            raise unsendable(who) from None
        except _BROKEN as error:
            raise unreachable(who, place.host, str(error)) from error
        return OpenConnection(stream, (place.is_secure, place.host, place.port))

    async def _secured(self, plain: ByteStream, place: Place) -> ByteStream:
        try:
            return await TLSStream.wrap(
                plain, server_side=False, hostname=place.host, ssl_context=self._context, standard_compatible=False
            )
        except BaseException:
            await anyio.aclose_forcefully(plain)
            raise

    async def give_back(self, connection: "OpenConnection") -> None:
        """Keep a connection whose answer is read for the next request, or close it."""
        kept = self._kept.setdefault(connection.key, [])
        if len(kept) < KEPT and connection.begin_anew():
            kept.append(connection)
        else:
            await connection.close()

    async def aclose(self) -> None:
        """See `Sender.aclose`."""
        kept, self._kept = self._kept, {}
        for connections in kept.values():
            for connection in connections:
                await connection.close()


class ConnectionAnswer:
    """`Answer` on one of `Connections`."""

    def __init__(self, owner: Connections, connection: "OpenConnection", response: h11.Response, who: str) -> None:
        self.status = response.status_code
        self.headers = _by_name(response)
        self._owner = owner
        self._connection: OpenConnection | None = connection
        self._who = who
        self._is_whole = False
        self._unpack = _unpacking(self.headers.get("content-encoding", ""))

    async def piece(self) -> bytes | None:
        """See `Answer.piece`."""
        if self._is_whole or self._connection is None:
            return None
        try:
            data = await self._connection.data()
        except _BROKEN as error:
            raise broken(self._who) from error
        if data is None:
            self._is_whole = True
            return None
        try:
            return self._unpack(data) if self._unpack is not None else data
        except zlib.error as error:
            raise unpackable(self._who) from error

    async def aclose(self) -> None:
        """See `Answer.aclose`."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._is_whole:
            await self._owner.give_back(connection)
        else:
            await connection.close()


class OpenConnection:
    """An open connection and where in HTTP it is. Those with the same `key` lead to one server."""

    def __init__(self, stream: ByteStream, key: tuple[bool, str, int]) -> None:
        self.stream = stream
        self.key = key
        self.state = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._unused_since = anyio.current_time()

    async def head(self) -> h11.Response:
        """The head of the answer. Raises one of `_BROKEN` when there is none."""
        while True:
            event = self.state.next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                await self._receive()
            elif not isinstance(event, h11.InformationalResponse):
                raise anyio.EndOfStream

    async def data(self) -> bytes | None:
        """All of the body that is here; waits for something. None at the end. Raises one of `_BROKEN`."""
        found: list[bytes] = []
        while self.state.their_state is h11.SEND_BODY:
            try:
                event = self.state.next_event()
            except h11.RemoteProtocolError:
                # Raised again when the next piece is asked for: what came before it counts.
                if not found:
                    raise
                break
            if isinstance(event, h11.Data):
                found.append(bytes(event.data))
            elif event is h11.NEED_DATA:
                if found:
                    break
                await self._receive()
        if not found:
            if self.state.their_state is h11.ERROR:
                # Raises what is wrong with the answer.
                self.state.next_event()
            return None
        return found[0] if len(found) == 1 else b"".join(found)

    def begin_anew(self) -> bool:
        """Get ready for the next request; says whether there can be one on this connection."""
        state = self.state
        if state.our_state is not h11.DONE or state.their_state is not h11.DONE or state.trailing_data[0]:
            return False
        state.start_next_cycle()
        self._unused_since = anyio.current_time()
        return True

    def is_fresh(self) -> bool:
        """Whether it may be used again: not kept for long, and nothing has come, which would be the server's end."""
        if anyio.current_time() - self._unused_since > KEPT_SECONDS:
            return False
        socket = self.stream.extra(SocketAttribute.raw_socket)  # noqa: S610  # anyio's, no query
        return not _is_readable(socket.fileno())

    async def close(self) -> None:
        """Close at once, without words."""
        await anyio.aclose_forcefully(self.stream)

    async def _receive(self) -> None:
        try:
            data = await self.stream.receive(READ_BYTES)
        except anyio.EndOfStream:
            # How a body without a length ends; h11 knows whether this was one.
            data = b""
        self.state.receive_data(data)


def request_of(asked: Asked) -> tuple[Place, h11.Request]:
    """Where a request goes, and its head.

    Raises:
        ProviderRequestError: the address or a header cannot be used.
    """
    try:
        place = _place(asked.url)
        given = {name.lower(): value for name, value in asked.headers.items()}
        headers = [("host", place.named), *(each for each in _ACCEPTED if each[0] not in given)]
        if place.login and "authorization" not in given:
            from base64 import b64encode

            headers.append(("authorization", f"Basic {b64encode(place.login.encode()).decode()}"))
        if asked.body is not None:
            headers.append(("content-length", str(len(asked.body))))
        pairs = [(name.encode("ascii"), value.encode("ascii")) for name, value in (*headers, *given.items())]
        return place, h11.Request(method=asked.method, target=place.target, headers=pairs)
    except (ValueError, h11.LocalProtocolError):
        raise unsendable(asked.who) from None


@lru_cache(maxsize=16)
def _place(url: str) -> Place:
    """Taken apart once: each provider has one or two addresses.

    Raises:
        ValueError: it is no address that HTTP can be spoken to.
    """
    parts = urlsplit(url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    if parts.scheme not in {"http", "https"} or not host or any(character <= " " for character in host):
        raise ValueError(url)
    if not host.isascii():
        import idna

        host = idna.encode(host).decode("ascii")
    usual = 443 if is_secure else 80
    named = f"[{host}]" if ":" in host else host
    port = parts.port or usual
    target = quote(parts.path or "/", safe=_PATH_CHARACTERS)
    if parts.query:
        target += f"?{quote(parts.query, safe=_PATH_CHARACTERS)}"
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if parts.username else ""
    return Place(is_secure, host, port, named if port == usual else f"{named}:{port}", target, login)


def _by_name(response: h11.Response) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in response.headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _unpacking(encoding: str) -> Unpack | None:
    """What unpacks each piece of a body; None for one that is not packed, or not in a way that was offered."""
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress
        case "deflate":
            return _Deflated().unpack
        case _:
            return None


class _Deflated:
    """`deflate` is zlib's format (RFC 9110, section 8.4.1.2), and some servers send it without zlib's head."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self._has_begun = False

    def unpack(self, data: bytes) -> bytes:
        """Unpack one piece. Raises zlib.error."""
        has_begun, self._has_begun = self._has_begun, True
        try:
            return self._stream.decompress(data)
        except zlib.error:
            if has_begun:
                raise
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._stream.decompress(data)


def _is_readable(descriptor: int) -> bool:
    if hasattr(select, "poll"):
        looked = select.poll()
        looked.register(descriptor, select.POLLIN)
        return bool(looked.poll(0))
    return bool(select.select([descriptor], [], [], 0)[0])
