"""Running one recorded turn again: the loop, its tool runner and its journal are the real ones, all ports are recorded.

Owns: putting a replayed turn together, and repeating the session's part of it as recorded: notes on memory,
compactions, additions of hooks and people. Must not know: what is compared.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn, Protocol, cast

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.builder import Stable, add_context, build_request, state_message
from pattern_acp.context.compaction import compacted
from pattern_acp.context.window import tools_with_room
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import Clock, SessionId, ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import (
    ContextAdded,
    ContextCompacted,
    Event,
    MemoryShown,
    SubagentRecorded,
    ToolCallFinished,
    UsageReported,
)
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolForm, ToolSpec
from pattern_acp.replay.recorded_ports import (
    RecordedChecks,
    RecordedFailureError,
    RecordedHooks,
    RecordedPermissions,
    RecordedProvider,
    RecordedRepeats,
    RecordedTool,
    RecordedWarnings,
    RecordedWorkAhead,
    cancel_reason,
    failure_from,
)
from pattern_acp.replay.recorded_turns import Position, RecordedRequest, RecordedTurn
from pattern_acp.session.state import CODE_TOOL
from pattern_acp.tools.base import Tool, ToolContext
from pattern_acp.tools.registry import PLAN_TOOL, TASK_TOOL, offered
from pattern_acp.turn.budget import Budget, Limits, UserWaitTimer
from pattern_acp.turn.loop import BROKEN_STREAM, CUT_ANSWER, CallIds, ModelInUse, TurnEnd, TurnLoop
from pattern_acp.turn.recorder import JournalRecorder, Transient
from pattern_acp.turn.tool_runner import ToolRunner

BY_SETTINGS = ("edit_file", "apply_patch", CODE_TOOL, PLAN_TOOL, TASK_TOOL, "session_search")
"""Tools that a session may lack for its settings, for its folder, or before there is a task or another session."""


class RequestInputs(Struct, frozen=True):
    """The inputs of a request. `tools` and `volatile` are as recorded."""

    session_id: SessionId
    system: str
    tools: tuple[ToolSpec, ...]
    model: ModelInfo
    thought_level: ThoughtLevel
    tool_form: ToolForm
    history: Sequence[Message]
    volatile: str
    max_output_tokens: int
    plan_mode: bool


class Composition(Protocol):
    """Builds requests."""

    def request(self, inputs: RequestInputs) -> ProviderRequest:
        """Return the request that would be sent."""
        ...


class CurrentComposition:
    """`Composition` of this program with its own `tools`."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)

    def request(self, inputs: RequestInputs) -> ProviderRequest:
        """See `Composition.request`."""
        built = build_request(
            session_id=inputs.session_id,
            stable=Stable(inputs.system, self._offered(inputs), inputs.tool_form),
            model=inputs.model,
            thought_level=inputs.thought_level,
            history=inputs.history,
            memory=(),
            max_output_tokens=inputs.max_output_tokens,
        )
        return replace(built, volatile=inputs.volatile)

    def _offered(self, inputs: RequestInputs) -> tuple[ToolSpec, ...]:
        names = {spec.name for spec in inputs.tools}
        left_out = [name for name in BY_SETTINGS if name not in names]
        ours = tuple(tool.spec for tool in offered(self._tools, mode_is_plan=inputs.plan_mode, left_out=left_out))
        known = {tool.spec.name for tool in self._tools}
        specs = (*ours, *(spec for spec in inputs.tools if spec.name not in known))
        with_room = tools_with_room(specs, inputs.system, inputs.model, inputs.max_output_tokens)
        return tuple(spec for spec in specs if spec.name in with_room)


TURN_SECONDS = 30
"""Limit for one replayed turn: nothing in it waits, so a longer one is stuck."""

UNLIMITED = 1_000_000

_REQUEST_LIMIT = re.compile(r"its limit of (\d+) model requests")
"""The sentence of `turn.budget`."""

UNKNOWN_WINDOW = 128_000
"""Tokens, for sessions that were recorded before windows were."""


class ReplayedTurn(Struct):
    """The outcome of a replayed turn: its requests, its events, and its end."""

    requests: list[ProviderRequest] = field(default_factory=list[ProviderRequest])
    events: list[Event] = field(default_factory=list[Event])
    end: TurnEnd | None = None
    """None when it was cut, or failed."""
    failure: str = ""
    is_beyond: bool = False
    """True when it called the model once more than was recorded."""
    is_stuck: bool = False
    """True when it never ended."""


class RecordedClock:
    """`Clock` that stands still: durations are not replayed."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._now_ms

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return 0.0


class RecordedIds:
    """`IdFactory` that returns the recorded id of the next message."""

    def __init__(self) -> None:
        self.next_message = ""
        self._count = 0

    def new(self, prefix: str) -> str:
        """See `IdFactory.new`."""
        if prefix == "msg" and self.next_message:
            found, self.next_message = self.next_message, ""
            return found
        self._count += 1
        return f"{prefix}_replayed_{self._count}"

    def peer(self) -> int:
        """See `IdFactory.peer`."""
        return 1


class UnusedPort:
    """Stand-in for the ports that no replayed call uses (rule R4)."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A replay calls nobody, and so nobody's {name}.")


class RecordedWindow:
    """`TurnWindow` that compacts where the recorded one did."""

    def __init__(self, position: Position) -> None:
        self._position = position

    def sending(self, request: ProviderRequest) -> int:
        """See `TurnWindow.sending`."""
        del request
        return self._position.current.event.estimate

    def sent_tokens(self) -> int:
        """See `TurnWindow.sent_tokens`."""
        usage = self._position.current.usage
        return usage.usage.input_tokens if usage is not None else 0

    def counted(self, usage: Usage) -> None:
        """See `TurnWindow.counted`."""

    async def too_long(self) -> bool:
        """See `TurnWindow.too_long`."""
        following = self._position.following
        return following is not None and following.event.number == self._position.current.event.number


class RecordedResumption:
    """`Resumption` that continues where the recorded turn did, without waiting."""

    def __init__(self, position: Position) -> None:
        self._position = position

    def goes_on(self, breaks: int) -> bool:
        """See `Resumption.goes_on`."""
        del breaks
        return bool(self._position.current.went_on)

    async def pause(self, breaks: int) -> None:
        """See `Resumption.pause`: the recorded turn may have been cancelled in it."""
        del breaks
        if self._position.following is None and self._position.turn.was_cut:
            await self._position.cut()


class TurnReplay:
    """One turn. It is its own `TurnView`, which collects the shown events, and its own `RequestGate`."""

    def __init__(
        self,
        session_id: SessionId,
        turn: RecordedTurn,
        tools: Sequence[RecordedTool],
        position: Position,
        composition: Composition,
        database: Database,
    ) -> None:
        self.done = ReplayedTurn()
        self._session_id = session_id
        self._turn = turn
        self._position = position
        self._composition = composition
        self._history: list[Message] = list(turn.history)
        self._injected = 0
        self._ids = RecordedIds()
        clock: Clock = RecordedClock(0)
        waits = UserWaitTimer(clock)
        limit, elsewhere = request_limit(turn)
        self._budget = Budget(Limits(limit, UNLIMITED), clock, waits, cost=cost_before(turn), requests=elsewhere)
        self._recorder = JournalRecorder(database, SessionId(f"{session_id}_{turn.number}"), self, clock=clock)
        nobodys = cast("Any", UnusedPort())
        context = ToolContext(session_id, turn.turn_id, "", (), nobodys, nobodys, nobodys)
        self._runner = ToolRunner(
            tools,
            context,
            RecordedPermissions(position, self._recorder, clock),
            self._recorder,
            clock=clock,
            after_edits=RecordedChecks(position),
            hooks=RecordedHooks(position),
        )
        self._runner.before_edits = RecordedWarnings(position)
        self._runner.repeats = RecordedRepeats(position)
        self._runner.hands_over = position.is_superseded
        self._runner.work_ahead = RecordedWorkAhead(position)

    def refuse(self, refusals: Mapping[ToolCallId, str]) -> None:
        """Answer these calls as the record does: their tools were not there."""
        self._runner.refusals = refusals

    async def show(self, event: Event | Transient) -> None:
        """See `TurnView.show`."""
        if isinstance(event, ToolCallFinished):
            self._position.note_ended(event.call_id)
        self.done.events.append(cast("Event", event))

    async def run(self) -> ReplayedTurn:
        """Run it to its end, or to the point where the recorded one was cut."""
        self._recorder.begin(self._turn.turn_id)
        self._runner.cancel_reason = cancel_reason(self._turn)
        try:
            with anyio.move_on_after(TURN_SECONDS) as limit:
                with self._position.scope:
                    self.done.end = await self._until_all_agree()
            self.done.is_stuck = limit.cancelled_caught
        except PatternError as error:
            self.done.failure = error.sentence
        except RecordedFailureError as error:
            self.done.failure = str(error)
        self.done.is_beyond = self._position.is_beyond
        return self.done

    async def _until_all_agree(self) -> TurnEnd:
        """Continue as `session/turn_stages.py` does: for checks and hooks, and with another model for a budget."""
        while True:
            following = self._position.following
            model = model_of(self._turn, following or self._position.current)
            provider = RecordedProvider(self._position, model.provider)
            loop = TurnLoop(
                model=ModelInUse(provider, model),
                build=lambda _, used=model: self._build(used),
                new_runner=self._own_runner,
                recorder=self._recorder,
                ids=self._ids,
                budget=self._budget,
                call_ids=CallIds(set(self._turn.used_calls)),
            )
            loop.window, loop.gate = RecordedWindow(self._position), self
            loop.hands_over = self._position.hands_over
            loop.resumption = RecordedResumption(self._position)
            end = await loop.run(self._turn.turn_id, self._history)
            is_answer = end.stop_reason is StopReason.END_TURN and not end.sentence
            if not is_answer or self._position.following is None or self._position.is_beyond:
                return end

    async def _own_runner(self) -> ToolRunner:
        return self._runner

    async def _build(self, model: ModelInfo) -> ProviderRequest:
        request = self._position.advance()
        if request is None:
            if self._turn.was_cut:
                await self._position.cut()
            error = self._turn.error
            if error is not None:
                raise failure_from(error)
            self._position.is_beyond = True
            return self._composed(self._position.current, model)
        self._give(request)
        said = [one.message.message_id.partition("_told")[0] for one in request.notices]
        said += [request.message.message.message_id] if request.message is not None else []
        self._ids.next_message = next(reversed(said), "")
        return self._composed(request, model)

    async def before_request(self, info: ModelInfo, request: ProviderRequest) -> TurnEnd | None:
        """See `RequestGate.before_request`."""
        if self._position.is_beyond:
            # A budget may have ended the turn; its sentence says so, and without one the loop continued on its own.
            ended = self._turn.ended
            self._position.is_beyond = ended is None or not ended.sentence
            return TurnEnd(ended.stop_reason, ended.sentence) if ended is not None else TurnEnd(StopReason.END_TURN)
        recorded = self._position.current.event
        if info.qualified != f"{recorded.provider}/{recorded.model}":
            self._position.go_back()
            return TurnEnd(StopReason.END_TURN)
        self.done.requests.append(request)
        return None

    async def after_request(self) -> None:
        """See `RequestGate.after_request`. What waits for the next commit gets one: there may be none in a replay."""
        await self._recorder.commit_waiting()

    def _composed(self, request: RecordedRequest, model: ModelInfo) -> ProviderRequest:
        sent, parts = request.sent, request.event.parts
        return self._composition.request(
            RequestInputs(
                self._session_id,
                sent.system or "",
                sent.tools or (),
                model,
                ThoughtLevel(parts.thought_level) if parts is not None else ThoughtLevel.OFF,
                ToolForm(parts.tool_form) if parts is not None else ToolForm.AUTO,
                self._history,
                sent.volatile or "",
                parts.max_output_tokens if parts is not None else model.max_output_tokens,
                request.plan_mode,
            )
        )

    def _give(self, request: RecordedRequest) -> None:
        """Add the messages that the session added to the conversation before this request."""
        index = self._turn.requests.index(request)
        if index < self._injected:
            return
        self._injected = index + 1
        for event in request.inputs:
            match event:
                case MemoryShown():
                    self._history.insert(len(self._history) - 1, state_message(event))
                case ContextAdded(sources=(source,)) if source in {BROKEN_STREAM, CUT_ANSWER}:
                    # The loop reports it itself.
                    pass
                case ContextAdded(message=message):
                    add_context(self._history, message)
                case ContextCompacted():
                    self._history[:] = compacted(self._history, event)
                case UsageReported() | SubagentRecorded(event=UsageReported()):
                    self._spend(event)
                case _:
                    pass

    def _spend(self, event: Event) -> None:
        """Includes the cost of summaries and subagents."""
        inner = event.event if isinstance(event, SubagentRecorded) else event
        own = [request.usage for request in self._turn.requests]
        if isinstance(inner, UsageReported) and not any(inner is usage for usage in own):
            self._budget.take_usage(inner.usage, inner.spent)


def request_limit(turn: RecordedTurn) -> tuple[int, int]:
    """The limit of requests that ended the turn, if one did, and the number that subagents had made of them.

    Subagents are not run again, and their requests count for the limit.
    """
    if turn.ended is None or turn.ended.stop_reason is not StopReason.MAX_TURN_REQUESTS or turn.out_of_time:
        return UNLIMITED, 0
    numbers = [request.event.number for request in turn.requests]
    own = len(numbers) - sum(one == following for one, following in pairwise(numbers))
    limit_text = _REQUEST_LIMIT.search(turn.ended.sentence)
    limit = max(own, int(limit_text[1])) if limit_text is not None else own
    return limit, limit - own


def cost_before(turn: RecordedTurn) -> Cost | None:
    """The session's cost when the turn began."""
    for event in turn.events:
        usage = event.event if isinstance(event, SubagentRecorded) else event
        if isinstance(usage, UsageReported):
            if usage.cost is None:
                # It reports the sum so far; a model without a known price came first, and one that has a price later.
                return None
            spent = usage.spent.micro_units if usage.spent is not None else 0
            return replace(usage.cost, micro_units=usage.cost.micro_units - spent)
    return None


def model_of(turn: RecordedTurn, request: RecordedRequest) -> ModelInfo:
    """The model of a request, as far as recorded."""
    event, parts = request.event, request.event.parts
    of_model = [one for one in turn.requests if one.event.model == event.model]
    usages = [one.usage for one in of_model if one.usage is not None]
    window = parts.context_window if parts is not None else next((usage.size for usage in usages), UNKNOWN_WINDOW)
    return ModelInfo(
        event.provider,
        event.model,
        context_window=window,
        max_output_tokens=parts.max_output_tokens if parts is not None else window,
        prices=next((usage.prices for usage in usages if usage.prices), ""),
    )
