"""The model, tools, policy, approver, hooks and checks of a replay: each answers as the recorded one did.

Owns: serving recorded answers and results through the ports of the loop. Must not know: any tool. A replayed tool
touches nothing; the loop's own part of a call is done again: reading its arguments, the text of a refusal, the report
of a failure, the result of a cancellation. Words of earlier releases are repeated where they were recorded.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial

import anyio.lowlevel
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Access, CallServer, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import Clock, ToolCallId, TurnId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import Message, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.tool_calls import (
    Advised,
    Plan,
    StopReason,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.domain.usage import Usage
from pattern_acp.hooks import Opinion
from pattern_acp.journal.events import ErrorReported, PermissionDecided, ToolCallFinished, TurnEnded
from pattern_acp.policy.decision import (
    ApprovalRequest,
    ClaimElsewhere,
    Decision,
    Mode,
    PermissionAnswer,
    Verdict,
    Wording,
)
from pattern_acp.providers import http_errors
from pattern_acp.providers.base import (
    MalformedToolCall,
    ModelSwitched,
    ProviderEvent,
    ProviderNotice,
    ProviderRequest,
    ProviderStop,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    ToolSpec,
    UsageKnown,
    UsageMissing,
)
from pattern_acp.replay.recorded_turns import Position, RecordedCall, RecordedRequest, RecordedTurn
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolFailedError, ToolOutcome
from pattern_acp.turn.budget import NOTE_BEGINS, REPEAT_RULE, STOPPED_FOR_REPEATS, RepeatGuard
from pattern_acp.turn.loop import CUT, GOES_ON, OUT_OF_TIME, TOLD_AGAIN
from pattern_acp.turn.permissions import ASKED_TO_GIVE_WAY, Denied, GivesWay, PermissionChecker, PolicyState
from pattern_acp.turn.recorder import TurnRecorder
from pattern_acp.turn.tool_runner import CANCELLED_SENTENCE, CHANGED_BY_HOOK

NOT_DECIDED = "not recorded"
"""The rule of a decision on a call that the journal has none for."""

STOPPED_BY_HOOK = "A hook ended this turn: "
"""The beginning of the sentence of a turn that a hook ended (turn/loop.py)."""

DEFERRED_FAILURE = "memory.warned"
"""The code of a call that waited until the model had read what memory says about its files (turn/tool_runner.py)."""

CANCEL_REASONS = (
    CANCELLED_SENTENCE,
    "The person cancelled the turn before this call ended.",  # of earlier releases
    OUT_OF_TIME,
)
"""Beginnings of the results of cancelled calls."""

NOT_RECORDED = "The recorded session did not make this call."


class RecordedTool(Struct, frozen=True):
    """`Tool` whose calls were all made before."""

    position: Position
    spec: ToolSpec
    kind: ToolKind
    changes_things: bool

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext, /) -> PreparedCall:
        """See `Tool.prepare`."""
        del arguments, context
        call, turn = self.position.call(call_id), self.position.turn
        was_prepared = call.started is not None and (call.decided is not None or was_deferred(call))
        if not was_prepared and turn.was_cut and (call.finished is None or call.finished.interrupted):
            await self.position.cut()
        if call.started is None:
            raise ToolFailedError(NOT_RECORDED)
        view = call.started.call
        if not was_prepared:
            raise _recorded_error(call)
        # Its accesses are not recorded, only the decision on them, which `RecordedPermissions` finds by the call's id.
        accesses = (CallServer("replay", call_id),)
        run = partial(self._run, call, view)
        return PreparedCall(view.title, accesses, run, view.locations, view.content, view.kind, run_confined=run)

    async def _run(self, call: RecordedCall, view: ToolCallView, progress: Progress) -> ToolOutcome:
        finished = call.finished
        if finished is None or finished.interrupted:
            if finished is not None:
                shown = shown_before(finished)
                if shown != view.content or finished.title:
                    await progress.show(shown, title=finished.title)
                progress.note(noted(finished.result_text))
            await self.position.cut()
        return ToolOutcome(
            finished.result_text,
            is_error=finished.status is ToolCallStatus.FAILED,
            content=finished.content,
            locations=finished.locations,
            images=finished.images,
            full_output=finished.full_output,
            origin=Origin.WORKSPACE,
            plan=call.plan.plan if call.plan is not None else None,
            title=finished.title,
            changed=(view.title,) if call.extended is not None else (),
            failure=finished.failure,
        )


def _recorded_error(call: RecordedCall) -> ToolFailedError:
    """The failure of a call that could not be prepared, in the recorded words for the model and for the user."""
    # The guard adds its note, which the client is not shown.
    text = without_note(result_of(call))
    if call.finished is None:
        return ToolFailedError(text)
    shown = next((each.text for each in call.finished.content if isinstance(each, TextContent)), text)
    whole = shown if text.startswith(shown) else shown.removesuffix(".")
    advice = text.removeprefix(whole).removeprefix(";").strip() if text.startswith(whole) else ""
    error = ToolFailedError(whole if advice else text, advice=advice)
    error.failure_code = call.finished.failure
    return error


def was_deferred(call: RecordedCall) -> bool:
    """True when it waited for the model to read memory before policy decided."""
    return call.finished is not None and call.finished.failure == DEFERRED_FAILURE


def result_of(call: RecordedCall) -> str:
    """The result that the model read; empty when there is none."""
    return call.finished.result_text if call.finished is not None else ""


def without_note(text: str) -> str:
    """`text` of a result before the guard against repeats added to it."""
    before, begins, _ = text.rpartition(NOTE_BEGINS)
    return before if begins else text


def shown_before(finished: ToolCallFinished) -> tuple[ToolContent, ...]:
    """The content that the client saw of a cancelled call, without its last item, the reason."""
    content = finished.content
    return content[:-1] if content[-1:] == (TextContent(finished.result_text),) else content


def noted(text: str) -> str:
    """The progress text of a call until it was cancelled."""
    for reason in CANCEL_REASONS:
        text = text.removeprefix(reason)
    return text.removeprefix("\n\n")


def cancel_reason(turn: RecordedTurn) -> str:
    """The text that is in the turn for the results of cancelled calls."""
    texts = [call.finished.result_text for call in turn.calls.values() if call.finished and call.finished.interrupted]
    recorded = (reason for reason in CANCEL_REASONS for text in texts if text.startswith(reason))
    return next(recorded, OUT_OF_TIME if turn.out_of_time else CANCELLED_SENTENCE)


def _as_recorded(decided: PermissionDecided) -> Decision:
    return Decision(
        Verdict(decided.verdict),
        decided.rule,
        decided.reason,
        sandbox=decided.sandbox,
        origin=decided.origin,
        source=decided.source,
    )


class RecordedRepeats(RepeatGuard):
    """`RepeatGuard` that asks, notes and stops where the recorded turn did."""

    def __init__(self, position: Position) -> None:
        super().__init__()
        self._position = position

    @property
    def stop(self) -> str:
        """See `RepeatGuard.stop`."""
        ended = self._position.turn.ended
        if ended is None or self._position.following is not None:
            return ""
        return ended.sentence if ended.sentence.startswith(STOPPED_FOR_REPEATS) else ""

    def is_due(self, call_id: ToolCallId, name: str, arguments: JsonObject) -> bool:
        """See `RepeatGuard.is_due`."""
        del name, arguments
        decided = self._position.call(call_id).decided
        return decided is not None and decided.rule == REPEAT_RULE

    def decide(self, call: ToolCallView, decision: Decision) -> Decision:
        """See `RepeatGuard.decide`; the recorded gate knows no calls that could not be prepared."""
        decided = self._position.call(call.call_id).decided
        if decided is None or decided.rule != REPEAT_RULE or decision.rule != NOT_DECIDED:
            return decision
        return _as_recorded(decided)

    def note(self, call: ToolCallView, text: str, *, failed: bool, changes: bool) -> str:
        """See `RepeatGuard.note`: whatever was recorded behind the text."""
        del failed, changes
        recorded = result_of(self._position.call(call.call_id))
        return recorded.removeprefix(text) if recorded.startswith(text) else ""


class RecordedPermissions(PermissionChecker):
    """`PermissionChecker` that repeats recorded decisions, and asks and refuses on its own."""

    def __init__(self, position: Position, recorder: TurnRecorder, clock: Clock) -> None:
        super().__init__(PolicyState(Mode.ASK, ()), RecordedApprover(position), recorder, clock=clock)
        self._position = position
        self._waiting = set[str]()
        """Calls that were to be asked about, and wait for the questions before theirs."""

    def decide(
        self,
        accesses: tuple[Access, ...],
        arguments: JsonObject | None = None,
        claims: tuple[ClaimElsewhere, ...] = (),
    ) -> Decision:
        """See `PermissionChecker.decide`."""
        del arguments, claims
        named = next((access.tool for access in accesses if isinstance(access, CallServer)), "")
        call = self._position.call(named)
        decided = call.settled if named in self._waiting and call.settled is not None else call.decided
        self._waiting.add(named)
        if decided is None and was_deferred(call):
            return Decision(Verdict.ALLOW, "replay", "")
        if decided is None:
            return Decision(Verdict.DENY, NOT_DECIDED, NOT_RECORDED)
        return _as_recorded(decided)

    async def authorize(
        self,
        turn_id: TurnId,
        decision: Decision,
        accesses: tuple[Access, ...],
        view: ToolCallView,
        *,
        again: Callable[[], Decision],
        wording: Wording | None = None,
        gives_way: GivesWay | None = None,
    ) -> Denied | None:
        """Refuse as `PermissionChecker.authorize`, in the words of an earlier release where those were recorded."""
        del gives_way
        finished = self._position.call(view.call_id).finished

        async def gave_way(*, takes_over: bool) -> bool:
            return takes_over and finished is not None and ASKED_TO_GIVE_WAY in finished.result_text

        denied = await super().authorize(
            turn_id, decision, accesses, view, again=again, wording=wording, gives_way=gave_way
        )
        if denied is None:
            return None
        earlier = re.sub(r"(?<=[Tt]he )user\b", "person", denied.for_model)
        recorded = result_of(self._position.call(view.call_id))
        return replace(denied, for_model=earlier) if recorded.startswith(earlier) else denied


class RecordedApprover:
    """`Approver` that returns the user's recorded answers."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""
        answered = self._position.call(request.call.call_id).answered
        if answered is None:
            if self._position.turn.was_cut:
                await self._position.cut()
            return PermissionAnswer.CANCELLED
        if answered.words:
            request.hear(answered.words)
        return PermissionAnswer(answered.answer)


class RecordedWarnings:
    """`turn.tool_runner.BeforeEdits` that defers the recorded calls, with the same words."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def claims(self, accesses: Sequence[Access]) -> tuple[ClaimElsewhere, ...]:
        """See `BeforeEdits.claims`. They are part of the recorded decision."""
        del accesses
        return ()

    async def gives_way(self, accesses: Sequence[Access], *, takes_over: bool) -> bool:
        """See `BeforeEdits.gives_way`; `RecordedPermissions.authorize` repeats what came of it."""
        del accesses
        return takes_over

    async def before(self, accesses: Sequence[Access]) -> Advised | None:
        """See `BeforeEdits.before`."""
        named = next((access.tool for access in accesses if isinstance(access, CallServer)), "")
        call = self._position.call(named)
        if not (was_deferred(call) and call.started):
            return None
        shown, _, advice = result_of(call).rpartition("\n")
        return Advised(shown, advice)


class RecordedHooks:
    """`turn.tool_runner.ToolHooks` that acts as recorded in the journal."""

    def __init__(self, position: Position) -> None:
        self._position = position

    @property
    def stop(self) -> str:
        """See `ToolHooks.stop`."""
        ended = self._position.turn.ended
        is_last = self._position.following is None
        if ended is None or not is_last or not ended.sentence.startswith(STOPPED_BY_HOOK):
            return ""
        return ended.sentence.removeprefix(STOPPED_BY_HOOK)

    async def before(self, turn_id: TurnId, call: ToolCallView) -> Opinion:
        """See `ToolHooks.before`. Their opinion is part of the recorded decision."""
        del turn_id
        started = self._position.call(call.call_id).started
        if started is None or CHANGED_BY_HOOK not in started.repairs:
            return Opinion()
        return Opinion(updated_input=started.call.raw_input)

    async def after(self, turn_id: TurnId, call: ToolCallView, outcome: ToolOutcome) -> str:
        """See `ToolHooks.after`. Their words are part of the recorded result."""
        del turn_id, call, outcome
        return ""


class RecordedWorkAhead:
    """`turn.tool_runner.WorkAhead` that stops before the calls that were left out. Behind a plan, the gate does."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def before(
        self,
        turn_id: TurnId,
        calls: Sequence[ToolCallPart],
        delegated: Sequence[JsonObject],
        plan: Plan | None,
    ) -> str:
        """See `WorkAhead.before`."""
        del turn_id, delegated, plan
        finished = self._position.call(calls[0].call_id).finished if calls else None
        return finished.result_text if finished is not None and finished.failure == "tool.not-agreed" else ""


class RecordedChecks:
    """`turn.tool_runner.AfterEdits` with the recorded findings."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """See `AfterEdits.after_edits`."""
        del turn_id, changed
        message = self._position.current.message
        calls: tuple[ToolCallPart, ...] = message.message.tool_calls if message is not None else ()
        found = [extended for call in calls if (extended := self._position.call(call.call_id).extended) is not None]
        return found[-1].text.removeprefix("\n") if found else ""


_STOPS = {StopReason.MAX_TOKENS: ProviderStop.MAX_TOKENS, StopReason.REFUSAL: ProviderStop.REFUSAL}


class RecordedFailureError(Exception):
    """A recorded failure whose class is not one of a provider's."""


class RecordedProvider:
    """`Provider` that answers each request as the recorded one was answered."""

    def __init__(self, position: Position, name: str) -> None:
        self._position = position
        self._name = name

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        del request
        return self._answer()

    @asynccontextmanager
    async def _answer(self) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
        async with aclosing(self._events()) as events:
            yield events

    async def _events(self) -> AsyncGenerator[ProviderEvent, None]:
        position, request = self._position, self._position.current
        for event in stream_of(request):
            await anyio.lowlevel.checkpoint()
            yield event
        is_last = position.following is None
        message = request.message
        if not request.went_on and (message is None or not message.complete):
            failure = failure_of(position)
            if failure is not None:
                raise failure
            if is_last and position.turn.was_cut:
                await position.cut()
        yield stop_of(position.turn, request, is_last=is_last)


def stream_of(request: RecordedRequest) -> Iterator[ProviderEvent]:
    """The events of a recorded answer, before its end."""
    qualified = f"{request.event.provider}/{request.event.model}"
    answering = answered_by(request) or qualified
    for notice in request.notices:
        if notice.message.message_id.endswith(TOLD_AGAIN):
            # The loop says that itself.
            continue
        for part in notice.message.parts:
            if isinstance(part, ThinkingPart):
                yield Retrying(1, 0, part.text)
            elif isinstance(part, TextPart):
                yield ProviderNotice(part.text.strip().removeprefix("> "))
    if answering != qualified:
        yield ModelSwitched(answering)
    yield from _parts(request.message.message if request.message is not None else None)
    # The loop repeats estimates itself, unless its provider had reported a part before the answer was cut.
    usage = request.usage
    if usage is not None and (not usage.estimated or _is_partly_known(usage.usage)):
        # The estimate of the answer is our own count, which the loop repeats.
        known = replace(usage.usage, output_tokens=0) if usage.estimated else usage.usage
        yield UsageKnown(known, usage.spent)
    if usage is not None and usage.estimated:
        yield UsageMissing()


def _is_partly_known(usage: Usage) -> bool:
    return bool(usage.cache_read_tokens or usage.cache_write_tokens or usage.thinking_tokens)


def answered_by(request: RecordedRequest) -> str:
    """The model that answered, as far as that was recorded: another one may have stood in."""
    if request.usage is not None and request.usage.model:
        return request.usage.model
    parts = request.message.message.parts if request.message is not None else ()
    return next((part.provider for part in parts if isinstance(part, ThinkingPart)), "")


def _parts(message: Message | None) -> Iterator[ProviderEvent]:
    for index, part in enumerate(message.parts if message is not None else ()):
        match part:
            case TextPart(text):
                yield TextDelta(text)
            case ThinkingPart(text, signature, redacted, _, wire):
                yield ThinkingDelta(text)
                yield ThinkingEnded(signature, redacted, wire)
            case ToolCallPart(call_id, name, arguments, problem):
                yield ToolCallBegun(index, call_id, name)
                yield ToolCallFragment(index, arguments)
                if problem:
                    yield MalformedToolCall(index, problem)
            case _:
                pass


def failure_of(position: Position) -> Exception | None:
    """The failure of the newest request; None if it had none."""
    request, following, error = position.current, position.following, position.turn.error
    if following is not None:
        is_again = following.event.number == request.event.number
        return http_errors.ContextTooLongError("The request is too long.") if is_again else None
    if error is None and position.turn.ended is not None and ends_in_peace(position.turn.ended):
        # Nothing followed an answer that had lost only its end.
        return http_errors.EmptyAnswerError("The model ended without an answer.")
    return failure_from(error) if error is not None else None


def ends_in_peace(ended: TurnEnded) -> bool:
    """True when a turn ended without an error or limit."""
    return ended.stop_reason is StopReason.END_TURN and not ended.sentence


def failure_from(error: ErrorReported) -> Exception:
    """The recorded failure, of its own class where that is a provider's."""
    kind: object = getattr(http_errors, error.kind, None)
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(error.sentence)
    return RecordedFailureError(error.sentence)


def stop_of(turn: RecordedTurn, request: RecordedRequest, *, is_last: bool) -> Stopped:
    """The reason why the model stopped, derived from the later events of the journal."""
    message = request.message
    if request.went_on:
        if request.went_on.startswith(CUT):
            return Stopped(ProviderStop.MAX_TOKENS)
        return Stopped(ProviderStop.INTERRUPTED, request.went_on.removesuffix(GOES_ON).rstrip())
    ended, sentence = (turn.ended.stop_reason, turn.ended.sentence) if turn.ended is not None else (None, "")
    if message is not None and message.message.tool_calls:
        return Stopped(ProviderStop.TOOL_CALLS)
    if message is not None and not message.complete:
        return Stopped(ProviderStop.INTERRUPTED, sentence if is_last else "")
    if is_last and message is None and ended is StopReason.END_TURN:
        # An empty answer ends a turn in peace only where it broke off.
        return Stopped(ProviderStop.INTERRUPTED, sentence)
    if is_last and ended is not None and ended in _STOPS:
        return Stopped(_STOPS[ended], sentence)
    return Stopped(ProviderStop.END)
