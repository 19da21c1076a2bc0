"""The first difference between a recorded turn and its replay, turn by turn through a session.

Owns: what is compared, in which order (request by request, each with what followed from its answer, as it happened),
and the sentences on what could not be. Must not know: how a turn is run, or how a difference is shown. Times are not
compared, nor the order in which calls that ran side by side began and ended.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.builder import state_message
from pattern_acp.db.connection import open_database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SessionId, SystemClock, ToolCallId
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
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind
from pattern_acp.journal.codec import encode
from pattern_acp.journal.events import (
    ContextAdded,
    ContextCompacted,
    Event,
    MemoryShown,
    MessageRecorded,
    ModelRequested,
    PlanUpdated,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    ToolResultExtended,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.replay.recorded_ports import RecordedTool
from pattern_acp.replay.recorded_turns import (
    Position,
    RecordedCall,
    RecordedRequest,
    RecordedTurn,
    extra_tools,
    recorded_turns,
)
from pattern_acp.replay.turn_replay import Composition, ReplayedTurn, TurnReplay
from pattern_acp.tools.base import Tool
from pattern_acp.turn.request_fingerprints import RequestDigests
from pattern_acp.turn.tool_runner import CHANGED_BY_HOOK


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


ShownAs = Callable[[Event], Json]
"""The updates that a client gets for a recorded event; supplied by the wire."""

NOTHING = "(nothing)"


class TurnDifference(Struct, frozen=True):
    """A point at which a replayed turn differs: the turn, its request from 1, the part, and both as text."""

    turn: int
    request: int
    part: str
    recorded: str
    replayed: str


class _Followed(Struct):
    """The events that followed one request."""

    notices: list[Event] = field(default_factory=list[Event])
    message: Event | None = None
    usage: Event | None = None
    calls: dict[ToolCallId, RecordedCall] = field(default_factory=dict[ToolCallId, RecordedCall])
    last_ended: RecordedCall | None = None


class ComparedTurn(Struct, frozen=True):
    """The first difference of a turn, None when there is none, and how many before it follow from forgotten words."""

    difference: TurnDifference | None
    forgotten: int


class _Found(Struct, frozen=True):
    difference: TurnDifference
    is_of_forgotten: bool = False


def compare(turn: RecordedTurn, replayed: ReplayedTurn, shown_as: ShownAs) -> ComparedTurn:
    """Compare a turn. The consequences of redacted words are expected, and no difference."""
    forgotten = 0
    for found in _differences(turn, replayed, shown_as):
        if not found.is_of_forgotten:
            return ComparedTurn(found.difference, forgotten)
        forgotten += 1
    return ComparedTurn(None, forgotten)


def _differences(turn: RecordedTurn, replayed: ReplayedTurn, shown_as: ShownAs) -> Iterator[_Found]:
    followed = _followed(replayed.events)
    messages = RecordedMessages(turn.history, turn.events)
    for index, request in enumerate(turn.requests):
        before = turn.requests[:index]
        at = _At(turn.number, index + 1, any(one.usage is not None and one.usage.estimated for one in before))
        if index >= len(replayed.requests):
            missing = at.difference("the request", _about(request), replayed.failure or NOTHING)
            yield _Found(missing, bool(turn.forgotten))
            return
        yield from _request(at, request, replayed.requests[index], messages)
        if turn.died and index + 1 == len(turn.requests):
            return
        yield from _events(at, turn, request, followed[index], shown_as)
    yield from (_Found(found, bool(turn.forgotten)) for found in _end(turn, replayed))


class _At(Struct, frozen=True):
    turn: int
    request: int
    is_behind_estimate: bool = False
    """True when part of the cost so far was estimated."""

    def difference(self, part: str, recorded: str, replayed: str) -> TurnDifference:
        return TurnDifference(self.turn, self.request, part, recorded, replayed)


def _request(
    at: _At, recorded: RecordedRequest, request: ProviderRequest, messages: RecordedMessages
) -> Iterator[_Found]:
    parts, sent = recorded.event.parts, recorded.sent
    if parts is None:
        if recorded.event.message_count != len(request.messages):
            counts = (str(recorded.event.message_count), str(len(request.messages)))
            yield _Found(at.difference("the number of messages", *counts))
        return
    known = RequestDigests().known(request, parts.context_window)
    if known.parts.system != parts.system:
        yield _Found(at.difference("system", sent.system or NOTHING, request.system), sent.lost_system)
    if known.parts.tools != parts.tools:
        yield _Found(at.difference("tools", tools_text(sent.tools or ()), tools_text(request.tools)), sent.lost_tools)
    yield from map(_Found, _messages(at, recorded, request, known.parts.messages, messages))
    if known.parts.volatile != parts.volatile and sent.volatile is not None:
        yield _Found(at.difference("volatile", sent.volatile, request.volatile))
    elif known.digest != recorded.event.digest and sent.volatile is not None and None not in sent.messages:
        is_lost = sent.lost_system or sent.lost_tools
        yield _Found(at.difference("settings", _settings(recorded), _settings_of(request)), is_lost)


def _messages(
    at: _At,
    recorded: RecordedRequest,
    request: ProviderRequest,
    digests: Sequence[str],
    messages: RecordedMessages,
) -> Iterator[TurnDifference]:
    known = recorded.sent.messages
    for index, digest in enumerate(known):
        if index >= len(request.messages):
            yield at.difference(f"message {index + 1}", _only_digest(digest), NOTHING)
        elif digest not in {None, digests[index]}:
            text = message_text(request.messages[index])
            before = messages.text_of(request.messages[index])
            yield at.difference(
                f"message {index + 1}", before if before not in {"", text} else _only_digest(digest), text
            )
    for index in range(len(known), len(request.messages)):
        yield at.difference(f"message {index + 1}", NOTHING, message_text(request.messages[index]))


def _only_digest(digest: str | None) -> str:
    return f"(another message, of which only the digest {digest} was recorded)"


def _settings(recorded: RecordedRequest) -> str:
    parts = recorded.event.parts
    limits = (
        {}
        if parts is None
        else {"answer": f"{parts.max_output_tokens} tokens", "thinking": ThoughtLevel(parts.thought_level).value}
    )
    return fields_text({"model": recorded.event.model, **limits, "whole": recorded.event.digest})


def _settings_of(request: ProviderRequest) -> str:
    return fields_text(
        {
            "model": request.model,
            "answer": f"{request.max_output_tokens} tokens",
            "thinking": request.thought_level.value,
            "whole": RequestDigests().of(request)[0],
        }
    )


def _about(request: RecordedRequest) -> str:
    event = request.event
    return f"a request to {event.provider}/{event.model} with {event.message_count} messages"


def _events(
    at: _At, turn: RecordedTurn, request: RecordedRequest, replayed: _Followed, shown_as: ShownAs
) -> Iterator[_Found]:
    pairs: list[tuple[str, Event | None, Event | None]] = [
        (f"notice {index + 1}", one, two) for index, (one, two) in enumerate(_padded(request.notices, replayed.notices))
    ]
    pairs.append(("the answer", request.message, replayed.message))
    pairs.append(("usage", request.usage, replayed.usage))
    for part, before, now in pairs:
        is_lost = turn.lost_words(before, request.message)
        yield from (_Found(found, is_lost) for found in _event(at, part, before, now, shown_as))
    calls = request.message.message.tool_calls if request.message is not None else ()
    for call in calls:
        recorded, again = turn.calls[call.call_id], replayed.calls.get(call.call_id, RecordedCall())
        about = f"of call {call.call_id}"
        is_lost = turn.lost_words(request.message, *recorded.events)
        pairs = [
            (f"the beginning {about}", recorded.started, again.started),
            (f"the end {about}", recorded.finished, again.finished),
            (f"the plan {about}", recorded.plan, again.plan),
            (f"what was found after the edit {about}", recorded.extended, again.extended),
        ]
        for part, before, now in pairs:
            yield from (_Found(found, is_lost) for found in _event(at, part, before, now, shown_as))


def _padded(one: Sequence[Event], two: Sequence[Event]) -> Iterator[tuple[Event | None, Event | None]]:
    for index in range(max(len(one), len(two))):
        yield (one[index] if index < len(one) else None, two[index] if index < len(two) else None)


def _event(
    at: _At, part: str, recorded: Event | None, now: Event | None, shown_as: ShownAs
) -> Iterator[TurnDifference]:
    before, after = _comparable(recorded, at), _comparable(now, at)
    shown = [pretty(shown_as(event)) if event is not None else NOTHING for event in (before, after)]
    if shown[0] != shown[1]:
        yield at.difference(f"{part}, as the client is shown it", *shown)
        return
    stored = [pretty(encode(event).payload) if event is not None else NOTHING for event in (before, after)]
    if stored[0] != stored[1]:
        yield at.difference(f"{part}, as it is recorded", *stored)


def _comparable(event: Event | None, at: _At) -> Event | None:
    if isinstance(event, ToolCallFinished):
        return replace(event, duration_ms=0, sandbox="")
    if isinstance(event, UsageReported) and event.estimated:
        # What an estimate costs depends on prices that are not recorded, and how much was written on calls that were
        # cut off with the answer, and are not recorded either.
        written = event.usage.output_tokens
        usage, used = replace(event.usage, output_tokens=0), event.used - written
        return replace(event, cost=None, spent=None, prices="", usage=usage, used=used)
    if isinstance(event, UsageReported) and at.is_behind_estimate:
        return replace(event, cost=None)
    return event


def _end(turn: RecordedTurn, replayed: ReplayedTurn) -> Iterator[TurnDifference]:
    at = _At(turn.number, len(turn.requests))
    if replayed.is_beyond:
        yield at.difference("the end", _ended(turn), "one more request to the model")
    if replayed.is_stuck:
        yield at.difference("the end", _ended(turn), "no end: the replay waits for what was not recorded")
    if turn.was_cut or turn.ended is None or replayed.is_beyond or replayed.is_stuck:
        return
    if turn.error is not None:
        if replayed.failure != turn.error.sentence:
            yield at.difference("the end", turn.error.sentence, replayed.failure or _end_of(replayed))
        return
    recorded, now = _ended(turn), replayed.failure or _end_of(replayed)
    is_answer = replayed.end is not None and not replayed.end.sentence
    # What ends a turn that was answered is not the loop's to say: hooks and checks that never agree.
    same_reason = replayed.end is not None and replayed.end.stop_reason is turn.ended.stop_reason
    if recorded != now and not (is_answer and same_reason):
        yield at.difference("the end", recorded, now)


def _ended(turn: RecordedTurn) -> str:
    return f"{turn.ended.stop_reason.value} {turn.ended.sentence}".rstrip() if turn.ended is not None else NOTHING


def _end_of(replayed: ReplayedTurn) -> str:
    end = replayed.end
    return f"{end.stop_reason.value} {end.sentence}".rstrip() if end is not None else NOTHING


def _followed(events: Sequence[Event]) -> list[_Followed]:
    """The events that followed each request of a replayed turn."""
    found: list[_Followed] = []
    for event in events:
        if isinstance(event, ModelRequested):
            found.append(_Followed())
        elif found:
            _follow(found[-1], event)
    return found


def _follow(now: _Followed, event: Event) -> None:
    match event:
        case MessageRecorded(for_model=False):
            now.notices.append(event)
        case MessageRecorded():
            now.message = event
        case UsageReported():
            now.usage = event
        case ToolCallStarted(call=call):
            now.calls[call.call_id] = RecordedCall(started=event)
        case ToolCallFinished(call_id=call_id):
            now.last_ended = now.calls.setdefault(call_id, RecordedCall())
            now.last_ended.finished = event
        case ToolResultExtended(call_id=call_id):
            now.calls.setdefault(call_id, RecordedCall()).extended = event
        case PlanUpdated() if now.last_ended is not None:
            now.last_ended.plan = event
        case _:
            pass


_NO_TOOL = re.compile(
    r"(?:There is no tool named .*?|The tool '.*?' is not allowed in this command)"
    r"; the tools are .*?\.(?=\s|$)(?: Did you mean \S+\?)?",
    re.DOTALL,
)
"""The sentences of `turn.tool_runner.read_call`, in front of notes on the call."""


class TurnsReport(Struct, frozen=True):
    """The replayed turns, the first difference, and sentences on what was not compared."""

    turns: int
    requests: int
    calls: int
    difference: TurnDifference | None = None
    not_compared: tuple[str, ...] = ()


class ReplayServices(Struct, frozen=True):
    """The current tools, composition and client updates that a replay uses."""

    tools: tuple[Tool, ...]
    composition: Composition
    shown_as: ShownAs


async def replay_turns(
    session_id: str,
    recorded: Sequence[Recorded],
    services: ReplayServices,
    *,
    turn: int = 0,
    forgotten: Collection[int] = (),
) -> TurnsReport:
    """Replay the turns of a session, or the one of that number, in an empty constellation; stops at a difference.

    `recorded` is the history of the session (`journal.history.read_history`), `forgotten` are the numbers of those of
    its events that lost words: what follows from these is not compared.

    Raises:
        DatabaseError: the temporary constellation cannot be used.
    """
    every = list(recorded_turns(recorded, forgotten))
    asked = [one for one in every if turn in {0, one.number}]
    turns = [one for one in asked if not _is_swept(one)]
    own = {tool.spec.name: tool for tool in services.tools}
    extra = extra_tools(every, own)
    difference: TurnDifference | None = None
    done: list[RecordedTurn] = []
    lost = 0
    with tempfile.TemporaryDirectory(prefix="pattern-acp-replay-", ignore_cleanup_errors=True) as folder:
        async with open_database(Path(folder) / "constellation.db", clock=SystemClock()) as database:
            for one in turns:
                position = Position(one)
                tools = _tools(one, services.tools, extra, position)
                again = TurnReplay(SessionId(session_id), one, tools, position, services.composition, database)
                again.refuse(refusals_of(one))
                done.append(one)
                compared = compare(one, await again.run(), services.shown_as)
                difference, lost = compared.difference, lost + compared.forgotten
                if difference is not None:
                    break
    requests, calls = sum(len(one.requests) for one in done), sum(len(one.calls) for one in done)
    not_compared = tuple(_not_compared(done, swept=len(asked) - len(turns), lost=lost))
    return TurnsReport(len(done), requests, calls, difference, not_compared)


def has_turn(recorded: Sequence[Recorded], number: int) -> bool:
    """True when the session itself has a turn of this number that called a model."""
    return any(one.number == number for one in recorded_turns(recorded))


def _tools(
    turn: RecordedTurn, own: Sequence[Tool], extra: Sequence[ToolSpec], position: Position
) -> list[RecordedTool]:
    kinds = {call.started.call.name: call.started.call.kind for call in turn.calls.values() if call.started}
    tools = {tool.spec.name: RecordedTool(position, tool.spec, tool.kind, tool.changes_things) for tool in own}
    others = {spec.name: spec for spec in extra}
    # A mode hides tools of servers that can be called all the same, and of which only the call is recorded.
    called = {call.started.call.name for call in turn.calls.values() if call.started and call.decided}
    hidden = called - {*tools, *others}
    others |= {name: ToolSpec(name, "", {"type": "object"}) for name in hidden}
    for name, spec in others.items():
        tools[name] = RecordedTool(position, spec, kinds.get(name, ToolKind.OTHER), changes_things=True)
    return list(tools.values())


def refusals_of(turn: RecordedTurn) -> dict[ToolCallId, str]:
    """The answers to calls of tools that there were not, or that the turn's command did not allow."""
    results = {call_id: call.finished.result_text for call_id, call in turn.calls.items() if call.finished is not None}
    found = {call_id: _NO_TOOL.match(text) for call_id, text in results.items()}
    return {call_id: match[0] for call_id, match in found.items() if match is not None}


def _is_swept(turn: RecordedTurn) -> bool:
    """True when all words of a turn are gone because its session was deleted (`journal.retention`)."""
    return any(request.event.parts is not None and not request.event.parts.system for request in turn.requests)


def _not_compared(turns: Sequence[RecordedTurn], *, swept: int, lost: int) -> Iterator[str]:
    """Sentences on what the record lacks, or what is not repeated."""
    counted = Counter(word for turn in turns for request in turn.requests for word in _gaps(request))
    events = [event for turn in turns for event in turn.events]
    started = [call.started for turn in turns for call in turn.calls.values() if call.started is not None]
    found = {
        "requests of a version that recorded no parts of them, of which only the number of messages is compared": (
            counted["before"]
        ),
        "requests with words that were redacted or forgotten since, whose digests are gone": counted["redacted"],
        "turns of which `gc` took the words, since the session was deleted": swept,
        "what follows from events that lost words since, and is another without them": lost,
        "turns that the end of their process cut, compared up to their last request": sum(turn.died for turn in turns),
        "subagents, which are not run again": len(
            {event.thread_id for event in events if isinstance(event, SubagentRecorded)}
        ),
        "compactions, which are not chosen or summed up again": sum(
            isinstance(event, ContextCompacted) for event in events
        ),
        "calls with arguments that a hook changed": sum(CHANGED_BY_HOOK in one.repairs for one in started),
    }
    for sentence, count in found.items():
        if count:
            yield f"{sentence}: {count}"


def _gaps(request: RecordedRequest) -> Iterator[str]:
    if request.event.parts is None:
        yield "before" if request.event.digest else "redacted"
    elif None in request.sent.messages or request.sent.volatile is None:
        yield "redacted"
