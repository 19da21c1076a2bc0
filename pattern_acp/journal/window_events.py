"""Events about the model's context: what was sent, what was left out to make room, and what must stay.

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


@dataclass(frozen=True, slots=True)
class HistoryCleared:
    """The model's context starts anew behind this: `/clear`. What was said stays in the transcript and in memory."""

    turn_id: TurnId


@dataclass(frozen=True, slots=True)
class ModelRequested:
    """A request is about to be sent; `digest` is the SHA-256 of its canonical form.

    `number` counts those of the turn from 1; 0 for one that writes a summary.
    """

    turn_id: TurnId
    number: int
    provider: str
    model: str
    digest: str
    message_count: int
    byte_count: int
    estimate: int = 0
    """Tokens by our own count, before any calibration."""
