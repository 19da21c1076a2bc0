"""Which process runs a session.

Owns: the `leases` table. Must not know: what a session does. Two processes on one constellation run different sessions
freely; one session runs in one process, since its stream has one end. Leases are not journaled: they say nothing about
what happened.
"""

import os
from collections.abc import Callable

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.journal.errors import LeaseHeldError
from pattern_acp.journal.processes import host_name, is_running, own_start_mark

QUERIES = load_queries("pattern_acp.journal")

STALE_MS = 60_000
"""A lease of another machine, whose processes we cannot see, is dead when it was not renewed for this long."""

RENEW_MS = 20_000
"""How often a holder renews: three chances before it counts as dead elsewhere."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One start of this program: a random id, its process and machine."""

    holder: str
    pid: int
    process_started: str
    host: str


def this_process(holder: str) -> Holder:
    """The holder that this process is; `holder` is an id that is new at every start."""
    return Holder(holder, os.getpid(), own_start_mark(), host_name())


def acquire(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    is_alive: Callable[[int, str], bool] = is_running,
) -> bool:
    """Take the session. True: it was taken over from a holder that is dead.

    Raises:
        LeaseHeldError: another process that is alive holds it.
        ConstraintError: there is no such session.
    """
    row = tx.one(QUERIES["get_lease"], {"session_id": session_id})
    taken_over = False
    if row is not None:
        held = Holder(text(row[0]), integer(row[1]), text(row[2]), text(row[3]))
        if held.holder == holder.holder:
            renew(tx, session_id, holder, now_ms)
            return False
        if _is_held(held, holder, renewed_ms=integer(row[5]), now_ms=now_ms, is_alive=is_alive):
            raise LeaseHeldError(session_id, pid=held.pid, host=held.host, since_ms=integer(row[4]))
        taken_over = True
    tx.execute(
        QUERIES["take_lease"],
        {
            "session_id": session_id,
            "holder": holder.holder,
            "pid": holder.pid,
            "process_started": holder.process_started,
            "host": holder.host,
            "at_ms": now_ms,
        },
    )
    return taken_over


def renew(tx: Transaction, session_id: SessionId, holder: Holder, now_ms: int) -> bool:
    """Say that the holder still works on the session. False: it no longer holds it, and must not write to it."""
    params = {"session_id": session_id, "holder": holder.holder, "at_ms": now_ms}
    return tx.execute(QUERIES["renew_lease"], params) == 1


def renew_all(tx: Transaction, holder: Holder, now_ms: int) -> int:
    """Renew every lease of the holder; how many there are."""
    return tx.execute(QUERIES["renew_leases"], {"holder": holder.holder, "at_ms": now_ms})


def release(tx: Transaction, session_id: SessionId, holder: Holder) -> bool:
    """Give the session back. False: the holder did not hold it."""
    return tx.execute(QUERIES["release_lease"], {"session_id": session_id, "holder": holder.holder}) == 1


def release_all(tx: Transaction, holder: Holder) -> int:
    """Give back every session of the holder; how many there were."""
    return tx.execute(QUERIES["release_leases"], {"holder": holder.holder})


def _is_held(
    held: Holder, asking: Holder, *, renewed_ms: int, now_ms: int, is_alive: Callable[[int, str], bool]
) -> bool:
    if held.host != asking.host:
        return now_ms - renewed_ms <= STALE_MS
    return is_alive(held.pid, held.process_started)
