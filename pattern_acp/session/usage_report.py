"""What models used and cost, summed up by day, model, project, session or subagent.

Owns: the sums and their words. Must not know: where they are shown (/usage, `pattern-acp usage`).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Usage, amount_text
from pattern_acp.journal.usage import UsedOnce
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.catalogue import is_assumed_free

Grouping: TypeAlias = Literal["day", "model", "project", "session", "subagent", "turn"]
"""What sums are made over."""


class UsageSum(Struct, frozen=True):
    """The sum of some requests."""

    key: str
    """The day, model, folder or id that it is of."""
    title: str
    """What a person knows it by; the key where it has no other name."""
    requests: int
    usage: Usage
    micro_units: int
    """Millionths of a US dollar of the requests whose price was known."""
    unpriced: int
    """Requests whose price was not known."""
    prices: tuple[str, ...] = ()
    """The price tables that the cost was reckoned with."""
    estimated: int = 0
    """Requests that no provider counted: they were cut before, or it told nothing."""

    @property
    def money(self) -> str:
        """The cost in words; a plus says that some requests had no known price."""
        if self.unpriced == self.requests:
            return "" if self.requests else amount_text(0)
        return amount_text(self.micro_units) + ("+" if self.unpriced else "")

    @property
    def estimate_note(self) -> str:
        """What to say of the requests that nobody counted; empty where there are none."""
        if not self.estimated:
            return ""
        return f"{self.estimated:,} of {self.requests:,} requests were counted by nobody but us: estimated."


def assumed_note(used: Iterable[UsedOnce], info_of: Callable[[str], ModelInfo]) -> str:
    """What to say of models that only count as free; empty where there are none. `info_of` raises `ProviderError`."""
    free: list[str] = []
    for name in free_models(used):
        # A provider may have been taken out of the settings since.
        with suppress(ProviderError):
            free += [name] if is_assumed_free(info_of(name)) else []
    if not free:
        return ""
    count = "counts as free, which is assumed, since its server is"
    if len(free) > 1:
        count = "count as free, which is assumed, since their servers are"
    return (
        f"{', '.join(free)} {count} on this machine. "
        'If that is a gateway to others, give its prices under `[models."PROVIDER/MODEL"]` in config.toml.'
    )


def free_models(used: Iterable[UsedOnce]) -> list[str]:
    """The models that were asked for nothing, by name."""
    return sorted({one.model for one in used if one.model and one.micro_units == 0})


def sum_up(used: Iterable[UsedOnce], by: Grouping, zone: tzinfo | None = None) -> tuple[UsageSum, ...]:
    """One sum for each day and so on: days and turns in their order, anything else the dearest first.

    Days are those of `zone`, the machine's own unless it is given.
    """
    groups: dict[str, list[UsedOnce]] = {}
    name = _names(zone)[by]
    for one in used:
        groups.setdefault(name(one), []).append(one)
    sums = [_sum(key, _title(by, key, group), group) for key, group in groups.items()]
    if by not in ("day", "turn"):
        sums.sort(key=lambda one: (-one.micro_units, -one.usage.context_tokens, one.key))
    return tuple(sums)


def total_of(used: Sequence[UsedOnce]) -> UsageSum:
    """The sum of all."""
    return _sum("total", "Total", used)


def day_of(at_ms: int, zone: tzinfo | None = None) -> str:
    """The day of a moment, `2026-11-28`, in the machine's own time zone unless one is given."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d")


def day_began_ms(now_ms: int, zone: tzinfo | None = None) -> int:
    """When the day of a moment began, in the machine's own time zone unless one is given."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    # Without an offset where the zone is the machine's: that of now need not be that of midnight.
    midnight = datetime(now.year, now.month, now.day, tzinfo=zone)
    return int(midnight.timestamp() * 1000)


def _names(zone: tzinfo | None) -> dict[Grouping, Callable[[UsedOnce], str]]:
    return {
        "day": lambda one: day_of(one.at_ms, zone),
        "model": lambda one: one.model or "unknown",
        "project": lambda one: one.cwd,
        "session": lambda one: one.session_id,
        "subagent": lambda one: one.subagent,
        "turn": lambda one: one.turn_id,
    }


def _title(by: Grouping, key: str, group: Sequence[UsedOnce]) -> str:
    if by == "session":
        return group[-1].title or "Untitled"
    return key or "the session itself" if by == "subagent" else key


def _sum(key: str, title: str, used: Sequence[UsedOnce]) -> UsageSum:
    usage = Usage()
    for one in used:
        usage += one.usage
    known = [one.micro_units for one in used if one.micro_units is not None]
    prices = sorted({one.prices for one in used if one.prices})
    estimated = sum(one.estimated for one in used)
    return UsageSum(key, title, len(used), usage, sum(known), len(used) - len(known), tuple(prices), estimated)
