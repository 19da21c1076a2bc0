"""Events about the model's context: what was sent, what was left out to make room, and what must stay.

Owns: these kinds; `journal.events` has them all.
"""

from msgspec import Struct

from pattern_acp.domain.ids import MessageId, ToolCallId, TurnId


class ContextCompacted(Struct, frozen=True):
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


class MessagePinned(Struct, frozen=True):
    """The person wants a message to stay in the context whatever is compacted; `pinned` is False when no longer."""

    turn_id: TurnId
    message_id: MessageId
    pinned: bool = True


class HistoryCleared(Struct, frozen=True):
    """The model's context starts anew behind this: `/clear`. What was said stays in the transcript and in memory."""

    turn_id: TurnId


class OfferedTool(Struct, frozen=True):
    """A tool as a model was offered it. `schema` is the JSON Schema of its arguments as text."""

    name: str
    description: str
    schema: str
    free_form: str = ""


class ToolsOffered(Struct, frozen=True):
    """What the requests behind this offer, until the next one says otherwise.

    It names no turn: so its payload is that of every session with these tools, and is kept once for them all.
    """

    tools: tuple[OfferedTool, ...]


class RequestParts(Struct, frozen=True):
    """What a request was made of, for a replay to compare (replay).

    `system`, `tools`, `volatile` and each of `messages` are the first 16 hexadecimal digits of a SHA-256
    (turn/digests.py). The first `kept` messages are those of the session's request before.
    """

    system: str
    tools: str
    volatile: str
    kept: int
    messages: tuple[str, ...]
    context_window: int
    max_output_tokens: int
    thought_level: str
    volatile_text: str | None = None
    """What was sent behind the messages; None when it is that of the request before."""
    tool_form: str = "auto"


class ModelRequested(Struct, frozen=True):
    """A request is about to be sent; `digest` is the SHA-256 of all of it but for the ids of its messages.

    `number` counts those of the turn from 1; 0 for one that writes a summary. Journals of before have no `parts`, and
    a digest that covers ids.
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
    parts: RequestParts | None = None
