"""What of a conversation leaves the model's context.

Owns: what a compaction is for, and what is shortened and removed for it. Must not know: summaries, or how it is
recorded (`session/compacting.py`).
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context import compaction
from pattern_acp.context.compaction import (
    LONG_RESULT_CHARACTERS,
    RESULTS_KEPT_WHOLE,
    SHORT_RESULT_CHARACTERS,
    Choice,
    TokensOf,
    Untouchable,
    choose,
    long_results,
    summary_tokens,
    units_of,
)
from pattern_acp.context.window import WindowLimits
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.messages import Message
from pattern_acp.journal.events import ContextCompacted

LAST_RESORT_CHARACTERS = (SHORT_RESULT_CHARACTERS, 300)
"""What stays of every result when nothing else makes enough room."""


class Wanted(Struct, frozen=True):
    """What a compaction is for."""

    trigger: str
    """`threshold`, `person` or `provider`."""
    strategy: CompactionStrategy
    tokens: int
    """Of the whole request as it is."""
    target: int
    """Of the request as it should become."""
    limits: WindowLimits
    wish: str = ""
    """What the person wants of the summary."""
    is_last_resort: bool = False
    """Whether even the newest results are shortened, and summaries of before may go."""
    keep_characters: int = SHORT_RESULT_CHARACTERS


def choose_for(history: Sequence[Message], rules: Untouchable, wanted: Wanted, tokens_of: TokensOf) -> Choice:
    """What is to leave a conversation; long results are shortened first."""
    free = max(wanted.tokens - wanted.target, 0)
    keep = wanted.keep_characters
    longer_than = keep if wanted.is_last_resort else LONG_RESULT_CHARACTERS
    keep_last = 0 if wanted.is_last_resort else RESULTS_KEPT_WHOLE
    results = long_results(history, free, tokens_of, longer_than=longer_than, to=keep, keep_last=keep_last)
    if results.freed >= free and wanted.trigger != "person":
        return results
    event = ContextCompacted(TurnId(""), "", "", shortened=results.shortened, keep_characters=keep)
    units = units_of(compaction.compacted(history, event), rules, tokens_of)
    note = summary_tokens(wanted.limits.usable) if wanted.strategy == "summarise" else 0
    removed = choose(units, free - results.freed + note, wanted.strategy, spare_notes=not wanted.is_last_resort)
    gone = {call.call_id for unit in removed.removed for call in unit.first.tool_calls}
    shortened = tuple(call_id for call_id in results.shortened if call_id not in gone)
    return Choice(removed.removed, shortened, results.freed + removed.freed)
