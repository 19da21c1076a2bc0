"""HTTP through a proxy that the environment names, and for libraries that ask from a thread: by httpx.

Owns: httpx's clients for this, and the translation of its errors. Must not know: the time that an answer may take, and
what a request means. Imported only where it is needed: httpx takes 0.1 s.
"""

import ssl
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import cast

from pattern_acp.providers.http_errors import ProviderProtocolError
from pattern_acp.providers.http_transport import (
    USUAL_HEADERS,
    WRITE_SECONDS,
    RawRequest,
    RawResponse,
    broken,
    unreachable,
    unsendable,
)

EXCHANGE_BYTES = 1024 * 1024
"""Limit for an answer with a token, which has some kilobytes."""


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


class ProxiedTransport:
    """`DirectTransport` for an environment that names proxies.

    Raises:
        ImportError: a proxy needs a library that is not there.
        ValueError: an address of a proxy is none.
    """

    def __init__(self, tls: ssl.SSLContext, connect_seconds: float, idle_seconds: float) -> None:
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=idle_seconds)
        # Reading is bounded by the caller: httpx knows one limit for the first byte and all others.
        timeout = httpx.Timeout(None, connect=connect_seconds, write=WRITE_SECONDS, pool=connect_seconds)
        try:
            # Without `verify`, httpx would read all certificates once more for every proxy that a variable names.
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, verify=tls, headers=USUAL_HEADERS)
        except httpx.InvalidURL as error:
            raise ValueError("no address of a proxy") from error

    async def send(self, request: RawRequest) -> RawResponse:
        """See `DirectTransport.send`."""
        with _translated(request.who):
            built = self._client.build_request(
                request.method, request.url, headers=dict(request.headers), content=request.body
            )
            response = await self._client.send(built, stream=True)
        return RawResponse(response.status_code, _lower(response), _body(response, request.who), response.aclose)

    async def aclose(self) -> None:
        """See `DirectTransport.aclose`."""
        await self._client.aclose()


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
        return response.status_code, _lower(response), bytes(found)


def _lower(response: httpx.Response) -> Mapping[str, str]:
    return {name.lower(): text for name, text in response.headers.items()}


async def _body(response: httpx.Response, who: str) -> AsyncGenerator[bytes, None]:
    with _translated(who):
        async for piece in response.aiter_raw():
            yield piece


@contextmanager
def _translated(who: str) -> Generator[None]:
    try:
        yield
    except httpx.DecodingError as error:
        raise ProviderProtocolError(f"{who} sent a body that cannot be unpacked; check its base_url.") from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
        raise unsendable(who) from None
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise unreachable(who, error.request.url.host, error) from error
    except httpx.HTTPError as error:
        raise broken(who) from error
