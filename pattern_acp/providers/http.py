"""HTTP as providers use it: one client for the process.

Owns: which way a request goes (connections of our own, or httpx where the environment names a proxy), certificates, and
how long an answer may take. Must not know: wires, models and what a body means.
"""

import email.utils
import ipaddress
import ssl
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from pattern_acp.config.load import process_environment
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.providers.connections import Connections
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.errors import ProviderRequestError, ProviderStalledError, ProviderTooSlowError
from pattern_acp.providers.exchanges import Answer, Asked, Sender

WRITE_SECONDS = 60.0
"""A request with images can be megabytes on a slow line."""

ERROR_BODY_BYTES = 64 * 1024
"""As much of an error's body as is read; the reason is at its start."""

_PROXIES = frozenset({"http", "https", "all"})
"""What a proxy can be named for."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long one request may take, in seconds; config/settings.py says where the numbers are from."""

    connect: float = 10.0
    first_byte: float = 300.0
    """From sending to the first byte of the body: a slow machine reads the whole conversation in it."""
    idle: float = 90.0
    """Between two pieces of the body."""
    total: float = 1800.0
    """From sending to the end of the body, however steadily it drips."""


class HttpResponse:
    """A response whose body has not been read yet. `began` is when its request was sent, by the event loop's clock."""

    def __init__(self, answer: Answer, who: str, now_ms: int, deadlines: Deadlines, began: float) -> None:
        self._answer = answer
        self._who = who
        self._deadlines = deadlines
        self._began = began
        self._has_body = False
        headers = answer.headers
        self.status = answer.status
        self.content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self.retry_after_ms = parse_retry_after(headers, now_ms)
        self.rate_headers = {name: text for name, text in headers.items() if "ratelimit" in name}
        """What the server says of its limits, names in lower case (providers/buckets.py)."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes.

        Raises:
            ProviderStalledError: the first byte or the next one did not come in time.
            ProviderTooSlowError: the whole took longer than it may.
            ProviderConnectionError: the connection broke.
            ProviderProtocolError: the body's compression is broken.
        """
        while (chunk := await self._next()) is not None:
            self._has_body = True
            yield chunk

    async def _next(self) -> bytes | None:
        limits, now = self._deadlines, anyio.current_time()
        patience = now + limits.idle if self._has_body else self._began + limits.first_byte
        end = self._began + limits.total
        # `fail_after` is the same in twice the time, and this runs for every piece of every answer.
        with anyio.CancelScope(deadline=max(min(patience, end), now)):
            return await self._answer.piece()
        if end <= patience:
            raise ProviderTooSlowError(
                f"{self._who} took longer than {limits.total:g} s for one answer; choose a faster model, or raise "
                "turn.provider_total_seconds."
            )
        raise _stalled(self._who, limits.idle if self._has_body else limits.first_byte)

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
    """One pool of connections for the process, built at first use.

    Loopback servers get one of their own without proxies and without certificates: a proxy from the environment must
    not see them, and loading certificates takes about 0.1 s that they do not need.
    """

    def __init__(self, deadlines: Deadlines, clock: Clock) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._lock = threading.Lock()
        self._remote: Sender | None = None
        self._local = Connections(connect_seconds=deadlines.connect, write_seconds=WRITE_SECONDS)

    def warm(self, url: str) -> None:
        """Get ready for requests to `url`. Blocking (certificates); for a worker thread, and safe from any.

        Raises:
            ProviderRequestError: the environment names certificates or a proxy that cannot be used.
        """
        if not is_plain_loopback(url):
            self._remote_sender()

    def post(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send `request` and give the response once its headers are there.

        Raises:
            ProviderConnectionError: the server cannot be reached.
            ProviderStalledError: it took the request and answered nothing within the limit for the first byte.
            ProviderRequestError: the address, a header, the certificates or the proxy cannot be used.
        """
        return self._open(Asked("POST", request.who, request.url, request.headers, request.body))

    async def get(self, who: str, url: str, headers: Mapping[str, str], limit: int) -> tuple[int, bytes]:
        """The status and at most `limit` bytes of the body. Raises like `post`."""
        async with self._open(Asked("GET", who, url, headers)) as response:
            return response.status, await response.read(limit)

    @asynccontextmanager
    async def _open(self, asked: Asked) -> AsyncGenerator[HttpResponse, None]:
        sender = self._local if is_plain_loopback(asked.url) else self._remote
        if sender is None:
            sender = await anyio.to_thread.run_sync(self._remote_sender)
        began, patience = anyio.current_time(), self._deadlines.first_byte
        try:
            with anyio.fail_after(patience):
                answer = await sender.send(asked)
        except TimeoutError:
            raise _stalled(asked.who, patience) from None
        try:
            yield HttpResponse(answer, asked.who, self._clock.now_ms(), self._deadlines, began)
        finally:
            await answer.aclose()

    async def aclose(self) -> None:
        """Close all connections; the client can be used again afterwards."""
        with self._lock:
            remote, self._remote = self._remote, None
        await self._local.aclose()
        if remote is not None:
            await remote.aclose()

    def _remote_sender(self) -> Sender:
        with self._lock:
            if self._remote is None:
                self._remote = _build_remote(self._deadlines.connect)
            return self._remote


def _build_remote(connect_seconds: float) -> Sender:
    # Late: what finds the proxies imports as much as a start can do without when its model is on this machine.
    from urllib.request import getproxies

    try:
        if not _PROXIES.isdisjoint(getproxies()):
            from pattern_acp.providers.httpx_client import HttpxSender

            return HttpxSender(connect_seconds=connect_seconds, write_seconds=WRITE_SECONDS)
        context = _trusting(process_environment())
    except (OSError, ValueError) as error:
        # A missing SSL_CERT_FILE, a proxy of an unknown scheme: all of them come from the environment. The error's own
        # text may hold a proxy's password.
        raise ProviderRequestError(
            f"No connection can be set up ({type(error).__name__}); check SSL_CERT_FILE, SSL_CERT_DIR and the proxy "
            "variables (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY)."
        ) from None
    return Connections(connect_seconds=connect_seconds, write_seconds=WRITE_SECONDS, context=context)


def _trusting(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Certificates by the variables that OpenSSL knows, or those that certifi has. As httpx chooses them."""
    if file := environment.get("SSL_CERT_FILE"):
        context = ssl.create_default_context(cafile=file)
    elif folder := environment.get("SSL_CERT_DIR"):
        context = ssl.create_default_context(capath=folder)
    else:
        import certifi

        context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


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


def _stalled(who: str, seconds: float) -> ProviderStalledError:
    return ProviderStalledError(f"{who} sent nothing for {seconds:g} s; try again, or choose another model.")
