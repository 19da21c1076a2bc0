"""HTTP for requests to models and for what belongs to them: which way they take, and how long an answer may take.

Owns: the process's connections, their time limits, and unpacking. Must not know: wires, models and the meaning of a
body.
"""

import ipaddress
import ssl
import sys
import threading
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import UTC
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.config.load import process_environment
from pattern_acp.domain.clock import Clock
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http_errors import (
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
    ProviderTooSlowError,
)
from pattern_acp.providers.http_transport import DirectTransport, RawRequest, RawResponse

if TYPE_CHECKING:
    from pattern_acp.providers.http_proxies import ProxiedTransport

ERROR_BODY_BYTES = 64 * 1024
"""Bytes of an error's body that are read; the reason is at its start."""

IDLE_SECONDS = 30.0
"""The life of an idle connection; 5 s cost a new handshake after each command that took longer."""


class Deadlines(Struct, frozen=True):
    """Time limits of one request, in seconds; config/settings.py explains the numbers."""

    connect: float = 10.0
    first_byte: float = 300.0
    """From sending to the first byte of the body, during which a slow machine reads the whole conversation."""
    idle: float = 90.0
    """Between two pieces of the body."""
    total: float = 1800.0
    """From sending to the end of the body, however steadily it drips."""


class HttpResponse:
    """A response with an unread body. `began` is the time of sending its request, by the event loop's clock."""

    def __init__(self, answer: RawResponse, who: str, now_ms: int, deadlines: Deadlines, began: float) -> None:
        self._body = answer.body
        self._packing = answer.headers.get("content-encoding", "identity").lower()
        self._who = who
        self._deadlines = deadlines
        self._began = began
        self._has_body = False
        self.status = answer.status
        self.content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.retry_after_ms = parse_retry_after(answer.headers, now_ms)
        self.rate_headers = {name: text for name, text in answer.headers.items() if "ratelimit" in name}
        """Headers of the server about its limits, names in lower case (providers/rate_limiter.py)."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            ProviderStalledError: the first byte or the next one did not come in time.
            ProviderTooSlowError: the whole took longer than it may.
            ProviderConnectionError: the connection broke.
            ProviderProtocolError: the body's compression is broken.
        """
        unpacker = _Unpacker(self._who) if self._packing in _PACKINGS else None
        while (chunk := await self._next(self._body)) is not None:
            self._has_body = True
            yield chunk if unpacker is None else unpacker.feed(chunk)

    async def _next(self, body: AsyncIterator[bytes]) -> bytes | None:
        limits, now = self._deadlines, anyio.current_time()
        patience = now + limits.idle if self._has_body else self._began + limits.first_byte
        end = self._began + limits.total
        # `fail_after` is the same in twice the time, and this runs for every piece of every answer.
        with anyio.CancelScope(deadline=max(min(patience, end), now)):
            return await anext(body, None)
        if end <= patience:
            raise ProviderTooSlowError(
                f"{self._who} took longer than {limits.total:g} s for one answer; choose a faster model, or raise "
                "turn.provider_total_seconds."
            )
        raise _stalled(self._who, limits.idle if self._has_body else limits.first_byte)

    async def read(self, limit: int = ERROR_BODY_BYTES) -> bytes:
        """Read at most about `limit` bytes of the body. Raises like `chunks`."""
        body = bytearray()
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= limit:
                    break
        return bytes(body[:limit])


class HttpClient:
    """The connections of the process, made at first use.

    Loopback servers get some of their own without proxies and without certificates: a proxy from the environment must
    not see them, and loading certificates takes about 0.1 s that they do not need.
    """

    def __init__(self, deadlines: Deadlines, clock: Clock) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._lock = threading.Lock()
        self._remote: DirectTransport | ProxiedTransport | None = None
        self._local = DirectTransport(None, deadlines.connect, IDLE_SECONDS, clock)

    def warm(self, url: str) -> None:
        """Get ready for requests to `url`. Blocking (certificates); for a worker thread, and safe from any.

        Raises:
            ProviderRequestError: the environment names certificates or a proxy that cannot be used.
        """
        if not is_plain_loopback(url):
            self._built_remote()

    def post(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send `request` and return the response once its headers have come.

        Raises:
            ProviderConnectionError: the server cannot be reached.
            ProviderStalledError: it took the request and answered nothing within the limit for the first byte.
            ProviderRequestError: the address, a header, the certificates or the proxy cannot be used.
        """
        return self._post(request)

    @asynccontextmanager
    async def _post(self, request: HttpRequest) -> AsyncGenerator[HttpResponse, None]:
        opened = self._open("POST", request.who, request.url, request.headers, request.body)
        async with opened as response:
            yield response

    async def get(self, who: str, url: str, headers: Mapping[str, str], limit: int) -> tuple[int, bytes]:
        """The status and at most `limit` bytes of the body. Raises like `post`."""
        async with self._open("GET", who, url, headers) as response:
            return response.status, await response.read(limit)

    @asynccontextmanager
    async def _open(
        self, method: str, who: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncGenerator[HttpResponse, None]:
        transport = self._local if is_plain_loopback(url) else self._remote
        if transport is None:
            transport = await anyio.to_thread.run_sync(self._built_remote)
        began, patience = anyio.current_time(), self._deadlines.first_byte
        try:
            with anyio.fail_after(patience):
                answer = await transport.send(RawRequest(method, who, url, headers, body))
        except TimeoutError:
            raise _stalled(who, patience) from None
        try:
            yield HttpResponse(answer, who, self._clock.now_ms(), self._deadlines, began)
        finally:
            await answer.close()

    async def aclose(self) -> None:
        """Close all connections; the client can be used again afterwards."""
        with self._lock:
            remote, self._remote = self._remote, None
        if remote is not None:
            await remote.aclose()
        await self._local.aclose()

    def _built_remote(self) -> "DirectTransport | ProxiedTransport":
        with self._lock:
            if self._remote is None:
                self._remote = _build_remote(self._deadlines.connect, self._clock)
            return self._remote


_PACKINGS = frozenset({"gzip", "x-gzip", "deflate"})
"""Forms that we ask for; anything else is passed on as it comes."""


class _Unpacker:
    """Unpacks a body of gzip or deflate piece by piece."""

    def __init__(self, who: str) -> None:
        self._who = who
        # Both frames, told apart by their heads.
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_begun = False

    def feed(self, data: bytes) -> bytes:
        try:
            try:
                return self._inflate.decompress(data)
            except zlib.error:
                if self._is_begun:
                    raise
                # Some servers send deflate without its frame (RFC 9110, section 8.4.1.2).
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                return self._inflate.decompress(data)
            finally:
                self._is_begun = True
        except zlib.error as error:
            raise ProviderProtocolError(
                f"{self._who} sent a body that cannot be unpacked; check its base_url."
            ) from error


def _build_remote(connect_seconds: float, clock: Clock) -> "DirectTransport | ProxiedTransport":
    environ = process_environment()
    try:
        tls = _certificates(environ)
        if not _names_proxies(environ):
            tls.set_alpn_protocols(["http/1.1"])
            return DirectTransport(tls, connect_seconds, IDLE_SECONDS, clock)
        # Late: few have a proxy, and httpx takes 0.1 s.
        from pattern_acp.providers.http_proxies import ProxiedTransport

        return ProxiedTransport(tls, connect_seconds, IDLE_SECONDS)
    except ImportError:
        raise ProviderRequestError(
            "A SOCKS proxy cannot be used; name an HTTP proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."
        ) from None
    except (OSError, ValueError) as error:
        # A missing SSL_CERT_FILE, a proxy of an unknown scheme: all of them come from the environment. The error's own
        # text may contain a proxy's password.
        raise ProviderRequestError(
            f"No connection can be set up ({type(error).__name__}); check SSL_CERT_FILE, SSL_CERT_DIR and the proxy "
            "variables (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY)."
        ) from None


def _certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    if environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=environ["SSL_CERT_FILE"])
    if environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=environ["SSL_CERT_DIR"])
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _names_proxies(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names proxies; on macOS and Windows the system's settings count, too."""
    if sys.platform in {"darwin", "win32"}:
        # Late: it comes with Python's own HTTP client.
        from urllib.request import getproxies

        return bool(getproxies())
    return any(value and name.lower().endswith("_proxy") for name, value in environ.items())


def is_plain_loopback(url: str) -> bool:
    """Return whether `url` is plain HTTP to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        # No URL, or a host that is a name.
        return False


def parse_retry_after(headers: Mapping[str, str], now_ms: int) -> int | None:
    """Milliseconds to wait by `retry-after-ms` or `Retry-After` (RFC 9110, section 10.2.3); None without either."""
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = headers.get(name, "").strip()
        try:
            return max(0, int(float(text) * factor))
        except (ValueError, OverflowError):
            pass
    written = headers.get("retry-after")
    if not written:
        return None
    # Late: a date is rare.
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(written)
        # A date without a zone is one of HTTP, which knows GMT alone.
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return max(0, at_ms - now_ms)


def _stalled(who: str, seconds: float) -> ProviderStalledError:
    return ProviderStalledError(f"{who} sent nothing for {seconds:g} s; try again, or choose another model.")
