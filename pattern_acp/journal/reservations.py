"""Reservations: the expected use of model requests that run now.

Owns: the table `reservations`. Must not know: prices and budgets. Like leases, these rows are not journaled: they say
nothing about what happened, and end with the request, or with the process that made it.
"""

from collections.abc import Callable

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.ids import SessionId, TurnId
from pattern_acp.journal.leases import STALE_MS, Holder
from pattern_acp.journal.processes import is_running
from pattern_acp.journal.usage import Spent, SpentSoFar

QUERIES = load_queries("pattern_acp.journal")

LONGEST_MS = 3_600_000
"""A reservation older than this is left over: by default a request takes half an hour at most, and waits five minutes
before."""


class Reservation(Struct, frozen=True):
    """The expected use of one request; `micro_units` are 0 where no price is known."""

    reservation_id: str
    session_id: SessionId
    turn_id: TurnId
    tokens: int
    micro_units: int


def reserve(tx: Transaction, reservation: Reservation, holder: Holder, now_ms: int) -> None:
    """Set aside what a request is expected to use, until `settle`.

    Raises:
        DatabaseError: the file cannot be written.
    """
    tx.execute(QUERIES["drop_reservations"], {"before_ms": now_ms - LONGEST_MS})
    tx.execute(
        QUERIES["reserve"],
        {
            "id": reservation.reservation_id,
            "at_ms": now_ms,
            "session_id": reservation.session_id,
            "turn_id": reservation.turn_id,
            "holder": holder.holder,
            "tokens": reservation.tokens,
            "micro_units": reservation.micro_units,
        },
    )


def settle(tx: Transaction, reservation_id: str) -> None:
    """The request has ended; what it used is in the journal, or nothing.

    Raises:
        DatabaseError: the file cannot be written.
    """
    tx.execute(QUERIES["settle"], {"id": reservation_id})


def reserved_now(
    tx: Transaction,
    session_id: SessionId,
    turn_id: TurnId,
    holder: Holder,
    now_ms: int,
    *,
    is_alive: Callable[[int, str], bool] = is_running,
) -> SpentSoFar:
    """The sums that processes that still run set aside in a turn, its session and everywhere.

    Raises:
        DatabaseError: the file cannot be read.
    """
    sums = {"turn": Spent(), "session": Spent(), "all": Spent()}
    known: dict[str, bool] = {holder.holder: True}
    for row in tx.all(QUERIES["reservations"], {"since_ms": now_ms - LONGEST_MS}):
        made_by = Holder(text(row[4]), integer(row[5]), text(row[6]), text(row[7]))
        if made_by.holder not in known:
            is_here = made_by.host == holder.host
            known[made_by.holder] = (
                is_alive(made_by.pid, made_by.process_started) if is_here else now_ms - integer(row[8]) <= STALE_MS
            )
        if not known[made_by.holder]:
            continue
        is_own = text(row[0]) == session_id
        for name, counts in (("all", True), ("session", is_own), ("turn", is_own and text(row[1]) == turn_id)):
            if counts:
                sums[name] = sums[name] + Spent(integer(row[2]), integer(row[3]))
    return SpentSoFar(sums["turn"], sums["session"], sums["all"])
