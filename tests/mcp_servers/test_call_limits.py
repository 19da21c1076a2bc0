"""How long a call of a tool may take."""

from typing import Protocol, cast

import anyio
import pytest
from mcp.client.session import ClientSession

from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.connection import CallLimits, McpConnection
from pattern_acp.mcp_servers.transports import ServerStreams
from tests.support.mcp_fakes import silent


class Heard(Protocol):
    """What the `mcp` package calls for each word of progress."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class CountsForEver:
    """A session whose server tells its progress and never answers."""

    async def call_tool(self, name: str, arguments: object, progress_callback: Heard) -> None:
        """Count."""
        done = 0
        while True:
            done += 1
            await progress_callback(done, None, name)
            await anyio.lowlevel.checkpoint()


class SaysNothing:
    """A session whose server does not even tell its progress."""

    async def call_tool(self, name: str, arguments: object, progress_callback: Heard) -> None:
        """Wait."""
        await anyio.sleep_forever()


def connection(session: object, limits: CallLimits) -> McpConnection:
    return McpConnection("busy", cast("ClientSession", session), cast("ServerStreams", None), limits)


async def test_a_call_that_tells_its_progress_for_ever_is_given_up():
    called = connection(CountsForEver(), CallLimits(silence=20, longest=0.05))
    with anyio.fail_after(10), pytest.raises(ServerError, match="busy took longer than 0 s; the call was abandoned"):
        await called.call("count", {}, silent)


async def test_progress_outlasts_the_longest_silence():
    called = connection(CountsForEver(), CallLimits(silence=0.05, longest=0.3))
    with anyio.fail_after(10), pytest.raises(ServerError, match="took longer"):
        await called.call("count", {}, silent)


async def test_a_call_that_is_silent_is_given_up_sooner():
    called = connection(SaysNothing(), CallLimits(silence=0.05, longest=20))
    with anyio.fail_after(10), pytest.raises(ServerError, match="was silent for"):
        await called.call("wait", {}, silent)
