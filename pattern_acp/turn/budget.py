"""Limits of a turn: what it may use, what it has used, and when it must stop on its own.

Owns: counting model requests, tool calls, tokens, money and time, saying when one is used up, and noticing calls that
are repeated without an end. Must not know: who counts. The budget of a subagent is a part of its turn's: what it uses
is used of both.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import Clock, ToolCallId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import ToolCallView
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.policy.decision import Decision, Verdict

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
    def left(self) -> str:
        """Requests and time that are left, in words."""
        minutes = max(round(self.seconds_left / 60), 0)
        return f"{plural(max(self.limits.requests - self.requests, 0), 'request')} and {minutes:,} min"

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


UNREAD_STOP = 4
"""Messages in a row whose calls cannot be read at all after which the turn stops: the first, and three repairs."""

CUT_STOP = 3
"""Answers in a row that the limit of tokens cut after which the turn stops."""


class RepeatLimits(Struct, frozen=True):
    """Numbers of calls with the same arguments and the same result, without a change of the workspace between them."""

    noted: int = 3
    """From this one on, the model reads a note behind the result."""
    asked: int = 5
    """Before this one, the user is asked."""


REPEAT_RULE = "repeat"
"""The rule of a decision to ask about a call because it is repeated."""

STOPPED_FOR_REPEATS = "Stopped: the model made the same "
"""The beginning of the sentence of a turn that ends for repeats; a replay knows such an end by it."""


_DURATION = late_pattern(r" after [\d.]+ s\.")
"""The duration in the result of a command, which is another one each time."""


class _Row(Struct):
    result: int
    count: int = 1


class RepeatGuard:
    """Notices a call that is made again and again in one turn and that has the same result each time.

    A call that fails has the same result each time, whatever its error says. A change of the workspace begins all
    counts again: the result may be another one then.
    """

    def __init__(self, limits: RepeatLimits | None = None) -> None:
        self._limits = limits or RepeatLimits()
        self._rows: dict[str, _Row] = {}
        self._seen: set[tuple[str, int]] = set()
        """All calls with their results; a command that was run before with the same result is no change."""
        self._stop = ""

    @property
    def stop(self) -> str:
        """The sentence with which the turn has to end; empty while it may continue."""
        return self._stop

    def is_due(self, call_id: ToolCallId, name: str, arguments: JsonObject) -> bool:
        """True if the user is to be asked before this call runs."""
        del call_id
        row = self._rows.get(_key(name, arguments))
        return row is not None and row.count + 1 >= self._limits.asked

    def decide(self, call: ToolCallView, decision: Decision) -> Decision:
        """Return the decision on `call`: a question if it is due, or the end of the turn if policy denies it."""
        if not self.is_due(call.call_id, call.name, call.raw_input):
            return decision
        count = self._limits.asked - 1
        if decision.verdict is Verdict.DENY:
            self._stop = (
                f"{STOPPED_FOR_REPEATS}refused call of {call.name} again after {count} refusals. "
                "Tell it what to change and prompt again."
            )
            return decision
        reason = f"The model has made this call {count} times with the same result. Let it continue?"
        return replace(decision, verdict=Verdict.ASK, rule=REPEAT_RULE, reason=reason, scopes=())

    def answered(self, call: ToolCallView, decision: Decision, *, goes_on: bool) -> None:
        """Note the user's answer to `decision`, if that asked because the call is repeated."""
        if decision.rule != REPEAT_RULE:
            return
        if goes_on:
            self._rows.pop(_key(call.name, call.raw_input), None)
        else:
            self._stop = (
                f"{STOPPED_FOR_REPEATS}call of {call.name} again and again, with the same result, and you refused to "
                "let it continue. Tell it what to change and prompt again."
            )

    def note(self, call: ToolCallView, text: str, *, failed: bool, changes: bool) -> str:
        """Count the result of a call; return the note that the model reads behind it, empty for none.

        `changes`: the call may have changed the workspace, unless it is itself a repeat.
        """
        key, shown = _key(call.name, call.raw_input), "" if failed else _DURATION.sub("", text, count=1)
        result = hash((failed, shown))
        if changes and (key, result) not in self._seen:
            self._rows.clear()
        self._seen.add((key, result))
        row = self._rows.get(key)
        if row is None or row.result != result:
            self._rows[key] = _Row(result)
            return ""
        row.count += 1
        return "" if row.count < self._limits.noted else repeat_note(call.name, row.count, failed=failed)


def _key(name: str, arguments: JsonObject) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


NOTE_BEGINS = "\n\n[This exact call of "
"""Beginning of the note behind the result of a repeated call."""


def repeat_note(name: str, count: int, *, failed: bool) -> str:
    """Return the note for the model behind the result of a call that it has made `count` times."""
    if failed:
        return (
            f"{NOTE_BEGINS}{name} has now failed {count} times. Repeating it will not help: "
            "read the error, change the arguments or take another way.]"
        )
    return (
        f"{NOTE_BEGINS}{name} has now had the same result {count} times, and nothing changed in between. "
        "Repeating it tells you nothing new: use what you know, or do something else.]"
    )
