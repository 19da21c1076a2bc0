"""The stored form of what events are made of: messages with their parts, and tool calls with their content.

Owns: the `type` of every part and content. Must not know: events, SQL. A value is stored as its fields by name.
"""

from typing import TypeVar, cast

import msgspec

from pattern_acp.domain import messages, tool_calls
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.ids import MessageId, ToolCallId
from pattern_acp.domain.messages import ImagePart, Message, Part, Role
from pattern_acp.domain.tool_calls import Location, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal.values import as_list, as_object, as_text, decode_value, encode_object

T = TypeVar("T")

_PARTS: dict[str, type[Part]] = {
    "text": messages.TextPart,
    "thinking": messages.ThinkingPart,
    "image": messages.ImagePart,
    "resource": messages.ResourcePart,
    "tool_call": messages.ToolCallPart,
    "tool_result": messages.ToolResultPart,
}
_CONTENTS: dict[str, type[ToolContent]] = {
    "text": tool_calls.TextContent,
    "image": tool_calls.ImageContent,
    "diff": tool_calls.DiffContent,
    "terminal": tool_calls.TerminalContent,
    "link": tool_calls.LinkContent,
}
_PART_NAMES = {part_type: name for name, part_type in _PARTS.items()}
_CONTENT_NAMES = {content_type: name for name, content_type in _CONTENTS.items()}


def encode_fields(value: object) -> JsonObject:
    """A dataclass without unions, floats or JSON inside, as its fields by name."""
    return cast("JsonObject", msgspec.to_builtins(value))


def encode_message(message: Message) -> JsonObject:
    """The stored form of a message."""
    return {
        "message_id": message.message_id,
        "role": message.role.value,
        "parts": [{"type": _PART_NAMES[type(part)], **encode_fields(part)} for part in message.parts],
    }


def decode_message(value: Json) -> Message:
    """The message that `encode_message` was given.

    Raises:
        KeyError, TypeError, ValueError: `value` does not have that form.
    """
    stored = as_object(value)
    return Message(
        MessageId(as_text(stored["message_id"])),
        Role(as_text(stored["role"])),
        tuple(_decode_tagged(part, _PARTS) for part in as_list(stored["parts"])),
    )


def encode_contents(contents: tuple[ToolContent, ...]) -> list[Json]:
    """The stored form of a tool call's content."""
    return [{"type": _CONTENT_NAMES[type(content)], **encode_fields(content)} for content in contents]


def decode_contents(value: Json) -> tuple[ToolContent, ...]:
    """The content that `encode_contents` was given.

    Raises:
        KeyError, TypeError, ValueError: `value` does not have that form.
    """
    return tuple(_decode_tagged(content, _CONTENTS) for content in as_list(value))


def encode_call(call: ToolCallView) -> JsonObject:
    """The stored form of what the person was shown of a call."""
    return {
        "call_id": call.call_id,
        "name": call.name,
        "title": call.title,
        "kind": call.kind.value,
        "raw_input": encode_object(call.raw_input),
        "locations": [encode_fields(location) for location in call.locations],
        "content": encode_contents(call.content),
    }


def decode_call(value: Json) -> ToolCallView:
    """The call that `encode_call` was given.

    Raises:
        KeyError, TypeError, ValueError: `value` does not have that form.
    """
    stored = as_object(value)
    return ToolCallView(
        ToolCallId(as_text(stored["call_id"])),
        as_text(stored["name"]),
        as_text(stored["title"]),
        ToolKind(as_text(stored["kind"])),
        as_object(decode_value(stored["raw_input"])),
        decode_locations(stored["locations"]),
        decode_contents(stored["content"]),
    )


def decode_locations(value: Json) -> tuple[Location, ...]:
    """Places in files from their fields.

    Raises:
        ValueError: `value` does not have that form (msgspec's ValidationError is one).
    """
    return msgspec.convert(value, tuple[Location, ...])


def decode_images(value: Json) -> tuple[ImagePart, ...]:
    """Images from their fields.

    Raises:
        ValueError: `value` does not have that form (msgspec's ValidationError is one).
    """
    return msgspec.convert(value, tuple[ImagePart, ...])


def _decode_tagged(value: Json, types: dict[str, type[T]]) -> T:
    stored = as_object(value)
    return msgspec.convert(stored, types[as_text(stored["type"])])
