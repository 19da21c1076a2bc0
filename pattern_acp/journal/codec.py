"""Events and their stored form.

Owns: the name and version of every kind, and its JSON. Must not know: where the JSON is kept. The form: the event's
fields by name; a union carries a `type`; ids, enums and paths are strings; nothing is a float. Decoding ignores fields
it does not know and fills those that are missing from the struct, so a field with a default needs no new version.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from pattern_acp.domain import messages, tool_calls
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.ids import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart, Message, Part, Role
from pattern_acp.domain.tool_calls import Location, ToolCallStatus, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal import events
from pattern_acp.journal.errors import DamagedEventError, UnknownEventError
from pattern_acp.journal.events import Event
from pattern_acp.journal.values import as_flag, as_list, as_number, as_object, as_text, decode_value, encode_object

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
    """A struct without unions, floats or JSON inside, as its fields by name."""
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


class EncodedEvent(Struct, frozen=True):
    """An event's kind, the version of its form, and the form itself."""

    kind: str
    version: int
    payload: JsonObject


_KINDS: dict[type[Event], tuple[str, int]] = {
    events.SessionCreated: ("session_created", 1),
    events.SessionOpened: ("session_opened", 1),
    events.SessionConfigured: ("session_configured", 1),
    events.SessionTitled: ("session_titled", 1),
    events.SessionClosed: ("session_closed", 1),
    events.SessionDeleted: ("session_deleted", 1),
    events.SessionRestored: ("session_restored", 1),
    events.SessionArchived: ("session_archived", 1),
    events.InstructionsCompiled: ("instructions_compiled", 1),
    events.TurnStarted: ("turn_started", 1),
    events.MemoryShown: ("memory_shown", 1),
    events.ContextAdded: ("context_added", 1),
    events.PromptRefused: ("prompt_refused", 1),
    events.ToolsOffered: ("tools_offered", 1),
    events.ModelRequested: ("model_requested", 1),
    events.MessagePartial: ("message_partial", 2),
    events.MessageRecorded: ("message_recorded", 1),
    events.ToolCallStarted: ("tool_call_started", 1),
    events.PermissionDecided: ("permission_decided", 1),
    events.PermissionAsked: ("permission_asked", 1),
    events.PermissionAnswered: ("permission_answered", 1),
    events.ToolCallFinished: ("tool_call_finished", 1),
    events.ToolResultExtended: ("tool_result_extended", 1),
    events.PlanUpdated: ("plan_updated", 1),
    events.UsageReported: ("usage_reported", 1),
    events.ErrorReported: ("error_reported", 1),
    events.TurnEnded: ("turn_ended", 1),
    events.BlockCommitted: ("block_committed", 1),
    events.BlockDeleted: ("block_deleted", 1),
    events.BlockRestored: ("block_restored", 1),
    events.BlockForgotten: ("block_forgotten", 1),
    events.BlockHealed: ("block_healed", 1),
    events.BlockConfigured: ("block_configured", 1),
    events.BlockShared: ("block_shared", 1),
    events.EntryArchived: ("entry_archived", 1),
    events.EntryVerified: ("entry_verified", 1),
    events.EntryStatusChanged: ("entry_status_changed", 1),
    events.GrantStored: ("grant_stored", 1),
    events.ServerToolsPinned: ("server_tools_pinned", 1),
    events.FolderTrustDecided: ("folder_trust_decided", 1),
    events.JobStarted: ("job_started", 1),
    events.JobEnded: ("job_ended", 1),
    events.HistoryCleared: ("history_cleared", 1),
    events.FilesSaved: ("files_saved", 1),
    events.CheckpointTaken: ("checkpoint_taken", 1),
    events.RewindStarted: ("rewind_started", 1),
    events.SessionRewound: ("session_rewound", 1),
    events.SubagentRecorded: ("subagent_recorded", 1),
    events.ContextCompacted: ("context_compacted", 1),
    events.MessagePinned: ("message_pinned", 1),
    events.EventsRedacted: ("events_redacted", 1),
    events.BudgetChanged: ("budget_changed", 1),
    events.HandoffLeft: ("handoff_left", 1),
    events.MemoryRecalled: ("memory_recalled", 1),
}
"""Never rename or reuse a kind: old journals keep it."""

_TYPES: dict[tuple[str, int], type[Event]] = {
    **{kind: event_type for event_type, kind in _KINDS.items()},
    # It always held the message from its beginning, which is where the new fields begin without a value.
    ("message_partial", 1): events.MessagePartial,
}


def kinds_of(types: Iterable[type[Event]]) -> tuple[str, ...]:
    """The names under which events of these types are stored."""
    return tuple(_KINDS[event_type][0] for event_type in types)


def encode(event: Event) -> EncodedEvent:
    """The stored form of `event`."""
    kind, version = _KINDS[type(event)]
    return EncodedEvent(kind, version, _encode_payload(event))


def decode(kind: str, version: int, payload: JsonObject) -> Event:
    """The event that `encode` was given.

    Raises:
        UnknownEventError: this program does not know the kind, or not in that version.
        DamagedEventError: the payload does not have the form of its kind.
    """
    event_type = _TYPES.get((kind, version))
    if event_type is None:
        raise UnknownEventError(kind, version)
    reader = _READERS.get(event_type)
    try:
        return msgspec.convert(payload, event_type) if reader is None else reader(payload)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedEventError(
            f"A stored event of kind {kind!r} does not have the form of its kind; run pattern-acp doctor."
        ) from error


def _encode_payload(event: Event) -> JsonObject:
    match event:
        case events.TurnStarted():
            return {"turn_id": event.turn_id, "message": encode_message(event.message), "command": event.command}
        case events.MessageRecorded():
            return {
                "turn_id": event.turn_id,
                "message": encode_message(event.message),
                "complete": event.complete,
                "for_model": event.for_model,
            }
        case events.ContextAdded():
            message = encode_message(event.message)
            return {"turn_id": event.turn_id, "message": message, "sources": list(event.sources)}
        case events.ToolCallStarted():
            repairs = {"repairs": list(event.repairs)} if event.repairs else {}
            return {"turn_id": event.turn_id, "call": encode_call(event.call), **repairs}
        case events.ToolCallFinished():
            # The generic form lacks the type of each content.
            return {**encode_fields(event), "content": encode_contents(event.content)}
        case events.SubagentRecorded():
            inner = encode(event.event)
            return {
                "turn_id": event.turn_id,
                "call_id": event.call_id,
                "thread_id": event.thread_id,
                "name": event.name,
                "kind": inner.kind,
                "version": inner.version,
                "event": inner.payload,
            }
        case _:
            return encode_fields(event)


def _read_turn_started(stored: JsonObject) -> Event:
    return events.TurnStarted(
        turn_id=TurnId(as_text(stored["turn_id"])),
        message=decode_message(stored["message"]),
        command=as_text(stored.get("command", "")),
    )


def _read_context_added(stored: JsonObject) -> Event:
    return events.ContextAdded(
        turn_id=TurnId(as_text(stored["turn_id"])),
        message=decode_message(stored["message"]),
        sources=tuple(as_text(source) for source in as_list(stored.get("sources", []))),
    )


def _read_message_recorded(stored: JsonObject) -> Event:
    return events.MessageRecorded(
        turn_id=TurnId(as_text(stored["turn_id"])),
        message=decode_message(stored["message"]),
        complete=as_flag(stored.get("complete", True)),
        for_model=as_flag(stored.get("for_model", True)),
    )


def _read_call_started(stored: JsonObject) -> Event:
    return events.ToolCallStarted(
        turn_id=TurnId(as_text(stored["turn_id"])),
        call=decode_call(stored["call"]),
        repairs=tuple(as_text(repair) for repair in as_list(stored.get("repairs", []))),
    )


def _read_call_finished(stored: JsonObject) -> Event:
    return events.ToolCallFinished(
        turn_id=TurnId(as_text(stored["turn_id"])),
        call_id=ToolCallId(as_text(stored["call_id"])),
        status=ToolCallStatus(as_text(stored["status"])),
        result_text=as_text(stored["result_text"]),
        content=decode_contents(stored.get("content", [])),
        locations=decode_locations(stored.get("locations", [])),
        images=decode_images(stored.get("images", [])),
        full_output=as_text(stored.get("full_output", "")),
        duration_ms=as_number(stored.get("duration_ms", 0)),
        interrupted=as_flag(stored.get("interrupted", False)),
        title=as_text(stored.get("title", "")),
        failure=as_text(stored.get("failure", "")),
    )


def _read_subagent_recorded(stored: JsonObject) -> Event:
    return events.SubagentRecorded(
        turn_id=TurnId(as_text(stored["turn_id"])),
        call_id=ToolCallId(as_text(stored["call_id"])),
        thread_id=as_text(stored["thread_id"]),
        name=as_text(stored["name"]),
        event=decode(as_text(stored["kind"]), as_number(stored["version"]), as_object(stored["event"])),
    )


_READERS: dict[type[Event], Callable[[JsonObject], Event]] = {
    events.TurnStarted: _read_turn_started,
    events.ContextAdded: _read_context_added,
    events.MessageRecorded: _read_message_recorded,
    events.ToolCallStarted: _read_call_started,
    events.ToolCallFinished: _read_call_finished,
    events.SubagentRecorded: _read_subagent_recorded,
}
"""Events that hold unions, which a generic conversion cannot tell apart."""
