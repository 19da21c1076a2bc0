"""When a turn must stop by itself."""

import json
from collections import Counter

from msgspec import Struct, field

from pattern_acp.domain.canonical import JsonObject

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
        """How often this call has now failed in a row; 0 when it did not fail."""
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
    """What the model is told about a call that keeps failing the same way; nothing at first."""
    if count < REPEATS_TOLD:
        return ""
    return (
        f"\n\n[This exact call of {name} has now failed {count} times in a row. Repeating it will not help: "
        "read the error, change the arguments or take another way.]"
    )
