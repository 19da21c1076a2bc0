"""The turns of a session in its journal, taken apart for running them again.

Owns: which event belongs to which request and call of a turn, and the content of each request. Must not know: how a
turn is run, or what is compared. Pure.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn, cast

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.builder import history_of
from pattern_acp.domain.access import Actor
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.messages import Message, ThinkingPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import (
    ErrorReported,
    Event,
    InstructionsCompiled,
    MessageRecorded,
    ModelRequested,
    PermissionAnswered,
    PermissionDecided,
    PlanUpdated,
    SessionConfigured,
    SessionCreated,
    ToolCallFinished,
    ToolCallStarted,
    ToolResultExtended,
    ToolsOffered,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.history import active_events, went_back
from pattern_acp.journal.reader import Recorded, is_prompt
from pattern_acp.policy.decision import Verdict
from pattern_acp.providers.base import ToolSpec
from pattern_acp.turn.loop import TOLD_AGAIN

_TIME_LIMIT = re.compile(r"reached its limit of \d+ seconds")
"""Part of the sentence of a turn that reached its time limit (turn/loop.py)."""


class RecordedCall(Struct):
    """The recorded events of one tool call."""

    started: ToolCallStarted | None = None
    decided: PermissionDecided | None = None
    settled: PermissionDecided | None = None
    """Decisions repeated without a question after parallel calls had been answered."""
    answered: PermissionAnswered | None = None
    finished: ToolCallFinished | None = None
    plan: PlanUpdated | None = None
    extended: ToolResultExtended | None = None

    @property
    def events(self) -> tuple[Event | None, ...]:
        """All recorded events of the call."""
        return (
            self.started,
            self.decided,
            self.settled,
            self.answered,
            self.finished,
            self.plan,
            self.extended,
        )


class Sent(Struct, frozen=True):
    """The content of a request, from its event and those before it; None where not recorded, or redacted."""

    system: str | None
    tools: tuple[ToolSpec, ...] | None
    volatile: str | None
    messages: tuple[str | None, ...]
    """The digest of each message."""
    lost_system: bool = False
    lost_tools: bool = False
    """True when words were redacted since: the running session still used its own copy."""


class RecordedRequest(Struct):
    """One request of a turn, and its outcome before its calls ran."""

    place: int
    """The `session_seq` of its event."""
    event: ModelRequested
    sent: Sent
    plan_mode: bool
    inputs: tuple[Event, ...] = ()
    """The session's events between the previous request and this one."""
    notices: list[MessageRecorded] = field(default_factory=list[MessageRecorded])
    """Notices shown to the user while the answer was pending."""
    message: MessageRecorded | None = None
    usage: UsageReported | None = None

    @property
    def went_on(self) -> str:
        """The notice shown when its answer stopped and the turn continued; else empty."""
        last = self.notices[-1].message if self.notices else None
        is_it = last is not None and last.message_id.endswith(TOLD_AGAIN)
        return "".join(part.text for part in last.parts if isinstance(part, ThinkingPart)) if last and is_it else ""


class RecordedTurn(Struct):
    """One turn. `history` is the conversation that it begins with, its prompt last."""

    number: int
    turn_id: TurnId
    history: list[Message]
    used_calls: set[ToolCallId]
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    calls: dict[ToolCallId, RecordedCall] = field(default_factory=dict[ToolCallId, RecordedCall])
    events: list[Event] = field(default_factory=list[Event])
    error: ErrorReported | None = None
    """The error that stopped it, if one did."""
    ended: TurnEnded | None = None
    forgotten: list[Event] = field(default_factory=list[Event])
    """Those of its events that lost words since."""
    died: bool = True
    """True when its process died, or lost the session, before the turn ended, and another process closed it."""

    @property
    def out_of_time(self) -> bool:
        """True when its time limit ended it."""
        return self.ended is not None and _TIME_LIMIT.search(self.ended.sentence) is not None

    @property
    def was_cut(self) -> bool:
        """True when something other than the loop ended it, at a point that only its events show."""
        return self.died or self.out_of_time or (self.ended is not None and self.ended.stop_reason is _CANCELLED)

    def lost_words(self, *events: Event | None) -> bool:
        """True when words of one of these events were redacted since."""
        return any(event is lost for event in events for lost in self.forgotten)


_CANCELLED = StopReason.CANCELLED


class _Known(Struct):
    """The state at one point of the stream."""

    plan_mode: bool = False
    system: str | None = None
    tools: ToolsOffered | None = None
    volatile: str | None = None
    messages: tuple[str | None, ...] = ()
    prompts: int = 0
    calls: set[ToolCallId] = field(default_factory=set[ToolCallId])
    lost_system: bool = False
    lost_tools: bool = False

    def follow(self, event: Event, *, lost_words: bool) -> None:
        match event:
            case SessionCreated(mode=mode) | SessionConfigured(option="mode", value=mode):
                self.plan_mode = mode == "plan"
            case InstructionsCompiled(system=system):
                self.system, self.lost_system = system, lost_words
            case ToolsOffered():
                self.tools, self.lost_tools = event, lost_words
            case MessageRecorded(message=message):
                self.calls.update(call.call_id for call in message.tool_calls)
            case ModelRequested(parts=parts) if event.number > 0:
                if parts is None:
                    self.volatile, self.messages = None, ()
                    return
                kept = self.messages[: parts.kept]
                # The text of a redaction is unknown, though its position is not.
                self.messages = (*kept, *(None,) * (parts.kept - len(kept)), *parts.messages)
                self.volatile = self.volatile if parts.volatile_text is None else parts.volatile_text
            case _:
                pass

    def sent(self) -> Sent:
        tools = specs(self.tools) if self.tools is not None else None
        return Sent(self.system, tools, self.volatile, self.messages, self.lost_system, self.lost_tools)


def recorded_turns(recorded: Sequence[Recorded], forgotten: Collection[int] = ()) -> Iterator[RecordedTurn]:
    """The session's own turns that asked a model, in order; `recorded` is its history with what it shares.

    `forgotten` are the numbers of events that lost words.
    """
    known, settled, since = _Known(), list[Message](), list[Recorded]()
    for place, entry in enumerate(recorded):
        event = entry.event
        if went_back([entry]):
            settled, since = [], active_events(recorded[: place + 1])
            continue
        since.append(entry)
        known.prompts += is_prompt(event)
        # A command may have asked the model, too: /job does, and so does the agent on its own.
        if isinstance(event, TurnStarted) and entry.session_seq:
            history = history_of([each.event for each in since], settled)
            turn = RecordedTurn(known.prompts, event.turn_id, history, set(known.calls))
            turn.forgotten += [event] if entry.seq in forgotten else []
            _read_turn(turn, recorded[place + 1 :], replace(known, calls=set()), forgotten)
            if turn.requests:
                yield turn
        known.follow(event, lost_words=entry.seq in forgotten)
        if isinstance(event, TurnEnded):
            settled, since = history_of([each.event for each in since], settled), []


def _read_turn(turn: RecordedTurn, recorded: Sequence[Recorded], known: _Known, forgotten: Collection[int]) -> None:
    between: list[Event] = []
    for entry in recorded:
        event = entry.event
        known.follow(event, lost_words=entry.seq in forgotten)
        if isinstance(event, TurnStarted):
            return
        if getattr(event, "turn_id", None) != turn.turn_id:
            continue
        turn.events.append(event)
        turn.forgotten += [event] if entry.seq in forgotten else []
        if isinstance(event, TurnEnded):
            turn.ended, turn.died = event, entry.actor is Actor.PROCESS
            return
        if isinstance(event, ModelRequested) and event.number > 0:
            request = RecordedRequest(entry.session_seq, event, known.sent(), known.plan_mode, tuple(between))
            turn.requests.append(request)
            between = []
            continue
        if isinstance(event, ErrorReported):
            # Without a kind it marks an ordinary end as none.
            turn.error = event if event.kind else None
        elif turn.requests and not _answers(turn, event, between):
            _calls(turn, event)
        between.append(event)


def _answers(turn: RecordedTurn, event: Event, between: Sequence[Event]) -> bool:
    """True when the event is the outcome of the newest request; `between` are the events since."""
    request = turn.requests[-1]
    match event:
        case MessageRecorded(for_model=True) if request.message is None:
            request.message = event
            turn.calls.update((call.call_id, RecordedCall()) for call in event.message.tool_calls)
        case MessageRecorded(for_model=False, message=message) if "_told" in message.message_id:
            request.notices.append(event)
        case UsageReported() if request.usage is None and not any(isinstance(e, ModelRequested) for e in between):
            # A summary asks a model too, after the answer was counted.
            request.usage = event
        case _:
            return False
    return True


def _calls(turn: RecordedTurn, event: Event) -> None:
    match event:
        case ToolCallStarted(call=call) if call.call_id in turn.calls:
            turn.calls[call.call_id].started = event
        case PlanUpdated():
            # It is recorded with the end of its call.
            ended = next((e.call_id for e in reversed(turn.events) if isinstance(e, ToolCallFinished)), None)
            if ended is not None and ended in turn.calls:
                turn.calls[ended].plan = event
        case PermissionDecided() | PermissionAnswered() | ToolCallFinished() | ToolResultExtended():
            call = turn.calls.get(event.call_id)
            if call is not None:
                _follow_call(call, event)
        case _:
            pass


def _follow_call(
    call: RecordedCall, event: PermissionDecided | PermissionAnswered | ToolCallFinished | ToolResultExtended
) -> None:
    match event:
        case PermissionDecided():
            if call.decided is None:
                call.decided = event
            elif call.decided.verdict == Verdict.ASK and call.answered is None:
                call.settled = call.settled or event
            # A later decision is about something that the call does, such as a check.
        case PermissionAnswered():
            call.answered = call.answered or event
        case ToolCallFinished():
            call.finished = event
        case ToolResultExtended():
            call.extended = event


def specs(offered: ToolsOffered) -> tuple[ToolSpec, ...]:
    """Tools as a request has them."""
    return tuple(
        ToolSpec(tool.name, tool.description, cast("JsonObject", json.loads(tool.schema)), tool.free_form)
        for tool in offered.tools
    )


def extra_tools(turns: Sequence[RecordedTurn], own: Mapping[str, object]) -> tuple[ToolSpec, ...]:
    """Tools of the session besides ours: those of servers, and the one that loads skills."""
    found: dict[str, ToolSpec] = {}
    for turn in turns:
        for request in turn.requests:
            found |= {spec.name: spec for spec in request.sent.tools or () if spec.name not in own}
    return tuple(found.values())


class Position:
    """The position in one turn. `scope` is cancelled where the recorded turn was."""

    def __init__(self, turn: RecordedTurn) -> None:
        self.turn = turn
        self.scope = anyio.CancelScope()
        self.is_beyond = False
        """True when the loop asks for more than was recorded."""
        self._index = -1
        self._ended = {
            call_id: anyio.Event()
            for call_id, call in turn.calls.items()
            if call.finished is not None and not call.finished.interrupted
        }

    @property
    def current(self) -> RecordedRequest:
        """The request that was sent last."""
        return self.turn.requests[max(self._index, 0)]

    @property
    def following(self) -> RecordedRequest | None:
        """The request behind it; None behind the last."""
        place = self._index + 1
        return self.turn.requests[place] if place < len(self.turn.requests) else None

    def advance(self) -> RecordedRequest | None:
        """Continue to the next request; None when there is none."""
        found = self.following
        if found is not None:
            self._index += 1
        return found

    def go_back(self) -> None:
        """Go back: the request was not sent after all, since another model is asked."""
        self._index -= 1

    def call(self, call_id: str) -> RecordedCall:
        """The record of a call; an empty one if there is none."""
        return self.turn.calls.get(ToolCallId(call_id)) or RecordedCall()

    def hands_over(self) -> bool:
        """True where the recorded turn ended for the next prompt, which steered the work."""
        ended = self.turn.ended
        return ended is not None and ended.handed_over and self.following is None

    def is_superseded(self, call_id: ToolCallId) -> bool:
        """True for a call that was left out for the next prompt."""
        finished = self.call(call_id).finished
        return finished is not None and finished.failure == "tool.superseded"

    def note_ended(self, call_id: ToolCallId) -> None:
        """Record the end of a call."""
        if call_id in self._ended:
            self._ended[call_id].set()

    async def cut(self) -> NoReturn:
        """Cancel the turn here, once the calls have ended that ended before it was cancelled."""
        for ended in self._ended.values():
            await ended.wait()
        self.scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError
