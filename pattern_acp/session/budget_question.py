"""The question when a budget is used up.

Owns: what the person may choose, and what each choice changes. Must not know: when a budget is reached (`budgets`).
"""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.domain.allowance import Allowance
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    BudgetChanged,
    PermissionAnswered,
    PermissionAsked,
    ToolCallFinished,
    ToolCallStarted,
)
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.policy.approver import Answer, ApprovalOption, ApprovalRequest
from pattern_acp.providers.base import ModelInfo, ToolForm
from pattern_acp.session.budgets import NAMES, Reached, has_used, limit_of
from pattern_acp.session.options import MODEL_OPTION
from pattern_acp.turn.budget import Waits
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.sink import Fact
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

USED_UP = TurnFailure("turn.budget-reached")

BUDGET_CALL = "budget"
"""Name of the call that shows the question."""


class BudgetQuestion(Struct, frozen=True):
    """One budget that a turn's next request does not fit into."""

    session: "Session"
    turn_id: TurnId
    waits: Waits | None
    reached: Reached

    async def ask(self, info: ModelInfo, *, may_switch: bool) -> TurnEnd | None:
        """Ask how it goes on; the end of the turn, or None when the request may be tried again.

        `may_switch`: whether the turn can go on with another model.

        Raises:
            DatabaseError: the question or its answer could not be recorded.
        """
        session, reached = self.session, self.reached
        how = f"`/budget {reached.scope} AMOUNT` changes it."
        if reached.limit.is_zero:
            # Zero means zero: no question can make it more.
            return TurnEnd(StopReason.END_TURN, f"No model was asked. {reached.sentence} {how}", failure=USED_UP)
        stopped = session.state.budgets.stopped
        limit = (self.turn_id, reached.scope, str(reached.limit))
        end = TurnEnd(StopReason.END_TURN, f"Stopped: {reached.sentence} {how}", failure=USED_UP)
        if limit in stopped:
            return end
        other = cheaper_model(session, info, reached.expected.tokens) if may_switch else None
        # What the button says is what is granted, whatever is spent or set while the question waits.
        longer = self._longer()
        answer = await self._answer(info, other, longer)
        if answer is Answer.ALLOW_ALWAYS and other is not None:
            options = await session.set_option(MODEL_OPTION, other.qualified, by="agent")
            await session.view.show_options(options)
            session.state.budgets.switched = True
        if not answer.allows:
            stopped.add(limit)
            return end
        if other is None or answer is Answer.ALLOW_ONCE or not other.is_free:
            await self._extend(longer)
        return TurnEnd(StopReason.END_TURN) if session.state.budgets.switched else None

    def _longer(self) -> Allowance:
        """The limit after an extension: as much again, as often as it takes for the next request to fit."""
        reached = self.reached
        spent, expected = reached.spent, reached.expected
        need = Allowance(spent.micro_units + (expected.micro_units or 0), spent.tokens + expected.tokens)
        # A step of nothing, after the settings were made smaller meanwhile, would lead nowhere.
        base = limit_of(self.session, reached.scope)
        return reached.limit.stretched(reached.limit if base.is_zero else base, need)

    async def _extend(self, longer: Allowance) -> None:
        reached = self.reached
        changed = BudgetChanged(reached.scope, str(longer), "extended")
        await self.session.sink.record(Fact(changed, Actor.HUMAN, Origin.PERSON))
        self.session.state.budgets.extended[reached.scope, reached.key] = longer

    async def _answer(self, info: ModelInfo, other: ModelInfo | None, longer: Allowance) -> Answer:
        session, reached = self.session, self.reached
        more = f"{longer.beyond(reached.limit)} more ({longer} in all)"
        options = [ApprovalOption(Answer.ALLOW_ONCE, f"Go on, with {more}")]
        if other is not None:
            options.append(ApprovalOption(Answer.ALLOW_ALWAYS, _switch_words(info, other, more)))
        options.append(ApprovalOption(Answer.REJECT_ONCE, "Stop here"))
        call_id = ToolCallId(session.constellation.ids.new("call"))
        title = (
            f"A budget is used up: go on? {NAMES[reached.scope].capitalize()} {has_used(reached.limit, reached.spent)}"
        )
        call = ToolCallView(call_id, BUDGET_CALL, title, ToolKind.OTHER, {"scope": reached.scope})
        asked = PermissionAsked(self.turn_id, call_id, reached.sentence, tuple(each.answer.value for each in options))
        await session.sink.record(Fact(ToolCallStarted(self.turn_id, call), Actor.SYSTEM), Fact(asked, Actor.SYSTEM))
        answer = Answer.CANCELLED
        try:
            with self.waits.waiting() if self.waits is not None else nullcontext():
                answer = await session.approver.ask(ApprovalRequest(call, reached.sentence, tuple(options)))
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                status = ToolCallStatus.COMPLETED if answer.allows else ToolCallStatus.FAILED
                name = next((each.name for each in options if each.answer is answer), "Nobody answered; stopped.")
                await session.sink.record(
                    Fact(PermissionAnswered(self.turn_id, call_id, answer.value), Actor.HUMAN, Origin.PERSON),
                    Fact(ToolCallFinished(self.turn_id, call_id, status, name), Actor.SYSTEM),
                )
        return answer


def cheaper_model(session: "Session", info: ModelInfo, tokens: int) -> ModelInfo | None:
    """A model to go on with for less: the best of the same provider at half the price or less, else one for nothing."""
    models = session.constellation.models
    fitting = [
        other
        for other in models.available()
        if other.qualified != info.qualified
        # What has no native calls writes its actions, unless the person wants native calls in this session.
        and (other.calls_tools or session.state.tool_form is not ToolForm.NATIVE)
        and other.context_window > tokens
        and other.provider != "offline"
        and not models.missing_key(other.qualified)
    ]
    cheaper = [one for one in fitting if one.provider == info.provider and 0 < _price(one) * 2 <= _price(info)]
    return max(cheaper, key=_price) if cheaper else next((one for one in fitting if one.is_free), None)


def _price(info: ModelInfo) -> int:
    """What a usual request costs: ten tokens read for each written."""
    return 10 * info.input_price + info.output_price


def _switch_words(info: ModelInfo, other: ModelInfo, more: str) -> str:
    if other.is_free:
        return f"Go on with {other.qualified}, which costs nothing"
    return f"Go on with {other.qualified}, {_price(info) / _price(other):.0f} times cheaper, with {more}"
