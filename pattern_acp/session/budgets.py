"""Budgets: what a turn, a session and a day may cost, held against the journal before every model request.

Owns: limits in force, reservations of running requests, the notice at 80 %, and the question to the user at the limit.
Must not know: prices, or how a turn continues.

A request that may be sent sets aside what it is expected to use until it has ended (journal/usage.py), so that
those side by side (subagents, other windows) do not all spend the same rest.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.context.window import MessageTokens, request_tokens
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId, day_began_ms
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.tool_calls import StopReason, ToolCallView, ToolKind
from pattern_acp.domain.usage import Allowance, Usage, amount_text, parse_allowance
from pattern_acp.journal.events import (
    BudgetChanged,
    Event,
    JobMoved,
)
from pattern_acp.journal.job_events import JobHold
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.journal.usage import (
    Reservation,
    Spent,
    SpentSoFar,
    last_used,
    reserve,
    reserved_now,
    settle,
    spent_so_far,
    usual_output,
)
from pattern_acp.policy.decision import ApprovalOption, PermissionAnswer
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ToolForm
from pattern_acp.providers.catalogue import cost_of, is_assumed_free
from pattern_acp.session.options import MODEL_OPTION
from pattern_acp.session.ports import recorded_question
from pattern_acp.session.state import BudgetScope, BudgetState
from pattern_acp.turn.budget import UserWaitTimer
from pattern_acp.turn.loop import TurnEnd, show_sentence
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.domain.clock import SessionId
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState
    from pattern_acp.turn.recorder import JournalRecorder

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


FIRST_OUTPUT_TOKENS = 500
"""Estimate for the first answer of a model in a session: some sentences and a call or two."""


class Expected(Struct, frozen=True):
    """Expected use of a request; `micro_units` is None where no price is known."""

    tokens: int
    micro_units: int | None


async def expected_use(
    shared: "Constellation", session_id: "SessionId", info: ModelInfo, tokens: int, most_output: int
) -> Expected:
    """For a request of so many tokens whose answer has `most_output` tokens at most.

    Raises:
        DatabaseError: what requests used before could not be read.
    """

    def read(tx: Transaction) -> tuple[Usage | None, int | None]:
        return (
            last_used(tx, session_id, info.qualified),
            usual_output(tx, session_id, info.qualified),
        )

    before, usual = await shared.database.read(read)
    output = min(FIRST_OUTPUT_TOKENS if usual is None else usual, most_output)
    if info.is_free:
        return Expected(tokens + output, 0)
    # What was sent the last time is read from the cache, where this model has one.
    has_cache = before is not None and bool(before.cache_read_tokens or before.cache_write_tokens)
    cached = min(before.context_tokens, tokens) if before is not None and has_cache else 0
    cost = cost_of(info, Usage(tokens - cached, output, cache_read_tokens=cached))
    return Expected(tokens + output, None if cost is None else cost.micro_units)


if TYPE_CHECKING:
    from pattern_acp.session.session import Session


logger = logging.getLogger(__name__)

SCOPES: tuple[BudgetScope, ...] = ("turn", "session", "day")

NAMES: Mapping[BudgetScope, str] = {
    "turn": "this turn",
    "session": "this session",
    "day": "today, over all sessions,",
    "job": "this job",
}

NOTICE_PERCENT = 80
"""Used share of a budget at which the user is warned (issue 6, section 5)."""


class Reached(Struct, frozen=True):
    """A budget that the next request does not fit into."""

    scope: BudgetScope
    key: str
    limit: Allowance
    spent: Spent
    expected: Expected

    @property
    def sentence(self) -> str:
        """Sentence that names what is used up."""
        used = f"{NAMES[self.scope].capitalize()} {has_used(self.limit, self.spent)}"
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


def limit_of(state: "SessionState", scope: BudgetScope, key: str = "") -> Allowance:
    """The budget that holds: the one extended, the one set by /budget, or that of the settings."""
    budgets = state.budgets
    known = budgets.extended.get((scope, key)) or budgets.changed.get(scope)
    return known if known is not None else parse_allowance(getattr(state.settings.budget, scope)) or Allowance()


async def change_budget(
    state: "SessionState", recorder: "JournalRecorder", scope: BudgetScope, allowance: Allowance
) -> None:
    """Give a budget of this session another value.

    Raises:
        DatabaseError: it could not be recorded, and was not changed.
    """
    changed = BudgetChanged(scope, str(allowance), "person")
    await recorder.record(NewEvent(changed, Actor.HUMAN, Origin.PERSON))
    budgets = state.budgets
    budgets.changed[scope] = allowance
    for known in [known for known in budgets.extended if known[0] == scope]:
        del budgets.extended[known]


async def spent_now(shared: "Constellation", session_id: "SessionId", turn_id: TurnId) -> SpentSoFar:
    """Use by the turn, the session and the day, over all processes that share the constellation."""
    since = day_began_ms(shared.clock.now_ms())
    return await shared.database.read(lambda tx: spent_so_far(tx, session_id, turn_id, since))


class BudgetGate:
    """Checks each model request of a turn against budgets. `may_switch`: whether it can continue with another model."""

    def __init__(
        self,
        session: "Session",
        turn_id: TurnId,
        waits: UserWaitTimer | None,
        *,
        may_switch: bool = False,
        asks: bool = True,
    ) -> None:
        """Without `asks`, a budget that is reached ends the turn: nobody is there to be asked."""
        self._session = session
        self._state: BudgetState = session.state.budgets
        self._turn_id = turn_id
        self._waits = waits
        self._may_switch = may_switch
        self._asks = asks
        # A subagent has a conversation of its own.
        self._messages = session.state.window.messages if may_switch else MessageTokens()
        self._reserved = ""

    async def before_request(self, info: ModelInfo, request: ProviderRequest) -> TurnEnd | None:
        """Hold a request against the budgets, and ask the user when it does not fit; the end of the turn, or None.

        Raises:
            DatabaseError: what was spent could not be read, or an answer not be recorded.
        """
        if not self._is_limited():
            return None
        async with self._state.asking:
            while True:
                tokens, settled = self._tokens(info, request), self._state.settled
                expected = await expected_use(
                    self._session.constellation, self._session.session_id, info, tokens, request.max_output_tokens
                )
                spent, reached = await self._reserve(expected)
                if reached is None:
                    await self._tell(spent, info, expected)
                    return None
                if self._state.running and self._reached(spent, expected) is None:
                    # It does not fit only beside those that run: what they leave is known soon.
                    await settled.wait()
                    continue

                question = BudgetQuestion(self._session, self._turn_id, self._waits, reached)
                if not self._asks:
                    return question.end
                # The model of a job is the one that was agreed to.
                may_switch = self._may_switch and self._session.state.job is None
                end = await question.ask(info, may_switch=may_switch)
                if end is not None:
                    return end

    async def after_request(self) -> None:
        """See `RequestGate.after_request`."""
        if not self._reserved:
            return
        reserved, self._reserved = self._reserved, ""
        try:
            # What it used counts from here on, in every window.
            await self._session.recorder.commit_waiting()
            await self._session.constellation.database.write(lambda tx: settle(tx, reserved))
        except DatabaseError:
            # It ends with this process at the latest.
            logger.warning("A reservation could not be taken back.", exc_info=True)
        self._has_settled(reserved)

    async def has_room(self, info: ModelInfo, tokens: int, output: int) -> bool:
        """True when a request of so many tokens, which a turn can do without, fits into the budgets; nobody is asked.

        When it does, call `after_request` once it has ended.

        Raises:
            DatabaseError: what was spent could not be read.
        """
        if not any(limit.is_limited for _, _, limit in self._limits()):
            return True
        _, reached = await self._reserve(
            await expected_use(self._session.constellation, self._session.session_id, info, tokens, output)
        )
        return reached is None

    async def refusal(self, info: ModelInfo, tokens: int, output: int) -> str:
        """Why a model may not replace the one that failed: a budget has no space for it; nobody is asked.

        When it may, what it is expected to use is set aside instead of what the failed one was.

        Raises:
            DatabaseError: what was spent could not be read.
        """
        if not any(limit.is_limited for _, _, limit in self._limits()):
            return ""
        expected = await expected_use(self._session.constellation, self._session.session_id, info, tokens, output)
        while True:
            settled = self._state.settled
            spent, reached = await self._reserve(expected)
            if reached is None:
                return ""
            if not self._state.running or self._reached(spent, expected) is not None:
                return reached.sentence.removesuffix(".")
            await settled.wait()

    async def _reserve(self, expected: Expected) -> tuple[SpentSoFar, Reached | None]:
        """Read the spending, and replace the reservation by the expected use, unless a budget is reached."""
        session, shared = self._session, self._session.constellation
        now, reservation_id, before = shared.clock.now_ms(), shared.ids.new("reserved"), self._reserved
        since = day_began_ms(now)
        wanted = Reservation(
            reservation_id, session.session_id, self._turn_id, expected.tokens, expected.micro_units or 0
        )

        def write(tx: Transaction) -> tuple[SpentSoFar, Reached | None]:
            spent = spent_so_far(tx, session.session_id, self._turn_id, since)
            if before:
                settle(tx, before)
            held = reserved_now(tx, session.session_id, self._turn_id, shared.holder, now)
            reached = self._reached(spent + held, expected)
            if reached is None:
                reserve(tx, wanted, shared.holder, now)
            return spent, reached

        # Known before it is written, so that a cancellation in between leaves nothing behind.
        self._reserved = reservation_id
        self._state.running.add(reservation_id)
        spent, reached = await shared.database.write(write)
        if before:
            self._has_settled(before)
        if reached is not None:
            self._reserved = ""
            self._state.running.discard(reservation_id)
        return spent, reached

    def _has_settled(self, reservation_id: str) -> None:
        self._state.running.discard(reservation_id)
        settled, self._state.settled = self._state.settled, anyio.Event()
        settled.set()

    async def after_turn(self) -> None:
        """Tell the user when most of a budget is used now."""
        if self._is_limited():
            await self._tell(
                await spent_now(self._session.constellation, self._session.session_id, self._turn_id), None, None
            )

    def _is_limited(self) -> bool:
        settings, state = self._session.state.settings.budget, self._state
        if not (settings.turn or settings.session or settings.day or state.extended or state.changed):
            return False
        return any(limit.is_limited for _, _, limit in self._limits())

    def _limits(self) -> list[tuple[BudgetScope, str, Allowance]]:
        day = str(day_began_ms(self._session.constellation.clock.now_ms()))
        keys: Mapping[BudgetScope, str] = {"turn": self._turn_id, "session": "", "day": day}
        found: list[tuple[BudgetScope, str, Allowance]] = [
            (scope, keys[scope], limit_of(self._session.state, scope, keys[scope])) for scope in SCOPES
        ]
        if (job := self._session.state.job) is not None:
            found.append(("job", job.job_id, limit_of(self._session.state, "job", job.job_id)))
        return found

    def _tokens(self, info: ModelInfo, request: ProviderRequest) -> int:
        tokens = request_tokens(request, self._messages)
        return self._session.state.window.calibration.tokens(info.name, tokens)

    def _reached(self, spent: SpentSoFar, expected: Expected) -> Reached | None:
        for scope, key, limit in self._limits():
            if is_over(limit, self._of_scope(spent, scope), expected):
                return Reached(scope, key, limit, self._of_scope(spent, scope), expected)
        return None

    def _of_scope(self, spent: SpentSoFar, scope: BudgetScope) -> Spent:
        if scope == "job" and (job := self._session.state.job) is not None:
            return job.before + spent.turn
        return {"turn": spent.turn, "session": spent.session, "day": spent.since}.get(scope, Spent())

    async def _tell(self, spent: SpentSoFar, info: ModelInfo | None, expected: Expected | None) -> None:
        for scope, key, limit in self._limits():
            used = self._of_scope(spent, scope)
            told = (scope, key, str(limit))
            if told not in self._state.told and _percent(limit, used) >= NOTICE_PERCENT:
                self._state.told.add(told)
                where = "/job" if scope == "job" else "/budget"
                await self._say(f"{NAMES[scope].capitalize()} {has_used(limit, used)} ({where}).")
            is_blind = limit.micro_units is not None and expected is not None and expected.micro_units is None
            if is_blind and info is not None and info.qualified not in self._state.told_unpriced:
                self._state.told_unpriced.add(info.qualified)
                await self._say(f"No price of {info.qualified} is known, so budgets of money do not count it.")
            if limit.micro_units is not None and info is not None and is_assumed_free(info):
                await self._tell_assumed(info.qualified)

    async def _tell_assumed(self, model: str) -> None:
        if model in self._state.told_unpriced:
            return
        self._state.told_unpriced.add(model)
        await self._say(
            f"{model} counts as free in budgets of money, which is assumed, since its server is on this machine; "
            f'`[models."{model}"]` in config.toml gives its prices where that is a gateway to others.'
        )

    async def _say(self, sentence: str) -> None:
        session = self._session
        if not self._asks:
            # Between turns nothing is shown: the next one does.
            session.state.notices.append(sentence)
            return
        if not await session.view.show_notices((sentence,)):
            await show_sentence(session.recorder, self._turn_id, session.constellation.ids, f"> {sentence}\n\n")


def is_over(limit: Allowance, spent: Spent, expected: Expected) -> bool:
    """True when the expected use does not fit into the rest of a budget."""
    if limit.tokens is not None and spent.tokens + expected.tokens > limit.tokens:
        return True
    if limit.micro_units is None or expected.micro_units == 0:
        return False
    if expected.micro_units is None:
        # What cannot be counted cannot be held back, but for a budget that allows nothing.
        return limit.micro_units == 0
    return spent.micro_units + expected.micro_units > limit.micro_units


def _percent(limit: Allowance, spent: Spent) -> int:
    shares = ((limit.micro_units, spent.micro_units), (limit.tokens, spent.tokens))
    return max((used * 100 // most for most, used in shares if most), default=0)


def has_used(limit: Allowance, spent: Spent) -> str:
    """Words on the used part of a budget, to follow its name."""
    money = f"{amount_text(spent.micro_units)} of {amount_text(limit.micro_units or 0)}"
    tokens = f"{spent.tokens:,} of {limit.tokens or 0:,} tokens"
    parts = [words for words, most in ((money, limit.micro_units), (tokens, limit.tokens)) if most is not None]
    return f"has used {' and '.join(parts)}"


USED_UP = TurnFailure("turn.budget-reached")

BUDGET_CALL = "budget"
"""Name of the call that shows the question."""


class BudgetQuestion(Struct, frozen=True):
    """One budget that a turn's next request does not fit into."""

    session: "Session"
    turn_id: TurnId
    waits: UserWaitTimer | None
    reached: Reached

    async def ask(self, info: ModelInfo, *, may_switch: bool) -> TurnEnd | None:
        """Ask how it continues; the end of the turn, or None when the request may be tried again.

        `may_switch`: whether the turn can continue with another model.

        Raises:
            DatabaseError: the question or its answer could not be recorded.
        """
        session, reached = self.session, self.reached
        if reached.limit.is_zero:
            # Zero means zero: no question can make it more.
            return self._end("No model was asked.")
        if reached.scope == "turn" and "budget.turn" in session.state.settings.fixed:
            return self.end
        stopped = session.state.budgets.stopped
        limit = (self.turn_id, reached.scope, str(reached.limit))
        if limit in stopped:
            return self.end
        other = (
            cheaper_model(session.constellation, session.state, info, reached.expected.tokens) if may_switch else None
        )
        # What the button says is what is granted, whatever is spent or set while the question waits.
        longer = self._longer()
        answer = await self._answer(info, other, longer)
        if answer is PermissionAnswer.ALLOW_ALWAYS and other is not None:
            options = await session.set_option(MODEL_OPTION, other.qualified, by="agent")
            await session.view.show_options(options)
            session.state.budgets.switched = True
        if not answer.allows:
            stopped.add(limit)
            return self.end
        if other is None or answer is PermissionAnswer.ALLOW_ONCE or not other.is_free:
            await self._extend(longer)
        return TurnEnd(StopReason.END_TURN) if session.state.budgets.switched else None

    @property
    def end(self) -> TurnEnd:
        """The end of a turn that the budget stops."""
        return self._end("Stopped:")

    def _end(self, what: str) -> TurnEnd:
        reached = self.reached
        change = "" if reached.scope == "job" else f" `/budget {reached.scope} AMOUNT` changes it."
        sentence = f"{what} {reached.sentence}{change}"
        return TurnEnd(StopReason.END_TURN, sentence, failure=USED_UP)

    def _longer(self) -> Allowance:
        """The limit after an extension: as much again, as often as it takes for the next request to fit."""
        reached = self.reached
        spent, expected = reached.spent, reached.expected
        need = Allowance(spent.micro_units + (expected.micro_units or 0), spent.tokens + expected.tokens)
        # A step of nothing, after the settings were made smaller meanwhile, would lead nowhere.
        base = reached.limit if reached.scope == "job" else limit_of(self.session.state, reached.scope)
        return reached.limit.stretched(reached.limit if base.is_zero else base, need)

    async def _extend(self, longer: Allowance) -> None:
        reached = self.reached
        event: Event = BudgetChanged(reached.scope, str(longer), "extended")
        if reached.scope == "job" and (job := self.session.state.job) is not None:
            job.hold = JobHold(longer.tokens, longer.micro_units, job.hold.milliseconds)
            event = JobMoved(self.turn_id, job.job_id, "working", "person", job.hold)
        await self.session.recorder.record(NewEvent(event, Actor.HUMAN, Origin.PERSON))
        self.session.state.budgets.extended[reached.scope, reached.key] = longer

    async def _answer(self, info: ModelInfo, other: ModelInfo | None, longer: Allowance) -> PermissionAnswer:
        session, reached = self.session, self.reached
        more = f"{longer.beyond(reached.limit)} more ({longer} in all)"
        options = [ApprovalOption(PermissionAnswer.ALLOW_ONCE, f"Continue, with {more}")]
        if other is not None:
            options.append(ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, _switch_words(info, other, more)))
        options.append(ApprovalOption(PermissionAnswer.REJECT_ONCE, "Stop here"))
        call_id = ToolCallId(session.constellation.ids.new("call"))
        used = has_used(reached.limit, reached.spent)
        title = f"A budget is used up: continue? {NAMES[reached.scope].capitalize()} {used}"
        call = ToolCallView(call_id, BUDGET_CALL, title, ToolKind.OTHER, {"scope": reached.scope})
        question = recorded_question(session.dialogue, self.turn_id, call, reached.sentence, options)
        async with question as asked:
            with self.waits.waiting() if self.waits is not None else nullcontext():
                return await asked.put()


def cheaper_model(shared: "Constellation", state: "SessionState", info: ModelInfo, tokens: int) -> ModelInfo | None:
    """A model to continue with for less: the best of the same provider at half the price or less, else a free one."""
    models = shared.models
    fitting = [
        other
        for other in models.available()
        if other.qualified != info.qualified
        # What has no native calls writes its actions, unless the user wants native calls in this session.
        and (other.calls_tools or state.tool_form is not ToolForm.NATIVE)
        and other.context_window > tokens
        and other.provider != "offline"
        and not models.missing_key(other.qualified)
    ]
    cheaper = [one for one in fitting if one.provider == info.provider and 0 < _price(one) * 2 <= _price(info)]
    return max(cheaper, key=_price) if cheaper else next((one for one in fitting if one.is_free), None)


def _price(info: ModelInfo) -> int:
    """Price of a usual request: ten tokens read for each written."""
    return 10 * info.input_price + info.output_price


def _switch_words(info: ModelInfo, other: ModelInfo, more: str) -> str:
    if other.is_free:
        return f"Continue with {other.qualified}, which costs nothing"
    return f"Continue with {other.qualified}, {_price(info) / _price(other):.0f} times cheaper, with {more}"
