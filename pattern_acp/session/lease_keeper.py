"""Keeps the leases of this process: renews them while it lives, gives them up when it ends."""

import logging
from collections.abc import Awaitable, Callable

from pattern_acp.domain.errors import PatternError
from pattern_acp.journal import leases
from pattern_acp.session.constellation import Constellation

logger = logging.getLogger(__name__)


async def keep_leases(shared: Constellation, wait: Callable[[], Awaitable[None]]) -> None:
    """Renew the leases of open sessions, once after each `wait`, until cancelled."""
    while True:
        await wait()
        now = shared.clock.now_ms()
        try:
            await shared.database.write(lambda tx, now=now: leases.renew_all(tx, shared.holder, now))
        except PatternError:
            # The next round tries again; a lease of this machine holds by its process id anyway.
            logger.warning("Leases could not be renewed.", exc_info=True)


async def release_leases(shared: Constellation) -> None:
    """Give up every lease of this process.

    Raises:
        DatabaseError: they could not be given up; they end with the process id.
    """
    await shared.database.write(lambda tx: leases.release_all(tx, shared.holder))
