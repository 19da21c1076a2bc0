"""Tokens and money: what was used, and allowances, which say how much may be.

Owns: the form in which people write an allowance, `2.50 USD`, `500k tokens`, `2.50 USD, 500k tokens`. Must not know:
of what it is the limit.
"""

import re

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Tokens of one model request; counts that the provider did not give are 0."""

    input_tokens: int = 0
    """Tokens read fresh, without those served from or written to a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    """Those of `output_tokens` that were reasoning, where the provider tells."""

    @property
    def context_tokens(self) -> int:
        """Tokens that are in the model's context after the request."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        """The sum, count by count."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.thinking_tokens + other.thinking_tokens,
        )


class Cost(Struct, frozen=True):
    """An amount of money in millionths of a unit, so that it is exact and needs no float."""

    micro_units: int
    currency: str = "USD"

    def __add__(self, other: "Cost") -> "Cost":
        """The sum; both are of one currency."""
        return Cost(self.micro_units + other.micro_units, self.currency)


MICRO = 1_000_000
"""Micro-units of a unit."""


def amount_text(micro_units: int, currency: str = "USD") -> str:
    """An amount as people read it, `0.0123 USD`; four decimals, two from a whole unit on, rounded up."""
    # Late: it is not needed on the way to the first answer.
    from decimal import ROUND_UP, Decimal

    amount = Decimal(micro_units) / MICRO
    step = Decimal("0.01") if amount >= 1 else Decimal("0.0001")
    return f"{amount.quantize(step, ROUND_UP):,} {currency}"


ALLOWED = 'an amount such as "2.50 USD", "500k tokens" or both with a comma between; empty for no limit'
"""Completes "it must be …"."""

_NONE = frozenset({"", "off", "none", "unlimited"})
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_MOST = 10**15


class Allowance(Struct, frozen=True):
    """The most that may be spent; None for as much as is wanted, and 0 for nothing at all."""

    micro_units: int | None = None
    """Millionths of a US dollar."""
    tokens: int | None = None
    """Read and written."""

    @property
    def is_limited(self) -> bool:
        """True when there is any limit."""
        return self.micro_units is not None or self.tokens is not None

    @property
    def is_zero(self) -> bool:
        """True when nothing may be spent."""
        return self.micro_units == 0 or self.tokens == 0

    def __add__(self, other: "Allowance") -> "Allowance":
        """Both together; what one does not limit, the sum does not either."""
        return Allowance(_added(self.micro_units, other.micro_units), _added(self.tokens, other.tokens))

    def stretched(self, step: "Allowance", need: "Allowance") -> "Allowance":
        """This allowance and as many whole steps as it takes to reach what is needed, at least one.

        The two are counted in the same steps. What this allowance limits and the step does not grows on its own.
        """
        money = (self.micro_units, step.micro_units or self.micro_units, need.micro_units)
        tokens = (self.tokens, step.tokens or self.tokens, need.tokens)
        steps = max(1, _steps(*money), _steps(*tokens))
        return Allowance(_stepped(*money[:2], steps), _stepped(*tokens[:2], steps))

    def beyond(self, other: "Allowance") -> "Allowance":
        """The difference to another allowance, where both have a limit."""
        return Allowance(_rest(self.micro_units, other.micro_units), _rest(self.tokens, other.tokens))

    def __str__(self) -> str:
        """The text that `parse_allowance` reads, to the last millionth."""
        money = _exact(self.micro_units) if self.micro_units is not None else ""
        tokens = f"{self.tokens} tokens" if self.tokens is not None else ""
        return ", ".join(part for part in (money, tokens) if part) or "off"


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _steps(limit: int | None, step: int | None, need: int | None) -> int:
    return -(-(need - limit) // step) if limit is not None and step and need is not None else 0


def _stepped(limit: int | None, step: int | None, steps: int) -> int | None:
    return None if limit is None else limit + (step or 0) * steps


def _rest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _exact(micro_units: int) -> str:
    text = amount_text(micro_units).replace(",", "")
    if parse_allowance(text) == Allowance(micro_units):
        return text
    # Rounded, a limit would come out different when the session is opened again.
    return f"{micro_units // MICRO}.{micro_units % MICRO:06d}".rstrip("0") + " USD"


def parse_allowance(text: str) -> Allowance | None:
    """The allowance that a user wrote; None when it is none. A number alone is US dollars, `500k` alone is tokens."""
    if text.strip().lower() in _NONE:
        return Allowance()
    found = Allowance()
    for part in re.split(r",(?!\d{3})|\band\b", text.lower()):
        one = _parse_part(part.strip())
        if one is None:
            return None
        is_second = one.tokens is None if found.micro_units is not None else found.tokens is not None and one.tokens
        if is_second:
            return None
        found = Allowance(
            one.micro_units if found.micro_units is None else found.micro_units,
            one.tokens if found.tokens is None else found.tokens,
        )
    return found


def _parse_part(part: str) -> Allowance | None:
    read = re.fullmatch(r"(\$?)\s*(\d[\d_,]*(?:\.\d+)?)\s*([km]?)\s*(usd|dollars?|tokens?|\$|)", part)
    if read is None:
        return None
    from decimal import ROUND_CEILING, Decimal

    dollar, number, factor, unit = read.groups()
    amount = Decimal(number.replace("_", "").replace(",", "")) * _FACTORS[factor]
    is_tokens = unit.startswith("token") or (bool(factor) and not unit and not dollar)
    if amount > _MOST or (dollar and unit.startswith("token")):
        return None
    if is_tokens:
        return Allowance(tokens=int(amount)) if amount == int(amount) else None
    return Allowance(micro_units=int((amount * MICRO).to_integral_value(ROUND_CEILING)))
