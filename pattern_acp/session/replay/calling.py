"""The tools, the policy, the person, the hooks and the checks of a replay: each answers as the recorded one did.

Owns: what the journal has of a call, given back through the ports of the loop. Must not know: any tool. A tool that is
replayed touches nothing; what the loop itself makes of a call is made anew: reading its arguments, what a refusal says,
how a failure is told, what becomes of a cancel.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.messages import ToolCallPart
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolContent, ToolKind
from pattern_acp.hooks.answers import Opinion
from pattern_acp.journal.tool_call_events import ToolCallFinished
from pattern_acp.policy.access import Access, CallServer
from pattern_acp.policy.approver import Answer, ApprovalRequest
from pattern_acp.policy.decision import Decision, Mode, Verdict
from pattern_acp.providers.base import ToolSpec
from pattern_acp.session.replay.position import Position
from pattern_acp.session.replay.recorded import RecordedCall
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolFailedError, ToolOutcome
from pattern_acp.turn.gate import Gate, PolicyState
from pattern_acp.turn.limits import REPEATS_TOLD, repeat_notice
from pattern_acp.turn.loop import OUT_OF_TIME
from pattern_acp.turn.sink import TurnSink
from pattern_acp.turn.tool_runner import CANCELLED_SENTENCE, CHANGED_BY_HOOK

MOST_REPEATS = 100
"""Longest row of failing calls that is looked for; a turn stops long before."""

STOPPED_BY_HOOK = "A hook ended this turn: "
"""How the sentence of a turn begins that a hook ended (turn/loop.py)."""

HELD_FAILURE = "memory.warned"
"""The code of a call that waited until the model had read what memory holds about its files (turn/tool_runner.py)."""

NOT_RECORDED = "The recorded session did not make this call."


class RecordedTool(Struct, frozen=True):
    """`Tool` of which every call was made before."""

    position: Position
    spec: ToolSpec
    kind: ToolKind
    changes_things: bool

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext, /) -> PreparedCall:
        """See `Tool.prepare`."""
        del arguments, context
        call, turn = self.position.call(call_id), self.position.turn
        was_prepared = call.started is not None and (call.decided is not None or was_held(call))
        if not was_prepared and turn.was_cut and (call.finished is None or call.finished.interrupted):
            await self.position.cut()
        if call.started is None:
            raise ToolFailedError(NOT_RECORDED)
        view = call.started.call
        if not was_prepared:
            error = ToolFailedError(without_notice(result_of(call), view.name))
            if call.finished is not None:
                error.failure_code = call.finished.failure
            raise error
        # What it touched is not recorded, only what was decided on it, which the gate finds by the call's id.
        accesses = (CallServer("replay", call_id),)
        return PreparedCall(
            view.title, accesses, partial(self._run, call, view), view.locations, view.content, view.kind
        )

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
            without_notice(finished.result_text, view.name),
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


def was_held(call: RecordedCall) -> bool:
    """Whether it waited for the model to read what memory holds, before anything was decided on it."""
    return call.finished is not None and call.finished.failure == HELD_FAILURE


def result_of(call: RecordedCall) -> str:
    """What the model read as the result of a call; empty when it has none."""
    return call.finished.result_text if call.finished is not None else ""


def shown_before(finished: ToolCallFinished) -> tuple[ToolContent, ...]:
    """What the client was shown of a call that was cancelled, without why it ended, which comes last."""
    content = finished.content
    return content[:-1] if content[-1:] == (TextContent(finished.result_text),) else content


def noted(text: str) -> str:
    """What a call that was cancelled had said of itself until then."""
    for reason in (CANCELLED_SENTENCE, OUT_OF_TIME):
        text = text.removeprefix(reason)
    return text.removeprefix("\n\n")


def without_notice(text: str, name: str) -> str:
    """A result without what the loop adds for a row of failing calls."""
    for count in range(REPEATS_TOLD, MOST_REPEATS):
        text = text.removesuffix(repeat_notice(name, count))
    return text


class RecordedGate(Gate):
    """`Gate` that decides as was decided, and asks and refuses by itself."""

    def __init__(self, position: Position, sink: TurnSink, clock: Clock) -> None:
        super().__init__(PolicyState(Mode.ASK, ()), RecordedApprover(position), sink, clock=clock)
        self._position = position
        self._waiting = set[str]()
        """Calls that were to be asked about, and wait for the questions before theirs."""

    def decide(self, accesses: tuple[Access, ...]) -> Decision:
        """See `Gate.decide`."""
        named = next((access.tool for access in accesses if isinstance(access, CallServer)), "")
        call = self._position.call(named)
        decided = call.settled if named in self._waiting and call.settled is not None else call.decided
        self._waiting.add(named)
        if decided is None and was_held(call):
            return Decision(Verdict.ALLOW, "replay", "")
        if decided is None:
            return Decision(Verdict.DENY, "replay", NOT_RECORDED)
        return Decision(Verdict(decided.verdict), decided.rule, decided.reason)


class RecordedApprover:
    """`Approver` that gives the person's recorded answers."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def ask(self, request: ApprovalRequest) -> Answer:
        """See `Approver.ask`."""
        answered = self._position.call(request.call.call_id).answered
        if answered is None:
            if self._position.turn.was_cut:
                await self._position.cut()
            return Answer.CANCELLED
        return Answer(answered.answer)


class RecordedWarnings:
    """`turn.tool_hooks.BeforeEdits` that holds the calls that were held, with the same words."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def before(self, accesses: Sequence[Access]) -> str:
        """See `BeforeEdits.before`."""
        named = next((access.tool for access in accesses if isinstance(access, CallServer)), "")
        call = self._position.call(named)
        return without_notice(result_of(call), call.started.call.name) if was_held(call) and call.started else ""


class RecordedHooks:
    """`turn.tool_hooks.ToolHooks` that did what the journal tells of them."""

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
        """See `ToolHooks.before`. What they thought is part of the recorded decision."""
        del turn_id
        started = self._position.call(call.call_id).started
        if started is None or CHANGED_BY_HOOK not in started.repairs:
            return Opinion()
        return Opinion(updated_input=started.call.raw_input)

    async def after(self, turn_id: TurnId, call: ToolCallView, outcome: ToolOutcome) -> str:
        """See `ToolHooks.after`. What they said is part of the recorded result."""
        del turn_id, call, outcome
        return ""


class RecordedChecks:
    """`turn.tool_hooks.AfterEdits` that finds what was found."""

    def __init__(self, position: Position) -> None:
        self._position = position

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """See `AfterEdits.after_edits`."""
        del turn_id, changed
        message = self._position.current.message
        calls: tuple[ToolCallPart, ...] = message.message.tool_calls if message is not None else ()
        found = [extended for call in calls if (extended := self._position.call(call.call_id).extended) is not None]
        return found[-1].text.removeprefix("\n") if found else ""
