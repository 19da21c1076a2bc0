"""When a turn must stop by itself."""

from collections import Counter
from dataclasses import dataclass, field

from pattern_acp.domain.messages import ToolCallPart

REPEATS_TOLD = 3
"""Identical failing calls in a row after which the model is told (issue 2, section 5)."""

REPEATS_STOP = 5
"""Identical failing calls in a row after which the turn stops."""


@dataclass(slots=True)
class RepeatGuard:
    """Counts identical failing calls in a row, each distinct call on its own."""

    _counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def note(self, call: ToolCallPart, *, failed: bool) -> int:
        """How often this call has now failed in a row."""
        key = (call.name, call.arguments)
        if not failed:
            self._counts.clear()
            return 0
        count = self._counts[key] + 1
        # Only the same call in a row counts: any other outcome in between starts afresh.
        self._counts.clear()
        self._counts[key] = count
        return count


def repeat_notice(name: str, count: int) -> str:
    """What the model is told about a call that keeps failing the same way."""
    return (
        f"\n\n[This exact call of {name} has now failed {count} times in a row. Repeating it will not help: "
        "read the error, change the arguments or take another way.]"
    )
