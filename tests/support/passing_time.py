"""A loop whose time a test can let pass, so that limits are reached at once and never because a machine is slow.

Owns: what every deadline and every sleep on the loop reads. Must not know: what waits, or for how long.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from pattern_acp.domain.clock import SystemClock

if sys.platform == "win32":
    PlatformLoop = asyncio.ProactorEventLoop
else:
    PlatformLoop = asyncio.SelectorEventLoop


class PassingLoop(PlatformLoop):
    """A loop with the machine's time, and as much more as a test lets pass."""

    passed = 0.0
    """Seconds that a test let pass."""

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`."""
        return super().time() + self.passed

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds
        # A loop that waits for its next deadline would not look at the time before.
        self.call_soon_threadsafe(lambda: None)


def let_pass(seconds: float) -> None:
    """Let time pass on the running loop: whoever waits for less goes on.

    Raises:
        TypeError: the test runs on a loop of its own.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, PassingLoop):
        raise TypeError("This loop has the machine's time alone.")
    loop.let_pass(seconds)


async def no_pause(seconds: float) -> None:
    """Go on at once, however long is to be waited."""
    del seconds
    await anyio.lowlevel.checkpoint()


class PassingClock:
    """`Clock` of a loop whose time passes: what is measured agrees with what is waited for."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop if isinstance(loop, PassingLoop) else None
        self._system = SystemClock()

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._system.now_ms() + round(self._passed * 1000)

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._system.monotonic() + self._passed

    @property
    def _passed(self) -> float:
        return 0.0 if self._loop is None else self._loop.passed


@asynccontextmanager
async def passing(
    seconds: float, after: Callable[[], Awaitable[object]] = anyio.wait_all_tasks_blocked
) -> AsyncGenerator[None]:
    """Let time pass in a block as soon as `after` returns: once everything waits, unless the test knows better."""

    async def wait() -> None:
        await after()
        let_pass(seconds)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        yield
