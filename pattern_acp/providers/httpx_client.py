"""The only module of providers that knows httpx.

Owns: requests through a proxy that the environment names, and those of libraries that ask from worker threads; and the
translation of httpx's errors. Must not know: wires, models and what a body means.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.left_out import LeftOut
from pattern_acp.providers.errors import ProviderProtocolError, ProviderRequestError
from pattern_acp.providers.exchanges import Asked, broken, unpackable, unreachable, unsendable

with LeftOut("httpx._main"):
    # Its command line, and with it click, pygments and rich, which come with mcp and with ours: they take longer to
    # import than all the rest of httpx.
    import httpx

EXCHANGE_BYTES = 1024 * 1024
"""An answer that holds a token has some kilobytes."""


class HttpxSender:
    """`Sender` over httpx, with the proxies and certificates of the environment."""

    def __init__(self, *, connect_seconds: float, write_seconds: float) -> None:
        """Blocking (certificates); for a worker thread.

        Raises:
            ProviderRequestError: a SOCKS proxy is named, which takes a package of its own.
            OSError: the certificates cannot be read.
            ValueError: a proxy's address cannot be used.
        """
        # Reading is bounded by whoever reads, since httpx knows one limit for the first byte and all others.
        timeout = httpx.Timeout(None, connect=connect_seconds, write=write_seconds, pool=connect_seconds)
        try:
            # Given, since httpx would read all certificates once more for every proxy that a variable names.
            self._client = httpx.AsyncClient(timeout=timeout, verify=httpx.create_ssl_context())
        except ImportError:
            raise ProviderRequestError(
                "A SOCKS proxy cannot be used; name an HTTP proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."
            ) from None
        except httpx.InvalidURL as error:
            raise ValueError("a proxy's address cannot be used") from error

    async def send(self, asked: Asked) -> "HttpxAnswer":
        """See `Sender.send`."""
        with _translated(asked.who):
            url = _parsed(asked.url)
            request = self._client.build_request(asked.method, url, headers=dict(asked.headers), content=asked.body)
            return HttpxAnswer(await self._client.send(request, stream=True), asked.who)

    async def aclose(self) -> None:
        """See `Sender.aclose`."""
        await self._client.aclose()


class HttpxAnswer:
    """`Answer` of httpx."""

    def __init__(self, response: httpx.Response, who: str) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): text for name, text in response.headers.items()}
        self._response = response
        self._who = who
        self._body = response.aiter_bytes()

    async def piece(self) -> bytes | None:
        """See `Answer.piece`."""
        with _translated(self._who):
            return await anext(self._body, None)

    async def aclose(self) -> None:
        """See `Answer.aclose`."""
        await self._response.aclose()


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


@contextmanager
def _translated(who: str) -> Generator[None]:
    try:
        yield
    except httpx.DecodingError as error:
        raise unpackable(who) from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
        # The error's own text may hold a header's value, and a key is one.
        raise unsendable(who) from None
    except httpx.HTTPError as error:
        raise _connection_error(who, error) from error


def _connection_error(who: str, error: httpx.HTTPError) -> ProviderError:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return unreachable(who, error.request.url.host, str(error))
    return broken(who)
