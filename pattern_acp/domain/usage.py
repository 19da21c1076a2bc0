"""Token counts and cost."""

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
