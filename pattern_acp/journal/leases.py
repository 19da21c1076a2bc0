"""Leases: the process that runs a session.

Owns: the `leases` table. Must not know: what a session does. Two processes on one constellation run different sessions
freely; one session runs in one process, since its stream has one end. Leases are not journaled: they say nothing about
what happened.
"""

import os
from collections.abc import Callable

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.errors import LeaseHeldError, LeaseLostError
from pattern_acp.journal.processes import host_name, is_running, own_start_mark

QUERIES = load_queries("pattern_acp.journal")

STALE_MS = 60_000
"""A lease of another machine, whose processes we cannot see, is dead when it was not renewed for this long."""


class Holder(Struct, frozen=True):
    """One start of this program: a random id, its process and machine."""

    holder: str
    pid: int
    process_started: str
    host: str


class Lease(Struct, frozen=True):
    """A lease: the holder of a session, since when, and when it last said so."""

    holder: Holder
    acquired_ms: int
    renewed_ms: int


def this_process(holder: str) -> Holder:
    """The holder that this process is; `holder` is an id that is new at every start."""
    return Holder(holder, os.getpid(), own_start_mark(), host_name())


def acquire(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    take_over: bool = False,
    editor: str = "",
    is_alive: Callable[[int, str], bool] = is_running,
) -> bool:
    """Take the session. True: another holder had it, who is dead or is taken it from (`take_over`).

    `editor` is the name of the client for which it is taken.

    Raises:
        LeaseHeldError: another process that is alive holds it, and `take_over` is not wanted.
        ConstraintError: there is no such session.
    """
    lease = lease_of(tx, session_id)
    if lease is not None and lease.holder.holder == holder.holder:
        renew(tx, session_id, holder, now_ms)
        return False
    if not take_over:
        refuse_if_held(tx, session_id, holder, now_ms, is_alive=is_alive)
    tx.execute(
        QUERIES["take_lease"],
        {
            "session_id": session_id,
            "holder": holder.holder,
            "pid": holder.pid,
            "process_started": holder.process_started,
            "host": holder.host,
            "at_ms": now_ms,
            "editor": storable(editor),
        },
    )
    return lease is not None


def lease_of(tx: Transaction, session_id: SessionId) -> Lease | None:
    """The lease of the session, its holder alive or not; None when nobody has it."""
    row = tx.one(QUERIES["get_lease"], {"session_id": storable(session_id)})
    if row is None:
        return None
    return Lease(Holder(text(row[0]), integer(row[1]), text(row[2]), text(row[3])), integer(row[4]), integer(row[5]))


def held_elsewhere(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    is_alive: Callable[[int, str], bool] = is_running,
) -> Lease | None:
    """The lease of another process that is alive, or None."""
    lease = lease_of(tx, session_id)
    if lease is None or lease.holder.holder == holder.holder:
        return None
    held = _is_held(lease.holder, holder, renewed_ms=lease.renewed_ms, now_ms=now_ms, is_alive=is_alive)
    return lease if held else None


def refuse_if_held(
    tx: Transaction,
    session_id: SessionId,
    holder: Holder,
    now_ms: int,
    *,
    remedy: str = "close it there, or start a new session",
    is_alive: Callable[[int, str], bool] = is_running,
) -> None:
    """Nothing, unless another process that is alive has the session.

    Raises:
        LeaseHeldError: with the user's choices as `remedy`.
    """
    lease = held_elsewhere(tx, session_id, holder, now_ms, is_alive=is_alive)
    if lease is not None:
        other = lease.holder
        raise LeaseHeldError(session_id, pid=other.pid, host=other.host, since_ms=lease.acquired_ms, remedy=remedy)


def require(tx: Transaction, session_id: SessionId, holder: Holder) -> None:
    """Nothing, when the holder has the session; called in every transaction that adds to it.

    Raises:
        LeaseLostError: another process took it meanwhile.
    """
    lease = lease_of(tx, session_id)
    if lease is None or lease.holder.holder != holder.holder:
        raise LeaseLostError(session_id)


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
