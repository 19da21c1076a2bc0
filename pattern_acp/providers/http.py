"""The only module that knows httpx.

Owns: the process's HTTP clients, their time limits, and the translation of httpx's errors. Must not know: wires, models
and what a body means.
"""

import email.utils
import ipaddress
import ssl
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import anyio.to_thread
import httpx

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.errors import (
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
)

CONNECT_SECONDS = 10.0
"""A host that does not answer a connection within this is not there."""

WRITE_SECONDS = 60.0
"""A request with images can be megabytes on a slow line."""

ERROR_BODY_BYTES = 64 * 1024
"""As much of an error's body as is read; the reason is at its start."""


class HttpResponse:
    """A response whose body has not been read yet."""

    def __init__(self, response: httpx.Response, who: str, now_ms: int) -> None:
        self._response = response
        self._who = who
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.retry_after_ms = parse_retry_after(response.headers, now_ms)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            ProviderStalledError: nothing came for longer than the idle limit.
            ProviderConnectionError: the connection broke.
            ProviderProtocolError: the body's compression is broken.
        """
        with _translated(self._who):
            # httpx hints an iterator; it is a generator, closed with the response that `post` holds open.
            async for chunk in self._response.aiter_bytes():
                yield chunk

    async def read(self, limit: int = ERROR_BODY_BYTES) -> bytes:
        """At most about `limit` bytes of the body. Raises like `chunks`."""
        body = bytearray()
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= limit:
                    break
        return bytes(body[:limit])


class HttpClient:
    """One connection pool for the process, built at first use.

    Loopback servers get a client of their own without proxies and without certificates: a proxy from the environment
    must not see them, and loading certificates takes about 0.1 s that they do not need.
    """

    def __init__(self, idle_seconds: float, clock: Clock) -> None:
        self._timeout = httpx.Timeout(idle_seconds, connect=CONNECT_SECONDS, write=WRITE_SECONDS, pool=CONNECT_SECONDS)
        self._clock = clock
        self._lock = threading.Lock()
        self._remote: httpx.AsyncClient | None = None
        self._local: httpx.AsyncClient | None = None

    def warm(self, url: str) -> None:
        """Build the client for `url`. Blocking (certificates); for a worker thread, and safe from any.

        Raises:
            ProviderRequestError: the environment names certificates or a proxy that cannot be used.
        """
        if is_plain_loopback(url):
            self._local_client()
        else:
            self._remote_client()

    def post(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send `request` and give the response once its headers are there.

        Raises:
            ProviderConnectionError: the server cannot be reached.
            ProviderStalledError: it took the request and answered nothing within the idle limit.
            ProviderRequestError: the address, a header, the certificates or the proxy cannot be used.
        """
        return self._post(request)

    @asynccontextmanager
    async def _post(self, request: HttpRequest) -> AsyncGenerator[HttpResponse, None]:
        with _translated(request.who):
            client = await self._client(request.url)
            async with client.stream(
                "POST", request.url, headers=dict(request.headers), content=request.body
            ) as response:
                yield HttpResponse(response, request.who, self._clock.now_ms())

    async def get(self, who: str, url: str, headers: Mapping[str, str], limit: int) -> tuple[int, bytes]:
        """The status and at most `limit` bytes of the body. Raises like `post`; the caller bounds the time."""
        with _translated(who):
            client = await self._client(url)
            async with client.stream("GET", url, headers=dict(headers)) as response:
                answered = HttpResponse(response, who, self._clock.now_ms())
                return answered.status, await answered.read(limit)

    async def aclose(self) -> None:
        """Close all connections; the client can be used again afterwards."""
        with self._lock:
            clients, self._remote, self._local = (self._remote, self._local), None, None
        for client in clients:
            if client is not None:
                await client.aclose()

    async def _client(self, url: str) -> httpx.AsyncClient:
        if is_plain_loopback(url):
            return self._local_client()
        return self._remote or await anyio.to_thread.run_sync(self._remote_client)

    def _remote_client(self) -> httpx.AsyncClient:
        with self._lock:
            if self._remote is None:
                self._remote = _build_remote_client(self._timeout)
            return self._remote

    def _local_client(self) -> httpx.AsyncClient:
        with self._lock:
            if self._local is None:
                # An empty trust store: this client only ever speaks plain HTTP.
                bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                self._local = httpx.AsyncClient(timeout=self._timeout, trust_env=False, verify=bare)
            return self._local


def _build_remote_client(timeout: httpx.Timeout) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(timeout=timeout)
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        # A missing SSL_CERT_FILE, a proxy without a scheme, a SOCKS proxy: all of them come from the environment. The
        # error's own text may hold a proxy's password.
        raise ProviderRequestError(
            f"No connection can be set up ({type(error).__name__}); check SSL_CERT_FILE, SSL_CERT_DIR and the proxy "
            "variables (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY)."
        ) from None


def is_plain_loopback(url: str) -> bool:
    """Whether `url` is plain HTTP to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        # No URL, or a host that is a name.
        return False


def parse_retry_after(headers: Mapping[str, str], now_ms: int) -> int | None:
    """Milliseconds to wait by `retry-after-ms` or `Retry-After` (RFC 9110, section 10.2.3); None when neither says."""
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = headers.get(name, "").strip()
        try:
            return max(0, int(float(text) * factor))
        except (ValueError, OverflowError):
            pass
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0, int(at.timestamp() * 1000) - now_ms)


@contextmanager
def _translated(who: str) -> Generator[None]:
    try:
        yield
    except httpx.ReadTimeout as error:
        raise ProviderStalledError(f"{who} sent nothing for too long; try again, or choose another model.") from error
    except httpx.DecodingError as error:
        raise ProviderProtocolError(f"{who} sent a body that cannot be unpacked; check its base_url.") from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
        # The error's own text may hold a header's value, and a key is one.
        raise ProviderRequestError(
            f"The address, key or headers of {who} hold characters that cannot be sent; check its configuration."
        ) from None
    except httpx.HTTPError as error:
        raise _connection_error(who, error) from error


def _connection_error(who: str, error: httpx.HTTPError) -> ProviderError:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        host = error.request.url.host
        return ProviderConnectionError(
            f"{who} cannot be reached at {host}; check the network, the proxy and the provider's base_url."
        )
    return ProviderConnectionError(f"The connection to {who} broke; try again.")
