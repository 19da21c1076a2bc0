"""One HTTP request and its answer, whichever way they go.

Owns: the port `Sender`, with connections of our own (`connections.py`) and httpx (`httpx_client.py`) behind it, and the
sentences for what goes wrong on the way. Must not know: how either of them works, and what a body means.
"""

from collections.abc import Mapping
from typing import Protocol

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.providers.errors import ProviderConnectionError, ProviderProtocolError, ProviderRequestError


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it goes out. `who` is the provider's name, for sentences; a GET has no body."""

    method: str
    who: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Answer(Protocol):
    """An answer whose head is here and whose body is not yet."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name in lower case; those that came more than once joined by commas."""
        ...

    async def piece(self) -> bytes | None:
        """What has come of the body since the last piece, unpacked; waits for something. None at its end.

        Raises:
            ProviderConnectionError: the connection broke.
            ProviderProtocolError: the body's compression is broken.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the connection; it is used again when the whole body was read."""
        ...


class Sender(Protocol):
    """A way to servers."""

    async def send(self, asked: Asked) -> Answer:
        """Send a request and give its answer once the head is there. Whoever takes it closes it.

        Raises:
            ProviderConnectionError: the server cannot be reached, or the connection broke.
            ProviderRequestError: the address or a header cannot be used.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def unsendable(who: str) -> ProviderRequestError:
    """An address or headers that no request can have. A header's value may be a key, so none is named."""
    return ProviderRequestError(
        f"The address, key or headers of {who} hold characters that cannot be sent; check its configuration."
    )


def unpackable(who: str) -> ProviderProtocolError:
    """A body that is not packed as its head says."""
    return ProviderProtocolError(f"{who} sent a body that cannot be unpacked; check its base_url.")


def unreachable(who: str, host: str, why: str) -> ProviderConnectionError:
    """No connection to `host`; `why` is the library's text and is only looked at."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return ProviderConnectionError(
            f"{who} cannot be reached safely: the certificate of {host} is not trusted. Check its base_url and the "
            "clock; where a proxy of the network signs certificates, name its own one in SSL_CERT_FILE."
        )
    return ProviderConnectionError(
        f"{who} cannot be reached at {host}; check the network, the proxy and the provider's base_url."
    )


def broken(who: str) -> ProviderConnectionError:
    """A connection that was lost before the answer was complete."""
    return ProviderConnectionError(f"The connection to {who} broke; try again.")
