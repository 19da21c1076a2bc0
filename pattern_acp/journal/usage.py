"""Usage and cost of model requests: rows that follow from `UsageReported`, sums, and what running requests set aside.

Owns: the tables `usage`, `skill_uses` and `reservations`. Must not know: prices, budgets, or how sums are shown.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import UsageReported
from pattern_acp.journal.leases import STALE_MS, Holder, is_running

_USUAL_REQUESTS = 20
"""Number of newest requests that say how long an answer usually is."""

QUERIES = load_queries("pattern_acp.journal")


class UsedOnce(Struct, frozen=True):
    """One model request. `micro_units` are millionths of a US dollar, None where no price was known."""

    at_ms: int
    session_id: SessionId
    turn_id: TurnId
    subagent: str
    """The name of the subagent that asked; empty for the session itself."""
    model: str
    """`PROVIDER/MODEL`."""
    usage: Usage
    micro_units: int | None
    prices: str
    """The price table that the cost was reckoned with."""
    cwd: str
    title: str
    estimated: bool = False
    """True when the provider did not count it, since it was cut."""
    seq: int = 0
    """The number of its event."""


class Spent(Struct, frozen=True):
    """Tokens read and written, and millionths of a US dollar as far as prices were known."""

    tokens: int = 0
    micro_units: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(self.tokens + other.tokens, self.micro_units + other.micro_units)


class SpentSoFar(Struct, frozen=True):
    """The same of one turn with its subagents, of its session, and of everything since a moment."""

    turn: Spent
    session: Spent
    since: Spent

    def __add__(self, other: "SpentSoFar") -> "SpentSoFar":
        """Both together."""
        return SpentSoFar(self.turn + other.turn, self.session + other.session, self.since + other.since)


def note_usage(
    tx: Transaction, session_id: SessionId, event: UsageReported, *, seq: int, at_ms: int, subagent: str = ""
) -> None:
    """Keep what a request used, in the transaction of its event (rule R1)."""
    usage = event.usage
    tx.execute(
        QUERIES["store_usage"],
        {
            "last_seq": seq,
            "at_ms": at_ms,
            "session_id": session_id,
            "turn_id": event.turn_id,
            "subagent": subagent,
            "model": event.model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "thinking_tokens": usage.thinking_tokens,
            "micro_units": None if event.spent is None else event.spent.micro_units,
            "prices": event.prices,
            "estimated": int(event.estimated),
        },
    )


def usage_since(tx: Transaction, since_ms: int) -> Sequence[UsedOnce]:
    """All requests since a moment, oldest first."""
    return [_used(row) for row in tx.all(QUERIES["usage_since"], {"since_ms": since_ms})]


def usage_of_session(tx: Transaction, session_id: SessionId) -> Sequence[UsedOnce]:
    """All requests of a session, oldest first; what it shares with the one it was forked from is not its own."""
    return [_used(row) for row in tx.all(QUERIES["usage_of_session"], {"session_id": session_id})]


def spent_so_far(tx: Transaction, session_id: SessionId, turn_id: TurnId, since_ms: int) -> SpentSoFar:
    """Sums over a turn, its session, and all sessions of all processes since a moment."""
    own = tx.one(QUERIES["spent_in_session"], {"session_id": session_id, "turn_id": turn_id}) or (0, 0, 0, 0)
    everywhere = tx.one(QUERIES["spent_since"], {"since_ms": since_ms}) or (0, 0)
    return SpentSoFar(
        Spent(integer(own[2]), integer(own[3])),
        Spent(integer(own[0]), integer(own[1])),
        Spent(integer(everywhere[0]), integer(everywhere[1])),
    )


def last_used(tx: Transaction, session_id: SessionId, model: str) -> Usage | None:
    """Tokens of the newest request of a session to a model; None when there was none."""
    row = tx.one(QUERIES["last_used"], {"session_id": session_id, "model": model})
    return None if row is None else Usage(*(integer(value) for value in row))


def usual_output(tx: Transaction, session_id: SessionId, model: str) -> int | None:
    """Tokens that the newest requests of a session to a model were answered with on average; None without any."""
    row = tx.one(QUERIES["usual_output"], {"session_id": session_id, "model": model, "count": _USUAL_REQUESTS})
    return None if row is None or row[0] is None else integer(row[0])


def _used(row: Row) -> UsedOnce:
    counts = Usage(*(integer(value) for value in row[5:10]))
    return UsedOnce(
        integer(row[0]),
        SessionId(text(row[1])),
        TurnId(text(row[2])),
        text(row[3]),
        text(row[4]),
        counts,
        None if row[10] is None else integer(row[10]),
        text(row[11]),
        text(row[12]),
        text(row[13]),
        bool(integer(row[14])),
        integer(row[15]),
    )


def count_skill_use(tx: Transaction, source: str, name: str, *, at_ms: int, seq: int) -> None:
    """Count that the skill `name` of a source (its tier, with the name of its bundle) was loaded."""
    tx.execute(QUERIES["count_skill_use"], {"source": source, "name": name, "at_ms": at_ms, "seq": seq})


def skill_uses(tx: Transaction) -> Mapping[tuple[str, str], int]:
    """Count how often each skill was loaded, by source and name."""
    return {(text(row[0]), text(row[1])): integer(row[2]) for row in tx.all(QUERIES["list_skill_uses"])}


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
    """Set aside what a request is expected to use, until `settle`."""
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
    """The request has ended; what it used is in the journal, or nothing."""
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
    """The sums that processes that still run set aside in a turn, its session and everywhere."""
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
