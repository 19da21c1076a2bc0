"""What is compared, as text that a person can read a difference of.

Owns: the text of a request's parts and of events. Must not know: what is compared with what. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from pattern_acp.context.memory_notices import state_message
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.journal.events import (
    ContextAdded,
    Event,
    MemoryShown,
    MessageRecorded,
    ToolCallFinished,
    ToolResultExtended,
    TurnStarted,
)
from pattern_acp.providers.base import ToolSpec


def tools_text(tools: Iterable[ToolSpec]) -> str:
    """Tools with their descriptions and schemas."""
    return "\n".join(
        f"== {tool.name}\n{tool.description}\n{pretty(tool.input_schema)}"
        + (f"\nfree form: {tool.free_form}" if tool.free_form else "")
        for tool in tools
    )


def message_text(message: Message) -> str:
    """A message, part by part. Its id is left out: it is no part of what a model is sent."""
    return "\n".join((f"== {message.role.value}", *map(_part, message.parts)))


def _part(part: Part) -> str:
    match part:
        case TextPart(text):
            return text
        case ThinkingPart(text, signature, redacted, provider, wire):
            sealed = f"signature {signature or '-'}, hidden {redacted or '-'}, wire {wire or '-'}"
            return f"-- thinking of {provider or '-'}\n{text}\n-- {sealed}"
        case ToolCallPart(call_id, name, arguments):
            return f"-- call {call_id} of {name}\n{arguments}"
        case ToolResultPart(call_id, text, is_error, images):
            shown = "".join(f"\n-- {image.about}, {len(image.data):,} characters" for image in images)
            return f"-- {'failed ' if is_error else ''}result of {call_id}\n{text}{shown}"
        case ImagePart():
            return f"-- {part.about}, {len(part.data):,} characters"
        case ResourcePart():
            about = " ".join(text for text in (part.given.value, part.lines, part.note) if text)
            return f"-- {part.name} {part.uri} ({about})\n{part.text or ''}"


def pretty(value: Json) -> str:
    """JSON on many lines, texts of many lines as they are."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).replace("\\n", "\n    ")


class RecordedMessages:
    """The messages of a conversation as their own events have them, to show what one is compared with."""

    def __init__(self, history: Sequence[Message], events: Sequence[Event]) -> None:
        self._messages: dict[str, Message] = {message.message_id: message for message in history}
        self._results: dict[ToolCallId, ToolResultPart] = {
            part.call_id: part for message in history for part in message.parts if isinstance(part, ToolResultPart)
        }
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case TurnStarted(message=message) | MessageRecorded(message=message) | ContextAdded(message=message):
                self._messages[message.message_id] = message
            case MemoryShown():
                message = state_message(event)
                self._messages[message.message_id] = message
            case ToolCallFinished():
                failed = event.status is ToolCallStatus.FAILED
                self._results[event.call_id] = ToolResultPart(event.call_id, event.result_text, failed, event.images)
            case ToolResultExtended(call_id=call_id, text=text) if call_id in self._results:
                before = self._results[call_id]
                self._results[call_id] = ToolResultPart(call_id, before.text + text, before.is_error, before.images)
            case _:
                pass

    def text_of(self, message: Message) -> str:
        """The text of the recorded form of a message; empty when no event has it."""
        if message.role is not Role.TOOL:
            found = self._messages.get(message.message_id)
            return message_text(found) if found is not None else ""
        calls = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        parts = tuple(self._results[call_id] for call_id in calls if call_id in self._results)
        return message_text(Message(message.message_id, Role.TOOL, parts)) if parts else ""


def fields_text(fields: Mapping[str, object]) -> str:
    """Values by name, one a line."""
    return "\n".join(f"{name}: {value}" for name, value in fields.items())
