"""Limits of a turn: what it may use, what it has used, and when it must stop by itself.

Owns: counting model requests, tool calls, tokens, money and time, saying when one is used up, and noticing calls that
are repeated without an end. Must not know: who counts. The budget of a subagent is a part of its turn's: what it uses
is used of both.
"""

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct, field

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.usage import Cost, Usage

KEPT_FOR_THE_TURN = 1
"""Model requests that a subagent leaves its turn, which has to answer the user."""


class UserWaitTimer:
    """Time that the user takes to answer, which no limit counts; questions side by side are counted once."""

    def __init__(self, clock: Clock, outer: "UserWaitTimer | None" = None) -> None:
        """`outer` waits whenever this one does."""
        self._clock = clock
        self._outer = outer
        self._pending = 0
        self._since = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._seconds + (self._clock.monotonic() - self._since if self._pending else 0.0)

    @contextmanager
    def waiting(self) -> Generator[None, None, None]:
        """The user was asked, until this context ends."""
        if self._outer is not None:
            with self._outer.waiting(), self._counted():
                yield
        else:
            with self._counted():
                yield

    @contextmanager
    def _counted(self) -> Generator[None, None, None]:
        if self._pending == 0:
            self._since = self._clock.monotonic()
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1
            if self._pending == 0:
                self._seconds += self._clock.monotonic() - self._since


class Limits(Struct, frozen=True):
    """The most that may be used; None for as much as is wanted. Seconds are without those that the user took."""

    requests: int
    seconds: int
    tool_calls: int | None = None
    tokens: int | None = None


class Budget(Struct):
    """Use of `limits` so far. `outer` is the budget of the turn, of which this one is a part."""

    limits: Limits
    clock: Clock
    waits: UserWaitTimer
    outer: "Budget | None" = None
    cost: Cost | None = None
    """Cost of the session so far, on the outermost budget; see `cost_so_far`."""
    requests: int = 0
    tool_calls: int = 0
    tokens: int = 0
    """Read and written, over all requests."""
    began: float | None = field(default=None)

    def begin(self) -> None:
        """Time runs from the first time on that this is called."""
        if self.began is None:
            self.began = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, without those that the user took."""
        return 0.0 if self.began is None else self.clock.monotonic() - self.began - self.waits.seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until its limit of time; one that is less than a second is a second."""
        return max(self.limits.seconds, 1) - self.seconds

    @property
    def cost_so_far(self) -> Cost | None:
        """Cost of the session so far."""
        return self.cost if self.outer is None else self.outer.cost_so_far

    def take_request(self) -> None:
        """A model request is about to be sent."""
        self.requests += 1
        if self.outer is not None:
            self.outer.take_request()

    def take_tool_calls(self, count: int) -> None:
        """Calls are about to run."""
        self.tool_calls += count
        if self.outer is not None:
            self.outer.take_tool_calls(count)

    def take_usage(self, usage: Usage, cost: Cost | None) -> None:
        """A model request used this."""
        self.tokens += usage.context_tokens
        if self.outer is not None:
            self.outer.take_usage(usage, cost)
        elif cost is not None:
            before = self.cost.micro_units if self.cost is not None else 0
            self.cost = Cost(before + cost.micro_units, cost.currency)

    def used_up(self, *, keeping: int = 0) -> str:
        """Name the limit that is reached, as in "its limit of 3 model requests"; empty while there is none.

        `keeping` is the number of requests that must remain. Any time that is left is enough for one request.
        """
        limits = self.limits
        if self.requests + keeping >= limits.requests:
            return f"its limit of {limits.requests} model requests"
        if self.requests and self.seconds > limits.seconds:
            return f"its limit of {limits.seconds} seconds"
        if limits.tool_calls is not None and self.tool_calls >= limits.tool_calls:
            return f"its limit of {limits.tool_calls} tool calls"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"its limit of {limits.tokens:,} tokens"
        outer = self.outer.used_up(keeping=KEPT_FOR_THE_TURN) if self.outer is not None else ""
        return outer.replace("its", "the turn's", 1)


REPEATS_TOLD = 3
"""Identical failing calls in a row after which the model is told (issue 2, section 5)."""

REPEATS_STOP = 5
"""Identical failing calls in a row after which the turn stops."""

UNREAD_STOP = 4
"""Messages in a row whose calls cannot be read at all after which the turn stops: the first, and three repairs."""

CUT_STOP = 3
"""Answers in a row with a call that the limit of tokens cut after which the turn stops."""


class RepeatGuard(Struct):
    """Counts identical failing calls in a row."""

    worst: int = 0
    """The highest count so far."""
    _counts: Counter[str] = field(default_factory=Counter[str])
    _failed_now: set[str] = field(default_factory=set[str])

    def note(self, name: str, arguments: JsonObject, *, failed: bool) -> int:
        """Count how often this call has now failed in a row; 0 when it did not fail."""
        key = f"{name} {json.dumps(arguments, sort_keys=True)}"
        if not failed:
            del self._counts[key]
            return 0
        self._counts[key] += 1
        self._failed_now.add(key)
        self.worst = max(self.worst, self._counts[key])
        return self._counts[key]

    def end_message(self) -> None:
        """All calls of one message have ended: what did not fail among them starts afresh.

        So a row is one of messages, and two calls that fail side by side in every message are both found.
        """
        for key in set(self._counts) - self._failed_now:
            del self._counts[key]
        self._failed_now.clear()


def repeat_notice(name: str, count: int) -> str:
    """Note for the model about a call that keeps failing the same way; empty at first."""
    if count < REPEATS_TOLD:
        return ""
    return (
        f"\n\n[This exact call of {name} has now failed {count} times in a row. Repeating it will not help: "
        "read the error, change the arguments or take another way.]"
    )
