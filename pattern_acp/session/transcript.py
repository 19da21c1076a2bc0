"""What the written forms of a conversation have in common.

Owns: what a form has to remember while it goes through a journal, and words that all forms use. Must not know: any
form (`transcript_html`, `transcript_markdown`).
"""

import difflib
from datetime import UTC, datetime

from msgspec import Struct, field

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.text_limits import DIFFED_LINES
from pattern_acp.domain.tool_calls import DiffContent, ToolCallView
from pattern_acp.domain.usage import Cost, Usage, amount_text
from pattern_acp.journal.events import Event, SubagentRecorded, ToolCallStarted, TurnStarted, UsageReported

SHOWN_OUTPUT = 20_000
"""Characters of one tool's output in an export."""


class SoFar(Struct):
    """What the events that were read so far began and add up to."""

    calls: dict[ToolCallId, ToolCallView] = field(default_factory=dict[ToolCallId, ToolCallView])
    turn: Usage = field(default_factory=Usage)
    """Of the turn that was begun last."""
    total: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    """What the session cost until now, as it was told last."""

    def take(self, event: Event) -> None:
        """Remember the call that an event begins, and count the tokens that it tells, a subagent's too."""
        match event:
            case TurnStarted():
                self.turn = Usage()
            case ToolCallStarted(call=call):
                self.calls[call.call_id] = call
            case UsageReported(usage=usage, cost=cost) | SubagentRecorded(event=UsageReported(usage=usage, cost=cost)):
                self.turn, self.total, self.cost = self.turn + usage, self.total + usage, cost or self.cost
            case _:
                pass


def usage_words(usage: Usage, cost: Cost | None) -> str:
    """Tokens, and money where it is known."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    words = f"{read:,} tokens in{cached}, {usage.output_tokens:,} out"
    return words if cost is None else f"{words}, {amount_text(cost.micro_units, cost.currency)}"


def moment(at_ms: int) -> str:
    """A moment to the minute, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def diff_lines(item: DiffContent) -> list[str] | None:
    """A change as a unified diff, None where the texts are too long to compare."""
    old, new = (item.old_text or "").splitlines(), item.new_text.splitlines()
    if len(old) + len(new) > DIFFED_LINES:
        return None
    name_before = "/dev/null" if item.old_text is None else item.path
    return list(difflib.unified_diff(old, new, name_before, item.path, lineterm=""))
