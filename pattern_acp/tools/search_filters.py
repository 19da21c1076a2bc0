"""What a person limits a search to, in the words of /recall and of `pattern-acp memory search`.

Owns: kinds, scopes and days as they are typed. Must not know: where they were typed.
"""

from datetime import datetime

from pattern_acp.memory.blocks import Scope
from pattern_acp.tools.base import MemoryNarrowing

SCOPES = tuple(scope.value for scope in Scope)
"""Whose memory is searched."""

_DAY_MS = 24 * 3_600_000


def narrowing_of(kinds: tuple[str, ...], scope: str = "", since: str = "", until: str = "") -> MemoryNarrowing:
    """The limits; what is empty limits nothing. Both days are in, and in the time zone of this machine.

    Raises:
        ValueError: one is no day.
    """
    return MemoryNarrowing(
        scope=scope,
        kinds=kinds,
        since_ms=first_ms(since) if since else None,
        until_ms=first_ms(until) + _DAY_MS - 1 if until else None,
    )


def first_ms(day: str) -> int:
    """When a day such as 2026-11-28 begins here, in milliseconds since 1970-01-01 UTC.

    Raises:
        ValueError: it is no day.
    """
    return int(datetime.fromisoformat(day).timestamp() * 1000)
