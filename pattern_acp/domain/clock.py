"""The ports of time and of identifiers, and the system's own.

The random source is imported where it is used: this module is imported before `initialize` is answered, for its
types.
"""

import time
from datetime import UTC, datetime, tzinfo
from typing import NewType, Protocol

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Clock(Protocol):
    """Tells the time. Readings that decide something enter a session as recorded events (rule R4)."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; for durations only."""
        ...


def local_minute(at_ms: int) -> str:
    """A moment as `2026-11-27 14:05` in the time zone of this machine: for a user or a model, never for a program."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))


def utc_second(at_ms: int) -> str:
    """A moment as `2026-11-27T13:05:33Z`, for a program."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_hour(at_ms: int) -> int:
    """The hour of the day, from 0 to 23, in the time zone of this machine."""
    return time.localtime(at_ms / 1000).tm_hour


def local_moment(at_ms: int) -> str:
    """A moment as `Friday 2026-11-27 14:05 UTC+01:00`, in the machine's own time zone."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return f"{_WEEKDAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M} UTC{moment.isoformat()[-6:]}"


def day_of(at_ms: int, zone: tzinfo | None = None) -> str:
    """The day of a moment, `2026-11-28`, in the machine's own time zone unless one is named."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d")


def day_began_ms(now_ms: int, zone: tzinfo | None = None) -> int:
    """Return the start of a moment's day, in the machine's own time zone unless one is named."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    # Without an offset where the zone is the machine's: that of now need not be that of midnight.
    midnight = datetime(now.year, now.month, now.day, tzinfo=zone)
    return int(midnight.timestamp() * 1000)


class SystemClock:
    """`Clock` over the operating system."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()


SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
BlockId = NewType("BlockId", str)


class IdFactory(Protocol):
    """Makes identifiers. Random ids enter a session only as recorded events (rule R4)."""

    def new(self, prefix: str) -> str:
        """A new identifier that starts with `prefix` and an underscore and is never repeated."""
        ...

    def peer(self) -> int:
        """A random non-zero 63-bit number: the Loro peer of one process start."""
        ...


class RandomIds:
    """`IdFactory` over the system's random source; 128 bits an id."""

    def new(self, prefix: str) -> str:
        """See `IdFactory.new`."""
        import secrets

        return f"{prefix}_{secrets.token_hex(16)}"

    def peer(self) -> int:
        """See `IdFactory.peer`."""
        import secrets

        return secrets.randbits(63) or 1
