"""Providers that go wrong: one of each wire before a server that answers wrong, and one that raises.

Owns: building them. Waits between attempts only move a clock. Must not know: what the server answers.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from pattern_acp.config.settings import ProviderSettings, Quirks, Secret, Wire
from pattern_acp.providers.base import ProviderEvent, ProviderRequest, TextDelta
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.streaming import WireProvider
from tests.support.constellation import FakeClock
from tests.support.fault_server import FaultServer, serve_faults


@dataclass(frozen=True, slots=True)
class FaultyLine:
    """A provider named `mine`, its server, and the clock that its waits move."""

    server: FaultServer
    provider: WireProvider
    clock: FakeClock


@asynccontextmanager
async def faulty_line(
    wire: Wire, *, address: str = "", limits: Deadlines | None = None, key: str = "", quirks: Quirks | None = None
) -> AsyncGenerator[FaultyLine, None]:
    """Both, for as long as the context is open. `address` replaces the server's; `PORT` in it is the server's."""
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    async with serve_faults() as server:
        url = address.replace("PORT", str(server.port)) or server.url
        secret = Secret(key, "a test") if key else None
        settings = ProviderSettings("mine", wire, url, configured=True, api_key=secret, quirks=quirks or Quirks())
        http = HttpClient(limits or Deadlines(), clock)

        async def client() -> HttpClient:
            return http

        retry = RetryPolicy(sleep=sleep, jitter=lambda: 0.0)
        built = build_wire(settings, partial(describe, "mine"))
        try:
            yield FaultyLine(
                server, WireProvider(settings, built, client, retry, RateLimiters(clock), needs_key=False), clock
            )
        finally:
            await http.aclose()


class RaisingProvider:
    """Raises what no provider should, after the beginning of an answer: the number of messages that it was given."""

    name = "faulty"

    @asynccontextmanager
    async def stream(self, request: ProviderRequest) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
        """See `Provider.stream`."""
        yield self._events(request)

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta(f"{len(request.messages)} ")
        raise ZeroDivisionError
