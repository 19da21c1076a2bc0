"""Keeps the leases of this process: renews them while it lives, gives them up when it ends.

Also notices when a session that runs a turn was taken over by another window.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal import leases
from pattern_acp.journal.leases import Holder
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.holding import say
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)

TAKEN_SENTENCE = (
    "\n\n*Another window took this session over, so what ran here was stopped; what was recorded until then is there.*"
)


async def keep_leases(shared: Constellation, wait: Callable[[], Awaitable[None]]) -> None:
    """Renew the leases of open sessions, once after each `wait`, until cancelled.

    A window may stay open for days over a constellation that it cannot write, so a reason is logged once.
    """
    logged = ""
    while True:
        await wait()
        now = shared.clock.now_ms()
        try:
            await shared.database.write(lambda tx, now=now: leases.renew_all(tx, shared.holder, now))
        except PatternError as error:
            # The next round tries again; a lease of this machine holds by its process id anyway.
            if error.failure_code != logged:
                logger.warning("Leases could not be renewed.", exc_info=True)
            logged = error.failure_code
        else:
            logged = ""


async def watch_leases(sessions: Sessions, wait: Callable[[], Awaitable[None]]) -> None:
    """Look after each `wait`, until cancelled, whether a session that answers was taken over, and stop its turn then.

    A turn meets it by itself at its next write; a command that runs for minutes would go on in two windows until then.
    """
    while True:
        await wait()
        answering, shared = sessions.answering, sessions.constellation
        if not answering:
            continue
        try:
            taken = await shared.database.read(partial(_taken, holder=shared.holder, answering=answering))
        except PatternError:
            # The turn meets the same fault, and says so.
            continue
        for session in taken:
            session.cancel()
            await say(session, TAKEN_SENTENCE)


def _taken(tx: Transaction, holder: Holder, answering: Sequence[Session]) -> list[Session]:
    held = [(session, leases.lease_of(tx, session.session_id)) for session in answering]
    return [session for session, lease in held if lease is not None and lease.holder.holder != holder.holder]


async def release_leases(shared: Constellation) -> None:
    """Give up every lease of this process.

    Raises:
        DatabaseError: they could not be given up; they end with the process id.
    """
    await shared.database.write(lambda tx: leases.release_all(tx, shared.holder))
