"""Budgets: what a turn, a session and a day may cost, held against the journal before every model request.

Owns: limits in force, the notice at 80 %, and the question at 100 %. Must not know: prices, or how a turn goes on.

A request that may be sent sets aside what it is expected to use until it has ended (journal/reservations.py), so that
those side by side (subagents, other windows) do not all spend the same rest.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from pattern_acp.context.estimate import MessageTokens, request_tokens
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.allowance import Allowance, parse_allowance
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.usage import amount_text
from pattern_acp.journal.events import (
    BudgetChanged,
    Event,
    PermissionAnswered,
    PermissionAsked,
    ToolCallFinished,
    ToolCallStarted,
)
from pattern_acp.journal.reservations import Reservation, reserve, reserved_now, settle
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.journal.usage import Spent, SpentSoFar, spent_so_far
from pattern_acp.policy.approver import Answer, ApprovalOption, ApprovalRequest
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ToolForm
from pattern_acp.session.expected_use import Expected, expected_use
from pattern_acp.session.options import MODEL_OPTION
from pattern_acp.session.usage_report import day_began_ms
from pattern_acp.turn.budget import Waits
from pattern_acp.turn.loop import TurnEnd, show_sentence
from pattern_acp.turn.sink import Fact
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

Scope: TypeAlias = Literal["turn", "session", "day"]

logger = logging.getLogger(__name__)

SCOPES: tuple[Scope, ...] = ("turn", "session", "day")

NAMES: Mapping[Scope, str] = {"turn": "this turn", "session": "this session", "day": "today, over all sessions,"}

USED_UP = TurnFailure("turn.budget-reached")

NOTICE_PERCENT = 80
"""Of a budget that is used when the person is told (issue 6, section 5)."""

BUDGET_CALL = "budget"
"""Name of the call that shows the question."""


@dataclass(slots=True)
class BudgetState:
    """What a session knows of its budgets beside the settings."""

    changed: dict[Scope, Allowance] = field(default_factory=dict["Scope", Allowance])
    """Those that /budget set."""
    extended: dict[tuple[Scope, str], Allowance] = field(default_factory=dict[tuple["Scope", str], Allowance])
    """Limits as they are after an extension, by the turn, session or day they are of."""
    told: set[tuple[Scope, str, str]] = field(default_factory=set[tuple["Scope", str, str]])
    """Of which limits the person was told that most is used."""
    told_unpriced: set[str] = field(default_factory=set[str])
    """Models of which the person was told that no budget of money can count them."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    """Subagents reach a limit together; the person is asked once."""
    running: set[str] = field(default_factory=set[str])
    """Reservations of this session's requests that run."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, whenever one of them has ended."""
    switched: bool = False
    """Whether the answer to a question was another model, with which the turn is to go on."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """A budget that the next request does not fit into."""

    scope: Scope
    key: str
    limit: Allowance
    spent: Spent
    expected: Expected

    @property
    def sentence(self) -> str:
        """What is used up."""
        used = f"{NAMES[self.scope].capitalize()} {_has_used(self.limit, self.spent)}"
        if self.limit.micro_units is not None and self.expected.micro_units is None and self.limit.micro_units == 0:
            return f"{used}, and the price of the model is not known."
        if self.expected.micro_units and self.limit.micro_units is not None:
            return f"{used}; the next request costs about {amount_text(self.expected.micro_units)} or more."
        return f"{used}; the next request has about {self.expected.tokens:,} tokens."


def restored_budgets(events: Iterable[Event]) -> BudgetState:
    """The budgets of a session that is opened again; an extension of a turn or a day has ended with it."""
    state = BudgetState()
    for event in events:
        if isinstance(event, BudgetChanged) and event.scope in SCOPES:
            allowance = parse_allowance(event.allowance)
            if allowance is not None and (event.by == "person" or event.scope == "session"):
                state.changed[event.scope] = allowance
    return state


def limit_of(session: "Session", scope: Scope, key: str = "") -> Allowance:
    """The budget that holds: the one extended, the one set by /budget, or that of the settings."""
    state = session.state.budgets
    known = state.extended.get((scope, key)) or state.changed.get(scope)
    return known if known is not None else parse_allowance(getattr(session.state.settings.budget, scope)) or Allowance()


async def change_budget(session: "Session", scope: Scope, allowance: Allowance) -> None:
    """Give a budget of this session another value.

    Raises:
        DatabaseError: it could not be recorded, and was not changed.
    """
    changed = BudgetChanged(scope, str(allowance), "person")
    await session.sink.record(Fact(changed, Actor.HUMAN, Origin.PERSON))
    state = session.state.budgets
    state.changed[scope] = allowance
    for known in [known for known in state.extended if known[0] == scope]:
        del state.extended[known]


async def spent_now(session: "Session", turn_id: TurnId) -> SpentSoFar:
    """What the turn, the session and the day have used, over all processes that share the constellation."""
    shared = session.constellation
    since = day_began_ms(shared.clock.now_ms())
    return await shared.database.read(lambda tx: spent_so_far(tx, session.session_id, turn_id, since))


class BudgetGate:
    """What a turn asks before each of its model requests. `may_switch`: whether it can go on with another model."""

    def __init__(self, session: "Session", turn_id: TurnId, waits: Waits | None, *, may_switch: bool = False) -> None:
        self._session = session
        self._state: BudgetState = session.state.budgets
        self._turn_id = turn_id
        self._waits = waits
        self._may_switch = may_switch
        # A subagent has a conversation of its own.
        self._messages = session.state.window.messages if may_switch else MessageTokens()
        self._reserved = ""

    async def before_request(self, info: ModelInfo, request: ProviderRequest) -> TurnEnd | None:
        """Hold a request against the budgets, and ask the person when it does not fit; the end of the turn, or None.

        Raises:
            DatabaseError: what was spent could not be read, or an answer not be recorded.
        """
        if not any(limit.is_limited for _, _, limit in self._limits()):
            return None
        async with self._state.asking:
            while True:
                tokens, settled = self._tokens(info, request), self._state.settled
                expected = await expected_use(self._session, info, tokens, request.max_output_tokens)
                spent, reached = await self._reserve(expected)
                if reached is None:
                    await self._tell(spent, info, expected)
                    return None
                if self._state.running and self._reached(spent, expected) is None:
                    # It does not fit only beside those that run: what they leave is known soon.
                    await settled.wait()
                    continue
                end = await self._ask(reached, info)
                if end is not None:
                    return end

    async def after_request(self) -> None:
        """See `RequestGate.after_request`."""
        if not self._reserved:
            return
        reserved, self._reserved = self._reserved, ""
        try:
            await self._session.constellation.database.write(lambda tx: settle(tx, reserved))
        except DatabaseError:
            # It ends with this process at the latest.
            logger.warning("A reservation could not be taken back.", exc_info=True)
        self._state.running.discard(reserved)
        settled, self._state.settled = self._state.settled, anyio.Event()
        settled.set()

    async def has_room(self, info: ModelInfo, tokens: int, output: int) -> bool:
        """Whether a request of so many tokens, which a turn can do without, fits into the budgets; nobody is asked.

        When it does, call `after_request` once it has ended.

        Raises:
            DatabaseError: what was spent could not be read.
        """
        if not any(limit.is_limited for _, _, limit in self._limits()):
            return True
        _, reached = await self._reserve(await expected_use(self._session, info, tokens, output))
        return reached is None

    async def refusal(self, info: ModelInfo, tokens: int, output: int) -> str:
        """Why a model may not stand in for the chosen one: a budget has no room for it; nobody is asked.

        Raises:
            DatabaseError: what was spent could not be read.
        """
        if not any(limit.is_limited for _, _, limit in self._limits()):
            return ""
        expected = await expected_use(self._session, info, tokens, output)
        reached = self._reached(await spent_now(self._session, self._turn_id), expected)
        return "" if reached is None else reached.sentence.removesuffix(".")

    async def _reserve(self, expected: Expected) -> tuple[SpentSoFar, _Reached | None]:
        """What is spent so far; set aside what is expected, unless a budget is reached."""
        session, shared = self._session, self._session.constellation
        now, reservation_id = shared.clock.now_ms(), shared.ids.new("reserved")
        since = day_began_ms(now)
        wanted = Reservation(
            reservation_id, session.session_id, self._turn_id, expected.tokens, expected.micro_units or 0
        )

        def write(tx: Transaction) -> tuple[SpentSoFar, _Reached | None]:
            spent = spent_so_far(tx, session.session_id, self._turn_id, since)
            held = reserved_now(tx, session.session_id, self._turn_id, shared.holder, now)
            reached = self._reached(spent + held, expected)
            if reached is None:
                reserve(tx, wanted, shared.holder, now)
            return spent, reached

        # Known before it is written, so that a cancellation in between leaves nothing behind.
        self._reserved = reservation_id
        self._state.running.add(reservation_id)
        spent, reached = await shared.database.write(write)
        if reached is not None:
            self._reserved = ""
            self._state.running.discard(reservation_id)
        return spent, reached

    async def after_turn(self) -> None:
        """Tell the person when most of a budget is used now."""
        if any(limit.is_limited for _, _, limit in self._limits()):
            await self._tell(await spent_now(self._session, self._turn_id), None, None)

    def _limits(self) -> list[tuple[Scope, str, Allowance]]:
        day = str(day_began_ms(self._session.constellation.clock.now_ms()))
        keys: Mapping[Scope, str] = {"turn": self._turn_id, "session": "", "day": day}
        return [(scope, keys[scope], limit_of(self._session, scope, keys[scope])) for scope in SCOPES]

    def _tokens(self, info: ModelInfo, request: ProviderRequest) -> int:
        tokens = request_tokens(request, self._messages)
        return self._session.state.window.calibration.tokens(info.name, tokens)

    def _reached(self, spent: SpentSoFar, expected: Expected) -> _Reached | None:
        for scope, key, limit in self._limits():
            if _is_over(limit, _of_scope(spent, scope), expected):
                return _Reached(scope, key, limit, _of_scope(spent, scope), expected)
        return None

    async def _tell(self, spent: SpentSoFar, info: ModelInfo | None, expected: Expected | None) -> None:
        for scope, key, limit in self._limits():
            used = _of_scope(spent, scope)
            told = (scope, key, str(limit))
            if told not in self._state.told and _percent(limit, used) >= NOTICE_PERCENT:
                self._state.told.add(told)
                await self._say(f"{NAMES[scope].capitalize()} {_has_used(limit, used)} (/budget).")
            is_blind = limit.micro_units is not None and expected is not None and expected.micro_units is None
            if is_blind and info is not None and info.qualified not in self._state.told_unpriced:
                self._state.told_unpriced.add(info.qualified)
                await self._say(f"No price of {info.qualified} is known, so budgets of money do not count it.")

    async def _say(self, sentence: str) -> None:
        session = self._session
        await show_sentence(session.sink, self._turn_id, session.constellation.ids, f"> {sentence}\n\n")

    async def _ask(self, reached: _Reached, info: ModelInfo) -> TurnEnd | None:
        how = f"`/budget {reached.scope} AMOUNT` changes it."
        if reached.limit.is_zero:
            # Zero means zero: no question can make it more.
            return TurnEnd(StopReason.END_TURN, f"No model was asked. {reached.sentence} {how}", failure=USED_UP)
        other = cheaper_model(self._session, info, reached.expected.tokens) if self._may_switch else None
        answer = await self._question(reached, info, other)
        if answer is Answer.ALLOW_ALWAYS and other is not None:
            options = await self._session.set_option(MODEL_OPTION, other.qualified, by="agent")
            await self._session.view.show_options(options)
            self._state.switched = True
        if not answer.allows:
            return TurnEnd(StopReason.END_TURN, f"Stopped: {reached.sentence} {how}", failure=USED_UP)
        if other is None or answer is Answer.ALLOW_ONCE or not other.is_free:
            await self._extend(reached)
        return TurnEnd(StopReason.END_TURN) if self._state.switched else None

    async def _extend(self, reached: _Reached) -> None:
        # A step of nothing, after the settings were made smaller meanwhile, would lead nowhere.
        base = limit_of(self._session, reached.scope)
        base = reached.limit if base.is_zero else base
        longer = reached.limit
        # Again and again: a budget that was lowered below what is spent already has to come out above it.
        while _is_over(longer, reached.spent, reached.expected):
            longer = longer + base
        changed = BudgetChanged(reached.scope, str(longer), "extended")
        await self._session.sink.record(Fact(changed, Actor.HUMAN, Origin.PERSON))
        self._state.extended[reached.scope, reached.key] = longer

    async def _question(self, reached: _Reached, info: ModelInfo, other: ModelInfo | None) -> Answer:
        session, base = self._session, limit_of(self._session, reached.scope)
        options = [ApprovalOption(Answer.ALLOW_ONCE, f"Go on, with {base} more")]
        if other is not None:
            options.append(ApprovalOption(Answer.ALLOW_ALWAYS, _switch_words(info, other, base)))
        options.append(ApprovalOption(Answer.REJECT_ONCE, "Stop here"))
        call_id = ToolCallId(session.constellation.ids.new("call"))
        title = (
            f"A budget is used up: go on? {NAMES[reached.scope].capitalize()} {_has_used(reached.limit, reached.spent)}"
        )
        call = ToolCallView(call_id, BUDGET_CALL, title, ToolKind.OTHER, {"scope": reached.scope})
        asked = PermissionAsked(self._turn_id, call_id, reached.sentence, tuple(each.answer.value for each in options))
        await session.sink.record(Fact(ToolCallStarted(self._turn_id, call), Actor.SYSTEM), Fact(asked, Actor.SYSTEM))
        answer = Answer.CANCELLED
        try:
            with self._waits.waiting() if self._waits is not None else nullcontext():
                answer = await session.approver.ask(ApprovalRequest(call, reached.sentence, tuple(options)))
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                status = ToolCallStatus.COMPLETED if answer.allows else ToolCallStatus.FAILED
                name = next((each.name for each in options if each.answer is answer), "Nobody answered; stopped.")
                await session.sink.record(
                    Fact(PermissionAnswered(self._turn_id, call_id, answer.value), Actor.HUMAN, Origin.PERSON),
                    Fact(ToolCallFinished(self._turn_id, call_id, status, name), Actor.SYSTEM),
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


def _switch_words(info: ModelInfo, other: ModelInfo, base: Allowance) -> str:
    if other.is_free:
        return f"Go on with {other.qualified}, which costs nothing"
    return f"Go on with {other.qualified}, {_price(info) / _price(other):.0f} times cheaper, and {base} more"


def _is_over(limit: Allowance, spent: Spent, expected: Expected) -> bool:
    if limit.tokens is not None and spent.tokens + expected.tokens > limit.tokens:
        return True
    if limit.micro_units is None or expected.micro_units == 0:
        return False
    if expected.micro_units is None:
        # What cannot be counted cannot be held back, but for a budget that allows nothing.
        return limit.micro_units == 0
    return spent.micro_units + expected.micro_units > limit.micro_units


def _of_scope(spent: SpentSoFar, scope: Scope) -> Spent:
    return {"turn": spent.turn, "session": spent.session, "day": spent.since}[scope]


def _percent(limit: Allowance, spent: Spent) -> int:
    shares = ((limit.micro_units, spent.micro_units), (limit.tokens, spent.tokens))
    return max((used * 100 // most for most, used in shares if most), default=0)


def _has_used(limit: Allowance, spent: Spent) -> str:
    money = f"{amount_text(spent.micro_units)} of {amount_text(limit.micro_units or 0)}"
    tokens = f"{spent.tokens:,} of {limit.tokens or 0:,} tokens"
    parts = [words for words, most in ((money, limit.micro_units), (tokens, limit.tokens)) if most is not None]
    return f"has used {' and '.join(parts)}"
