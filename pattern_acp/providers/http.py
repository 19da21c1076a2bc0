"""The only module that knows httpx.

Owns: the process's HTTP clients, their time limits, and the translation of httpx's errors. Must not know: wires, models
and the meaning of a body.
"""

import email.utils
import ipaddress
import ssl
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from functools import lru_cache
from http.cookiejar import CookieJar
from types import ModuleType, TracebackType
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http_errors import (
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
    ProviderTooSlowError,
)


class SkippedImport:
    """A context in which the import of one module fails as if it were not installed.

    Only for a module that its library does without when it is missing. It can be imported again afterwards; a thread
    that imports it at the same moment gets what this one gets.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        # Python's own sign for a module that must not be imported. Loaded modules stay.
        sys.modules.setdefault(self._module, cast("ModuleType", None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.modules.get(self._module) is None:
            sys.modules.pop(self._module, None)


with SkippedImport("httpx._main"):
    # Its command line, and with it click, pygments and rich, which come with mcp and with ours: they take longer to
    # import than all the rest of httpx.
    import httpx

    from pattern_acp.providers.http_transport import ReusingTransport

WRITE_SECONDS = 60.0
"""A request with images can be megabytes on a slow line."""

ERROR_BODY_BYTES = 64 * 1024
"""Bytes of an error's body that are read; the reason is at its start."""

IDLE_SECONDS = 30.0
"""The life of an idle connection; httpx's own 5 s cost a new handshake after each command that took longer."""

EXCHANGE_BYTES = 1024 * 1024
"""Limit for an answer with a token, which has some kilobytes."""


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

    def __init__(self, response: httpx.Response, who: str, now_ms: int, deadlines: Deadlines, began: float) -> None:
        self._response = response
        self._who = who
        self._deadlines = deadlines
        self._began = began
        self._has_body = False
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.retry_after_ms = parse_retry_after(response.headers, now_ms)
        self.rate_headers = {name.lower(): text for name, text in response.headers.items() if "ratelimit" in name}
        """Headers of the server about its limits, names in lower case (providers/rate_limiter.py)."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            ProviderStalledError: the first byte or the next one did not come in time.
            ProviderTooSlowError: the whole took longer than it may.
            ProviderConnectionError: the connection broke.
            ProviderProtocolError: the body's compression is broken.
        """
        with _translated(self._who):
            body = self._body()
            while (chunk := await self._next(body)) is not None:
                self._has_body = True
                yield chunk

    def _body(self) -> AsyncIterator[bytes]:
        # Closed with the response in `post`.
        stream = self._response.stream
        if "content-encoding" in self._response.headers or not isinstance(stream, httpx.AsyncByteStream):
            return self._response.aiter_bytes()
        # Nothing has to be unpacked, so what httpx would pass each piece through is left out.
        return aiter(stream)

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
    """One connection pool for the process, built at first use.

    Loopback servers get a client of their own without proxies and without certificates: a proxy from the environment
    must not see them, and loading certificates takes about 0.1 s that they do not need.
    """

    def __init__(self, deadlines: Deadlines, clock: Clock) -> None:
        connect = deadlines.connect
        # Reading is bounded here and not in httpx, which knows one limit for the first byte and all others.
        self._timeout = httpx.Timeout(None, connect=connect, write=WRITE_SECONDS, pool=connect)
        self._deadlines = deadlines
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
        with _translated(who):
            client = await self._client(url)
            request = client.build_request(method, _parsed(url), headers=dict(headers), content=body)
            began, patience = anyio.current_time(), self._deadlines.first_byte
            try:
                with anyio.fail_after(patience):
                    response = await client.send(request, stream=True)
            except TimeoutError:
                raise _stalled(who, patience) from None
            try:
                yield HttpResponse(response, who, self._clock.now_ms(), self._deadlines, began)
            finally:
                await response.aclose()

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
                self._local = _direct_client(self._timeout, None)
            return self._local


def exchange(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float, who: str
) -> tuple[int, Mapping[str, str], bytes]:
    """One request, for a library that asks from a worker thread: status, headers and at most `EXCHANGE_BYTES`.

    Blocking. A plain address is one of this machine or of its network, which no proxy may see.

    Raises:
        ProviderError: as `HttpClient.post`.
    """
    with (
        _translated(who),
        httpx.Client(timeout=seconds, trust_env=url.startswith("https:")) as client,
        client.stream(method, url, headers=dict(headers), content=body) as response,
    ):
        found = bytearray()
        for chunk in response.iter_bytes():
            found += chunk
            if len(found) > EXCHANGE_BYTES:
                raise ProviderProtocolError(f"{who} answered with more than {EXCHANGE_BYTES} bytes.")
        return response.status_code, {name.lower(): text for name, text in response.headers.items()}, bytes(found)


@lru_cache(maxsize=16)
def _parsed(url: str) -> httpx.URL:
    """Each provider has one or two addresses, and taking one apart takes 0.1 ms."""
    return httpx.URL(url)


class _RareCookies(httpx.Cookies):
    """Cookies that are looked for only in an answer that sets one: looking takes 0.1 ms, and hardly a server does."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """See `httpx.Cookies.extract_cookies`."""
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


class DirectClient(httpx.AsyncClient):
    """A client without proxies, over `transport`."""

    def __init__(self, timeout: httpx.Timeout, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(timeout=timeout, transport=transport, trust_env=False)
        self._rare_cookies = _RareCookies()

    @property
    def cookies(self) -> httpx.Cookies:
        """Cookies that servers have set."""
        return self._rare_cookies

    @cookies.setter
    def cookies(self, cookies: httpx.Cookies | CookieJar | dict[str, str] | list[tuple[str, str]]) -> None:
        self._rare_cookies = _RareCookies(cookies)


def _direct_client(timeout: httpx.Timeout, tls: ssl.SSLContext | None) -> httpx.AsyncClient:
    return DirectClient(timeout, ReusingTransport(tls, IDLE_SECONDS))


def _build_remote_client(timeout: httpx.Timeout) -> httpx.AsyncClient:
    try:
        tls = httpx.create_ssl_context()
        if not getproxies():
            tls.set_alpn_protocols(["http/1.1"])
            return _direct_client(timeout, tls)
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_SECONDS)
        # Without `verify`, httpx would read all certificates once more for every proxy that a variable names.
        return httpx.AsyncClient(timeout=timeout, limits=limits, verify=tls)
    except ImportError:
        raise ProviderRequestError(
            "A SOCKS proxy cannot be used; name an HTTP proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."
        ) from None
    except (OSError, ValueError, httpx.InvalidURL) as error:
        # A missing SSL_CERT_FILE, a proxy of an unknown scheme: all of them come from the environment. The error's own
        # text may contain a proxy's password.
        raise ProviderRequestError(
            f"No connection can be set up ({type(error).__name__}); check SSL_CERT_FILE, SSL_CERT_DIR and the proxy "
            "variables (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY)."
        ) from None


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
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0, int(at.timestamp() * 1000) - now_ms)


@contextmanager
def _translated(who: str) -> Generator[None]:
    try:
        yield
    except httpx.DecodingError as error:
        raise ProviderProtocolError(f"{who} sent a body that cannot be unpacked; check its base_url.") from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
        # The error's own text may contain a header's value, and a key is one.
        raise ProviderRequestError(
            f"The address, key or headers of {who} hold characters that cannot be sent; check its configuration."
        ) from None
    except httpx.HTTPError as error:
        raise _connection_error(who, error) from error


def _stalled(who: str, seconds: float) -> ProviderStalledError:
    return ProviderStalledError(f"{who} sent nothing for {seconds:g} s; try again, or choose another model.")


def _connection_error(who: str, error: httpx.HTTPError) -> ProviderError:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        host = error.request.url.host
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ProviderConnectionError(
                f"{who} cannot be reached safely: the certificate of {host} is not trusted. Check its base_url and the "
                "clock; where a proxy of the network signs certificates, name its own one in SSL_CERT_FILE."
            )
        return ProviderConnectionError(
            f"{who} cannot be reached at {host}; check the network, the proxy and the provider's base_url."
        )
    return ProviderConnectionError(f"The connection to {who} broke; try again.")
