"""Events and their stored form, and the errors of the journal.

Owns: the name and version of every kind, its JSON, and its `item`, by which the events of one call, message, turn or
block are found. Must not know: where the JSON is stored. The form: the event's fields by name; a member of a union has
a `type`; ids, enums and paths are strings; nothing is a float. Decoding ignores fields it does not know and fills those
that are missing, so a field with a default needs no new version.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import ToolCallId, TurnId, local_minute
from pattern_acp.domain.errors import JournalError
from pattern_acp.journal import events
from pattern_acp.journal.events import Event

_VERSIONS: dict[type[Event], int] = {events.MessagePartial: 2}
"""The version that is written of kinds of which there was more than one."""

_KINDS: dict[type[Event], tuple[str, int]] = {
    event_type: (re.sub("(?<!^)(?=[A-Z])", "_", event_type.__name__).lower(), _VERSIONS.get(event_type, 1))
    for event_type in get_args(Event)
}
"""A kind is the name of its class. Old journals have it, so neither is ever renamed or reused."""

_TYPES: dict[tuple[str, int], type[Event]] = {
    **{kind: event_type for event_type, kind in _KINDS.items()},
    # It always had the message from its beginning, which is where the new fields begin without a value.
    ("message_partial", 1): events.MessagePartial,
}

_FLOAT = "$float"
_OBJECT = "$object"

_TAG = b'{"$'
"""The beginning of every object with one of these keys, as it is stored."""


class EncodedEvent(Struct, frozen=True):
    """An event's kind, the version of its form, and the form itself."""

    kind: str
    version: int
    payload: JsonObject


class _SubagentForm(Struct, frozen=True):
    """The stored form of `SubagentRecorded`: the inner event is encoded like any other."""

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str
    kind: str
    version: int
    event: JsonObject


def kinds_of(types: Iterable[type[Event]]) -> tuple[str, ...]:
    """The names under which events of these types are stored."""
    return tuple(_KINDS[event_type][0] for event_type in types)


def encode(event: Event) -> EncodedEvent:
    """The stored form of `event`."""
    kind, version = _KINDS[type(event)]
    return EncodedEvent(kind, version, _payload(event))


def decode(kind: str, version: int, payload: JsonObject) -> Event:
    """The event whose stored form `encode` made.

    Raises:
        UnknownEventError: this program does not know the kind, or not in that version.
        DamagedEventError: the payload does not have the form of its kind.
    """
    event_type = _type_of(kind, version)
    try:
        if event_type is events.SubagentRecorded:
            form = msgspec.convert(payload, _SubagentForm)
            event = decode(form.kind, form.version, form.event)
            return events.SubagentRecorded(form.turn_id, form.call_id, form.thread_id, form.name, event)
        event = _with_floats(msgspec.convert(payload, event_type))
    except (TypeError, ValueError) as error:
        raise DamagedEventError(
            f"A stored event of kind {kind!r} does not have the form of its kind; run pattern-acp doctor."
        ) from error
    return event


def decode_stored(kind: str, version: int, stored: bytes) -> Event | None:
    """The same from the canonical bytes of a payload, in half the time; None where only `decode` can tell.

    Raises:
        UnknownEventError: see `decode`.
    """
    event_type = _type_of(kind, version)
    if event_type is events.SubagentRecorded:
        return None
    try:
        event = _decoder_of(event_type).decode(stored)
        # Looking for a tag is quicker than walking through the input of each call.
        return _with_floats(event) if _TAG in stored else event
    except (TypeError, ValueError):
        # Damaged, or with half of a surrogate pair, which msgspec does not read.
        return None


def _type_of(kind: str, version: int) -> type[Event]:
    event_type = _TYPES.get((kind, version))
    if event_type is None:
        raise UnknownEventError(kind, version)
    return event_type


@cache
def _decoder_of(event_type: type[Event]) -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(event_type)


def _with_floats(event: Event) -> Event:
    if not isinstance(event, events.ToolCallStarted):
        return event
    raw_input = _object(decode_value(event.call.raw_input))
    return replace(event, call=replace(event.call, raw_input=raw_input))


def encode_value(value: Json) -> Json:
    """JSON that came from a model, without floats and without loss; `decode_value` undoes it.

    A float `1.5` becomes `{"$float": "1.5"}`; an object that has such a tag as its only key is itself wrapped as
    `{"$object": {…}}`.
    """
    if isinstance(value, float):
        return {_FLOAT: repr(value)}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        encoded = {key: encode_value(item) for key, item in value.items()}
        return {_OBJECT: encoded} if _is_tagged(value) else encoded
    if isinstance(value, Sequence):
        return [encode_value(item) for item in value]
    return value


def decode_value(value: Json) -> Json:
    """The value that `encode_value` encoded.

    Raises:
        TypeError, ValueError: it encoded none.
    """
    if isinstance(value, Mapping):
        if _is_tagged(value):
            (tag, inner), *_ = value.items()
            return _float(msgspec.convert(inner, str)) if tag == _FLOAT else _decode_items(_object(inner))
        return _decode_items(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [decode_value(item) for item in value]
    return value


def _float(written: str) -> Json:
    """The number, or what takes its place where words were taken out of the event."""
    try:
        return float(written)
    except ValueError:
        return written


def _payload(event: Event) -> JsonObject:
    match event:
        case events.ToolCallStarted(_, call, repairs):
            raw_input = _object(encode_value(call.raw_input))
            payload = _fields(replace(event, call=replace(call, raw_input=raw_input)))
            if not repairs:
                del payload["repairs"]
        case events.ToolCallFinished():
            payload = _fields(event)
            _untag(payload["images"])
        case events.TurnStarted() | events.MessageRecorded() | events.ContextAdded():
            payload = _fields(event)
            for part in payload["message"]["parts"]:
                _untag(part.get("images", ()))
            if isinstance(event, events.TurnStarted) and not event.prompt_key:
                del payload["prompt_key"]
        case events.TurnEnded(handed_over=False):
            payload = _fields(event)
            del payload["handed_over"]
        case events.SubagentRecorded(turn_id, call_id, thread_id, name, inner):
            form = encode(inner)
            payload = _fields(_SubagentForm(turn_id, call_id, thread_id, name, form.kind, form.version, form.payload))
        case _:
            payload = _fields(event)
    return payload


def _fields(event: Struct) -> dict[str, Any]:
    return msgspec.to_builtins(event)


def _untag(images: Iterable[dict[str, Any]]) -> None:
    """Take the tags out: where nothing but an image can stand, its stored form has none."""
    for image in images:
        del image["type"]


def _is_tagged(value: JsonObject) -> bool:
    return len(value) == 1 and (_FLOAT in value or _OBJECT in value)


def _object(value: Json) -> JsonObject:
    return msgspec.convert(value, dict[str, Json])


def _decode_items(value: JsonObject) -> JsonObject:
    return {key: decode_value(item) for key, item in value.items()}


CHECKPOINTS = "checkpoints"
"""The item of every event about checkpoints and rewinds: all of a session are read together."""

HANDOFFS = "handoffs"
"""The item of a session's handoffs, so that the last one is found without reading the rest."""


def about_following(project: str) -> str:
    """The item of what the user chose for the definitions of a project, so that the last choice is found on its own."""
    return f"follow {project}"


_ABOUT_CHECKPOINTS = (
    events.FilesSaved,
    events.CheckpointTaken,
    events.RewindStarted,
    events.SessionRewound,
    events.LandingStarted,
    events.LandingEnded,
)


def item_of(event: Event) -> str:  # noqa: PLR0911  one for each group
    """The id of the call, message, block or else turn that `event` is about; empty when it is about its session."""
    match event:
        case (
            events.ToolCallFinished()
            | events.ToolResultExtended()
            | events.PermissionDecided()
            | events.PermissionAsked()
            | events.PermissionAnswered()
            | events.GrantStored()
            | events.WorkerReady()
        ):
            return event.call_id or ""
        case events.ToolCallStarted():
            return event.call.call_id
        case events.MessagePartial() | events.MessagePinned():
            return event.message_id
        case events.MessageRecorded():
            return event.message.message_id
        case (
            events.TurnStarted()
            | events.TurnEnded()
            | events.MemoryShown()
            | events.ContextAdded()
            | events.PromptRefused()
            | events.ModelRequested()
            | events.PlanUpdated()
            | events.UsageReported()
            | events.ErrorReported()
            | events.HistoryCleared()
            | events.ContextCompacted()
            | events.MemoryRecalled()
            | events.WatchSwitched()
        ):
            return event.turn_id or ""
        case (
            events.BlockCommitted()
            | events.BlockDeleted()
            | events.BlockRestored()
            | events.BlockForgotten()
            | events.BlockHealed()
            | events.BlockConfigured()
            | events.BlockShared()
        ):
            return event.block_id
        case events.SubagentRecorded():
            return item_of(event.event)
        case events.EntryArchived() | events.EntryVerified() | events.EntryStatusChanged():
            return event.entry_id
        case events.HandoffLeft():
            return HANDOFFS
        case _:
            return CHECKPOINTS if isinstance(event, _ABOUT_CHECKPOINTS) else _of_session(event)


_Rest: TypeAlias = (
    events.SessionCreated
    | events.GrantRevoked
    | events.SessionOpened
    | events.SessionConfigured
    | events.SessionTitled
    | events.SessionClosed
    | events.SessionDeleted
    | events.SessionRestored
    | events.SessionArchived
    | events.InstructionsCompiled
    | events.DriftTold
    | events.DefinitionNoted
    | events.DefinitionsFollowed
    | events.ToolsOffered
    | events.ServerToolsPinned
    | events.FolderTrustDecided
    | events.JobStarted
    | events.JobEnded
    | events.JobReported
    | events.EventsRedacted
    | events.BudgetChanged
    | events.TasksChanged
    | events.JobQuoted
    | events.JobMoved
    | events.JobSettled
    | events.ArchiveImported
    | events.MemoryForked
    | events.MemoryForkJoined
    | events.MemoryForkEnded
)


def _of_session(event: _Rest) -> str:
    """The job or project, or nothing for an event about its session; the type makes us put each new kind somewhere."""
    if isinstance(event, events.DefinitionsFollowed):
        return about_following(event.project)
    is_agreed = isinstance(event, events.JobQuoted | events.JobMoved | events.JobSettled)
    return event.job_id if is_agreed else ""


class UnknownEventError(JournalError):
    """A stored event has a kind or a version that this program does not know."""

    failure_code = "journal.event-unknown"

    def __init__(self, kind: str, version: int) -> None:
        super().__init__(
            f"The journal holds an event of kind {kind!r}, version {version}, that this pattern-acp does not know; "
            "upgrade pattern-acp to read this session."
        )
        self.kind = kind
        self.version = version


class DamagedEventError(JournalError):
    """A stored event does not have the form of its kind."""

    failure_code = "journal.event-damaged"


class MissingSessionError(JournalError):
    """No session has this id, or it was deleted."""

    failure_code = "session.unknown"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}; list the sessions and choose one of them.")
        self.session_id = session_id


class AmbiguousSessionError(JournalError):
    """Several sessions have ids that begin as the given one does."""

    failure_code = "session.unknown"

    def __init__(self, beginning: str, found: Sequence[str]) -> None:
        super().__init__(f"More than one session begins with {beginning}: {', '.join(found)}. Give more of the id.")


class BadCursorError(JournalError):
    """A list's cursor was not made by this program."""

    failure_code = "session.cursor-unusable"

    def __init__(self) -> None:
        super().__init__("The cursor is not one that session/list returned; ask for the list again without a cursor.")


class LeaseHeldError(JournalError):
    """The session runs in another process that is alive. `remedy` says what the user can do."""

    failure_code = "session.held-elsewhere"

    def __init__(
        self,
        session_id: str,
        *,
        pid: int,
        host: str,
        since_ms: int,
        remedy: str = "close it there, or start a new session",
    ) -> None:
        since = local_minute(since_ms)
        super().__init__(f"Session {session_id} is in use by process {pid} on {host} since {since}; {remedy}.")
        self.session_id = session_id
        self.pid = pid
        self.host = host
        self.since_ms = since_ms


class LeaseLostError(JournalError):
    """Another process has the session now; nothing may be added to it from here."""

    failure_code = "session.taken-over"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id} is open in another window now, so nothing can be added to it from here. "
            "What was recorded before is there; the next prompt asks where to continue."
        )
        self.session_id = session_id


class NotDeletedError(JournalError):
    """There is no deleted session to bring back, or its time is over."""

    failure_code = "session.not-deleted"


class AnchorError(JournalError):
    """An anchor cannot be read or stored."""

    failure_code = "journal.anchor-unusable"


class RedactionError(JournalError):
    """Words cannot be taken out of an event; nothing was changed."""

    failure_code = "journal.redaction-refused"


class SegmentsError(JournalError):
    """No constellation can be made from these segments."""

    failure_code = "journal.segments-unusable"
