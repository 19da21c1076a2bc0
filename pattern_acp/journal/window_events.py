"""Events about the model's context window: what was left out of it to make room, and what must stay.

Owns: these kinds; `journal.events` has them all.
"""

from pattern_acp.domain.ids import MessageId, ToolCallId, TurnId
from pattern_acp.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """Messages left the model's context. They stay in the journal, so a replay shows them and search finds them.

    A message that calls tools takes its results with it. `text`, a message of id `note_id`, stands in their place.
    """

    turn_id: TurnId
    strategy: str
    """What was done: `results`, `truncate`, `summarise`, `importance` or `time_decay`."""
    trigger: str
    """Why: `threshold`, `person`, or `provider`, which said that the request was too long."""
    removed: tuple[MessageId, ...] = ()
    shortened: tuple[ToolCallId, ...] = ()
    """Calls whose results are told by their ends only, `keep_characters` of them."""
    keep_characters: int = 0
    note_id: MessageId = MessageId("")
    text: str = ""
    """What the model reads in place of the removed; empty when nothing was removed."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Both estimated, of the whole request."""


@dataclass(frozen=True, slots=True)
class MessagePinned:
    """The person wants a message to stay in the context whatever is compacted; `pinned` is False when no longer."""

    turn_id: TurnId
    message_id: MessageId
    pinned: bool = True
