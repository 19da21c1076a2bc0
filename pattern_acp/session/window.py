"""The model's window during a session: what a request may take, and when space is made.

Owns: asking providers for their count, the decision to compact, what is known of token counts. Must not know: how space
is made (`session/compaction.py`), or how a request is composed.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context.builder import WHOLE_CHARACTERS
from pattern_acp.context.window import (
    WindowLimits,
    does_not_fit,
    limits_of,
    prompt_tokens,
    request_tokens,
    text_limit,
    tools_with_room,
    with_answer_in_window,
)
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import ContextCompacted, Event, HistoryCleared, ModelRequested, UsageReported
from pattern_acp.providers.base import ProviderRequest, TokenCounter
from pattern_acp.session.options import thought_level_of
from pattern_acp.session.state import WindowState
from pattern_acp.tools.base import Tool
from pattern_acp.turn.budget import Budget
from pattern_acp.turn.loop import ModelInUse

if TYPE_CHECKING:
    from pattern_acp.session.budgets import BudgetGate
    from pattern_acp.session.compaction import CompactionRequest
    from pattern_acp.session.ports import ExtendedDialogue
    from pattern_acp.session.state import SessionState

logger = logging.getLogger(__name__)

COUNT_SECONDS = 5.0
"""Longest that a provider may take to count; the estimate serves as well."""


def window_state(events: Sequence[Event]) -> WindowState:
    """The state of a session that is opened again: what its counts taught is still true."""
    state = WindowState()
    asked: ModelRequested | None = None
    for event in events:
        if isinstance(event, ContextCompacted | HistoryCleared):
            state.has_left_out = True
        elif isinstance(event, ModelRequested):
            asked = event if event.estimate else None
        elif isinstance(event, UsageReported) and not event.estimated and asked is not None:
            state.calibration.learn(asked.model, asked.estimate, prompt_tokens(event.usage))
            asked = None
    return state


def seen_messages(state: "SessionState") -> frozenset[str] | None:
    """The ids of the messages that the model sees; None when none of the conversation left its context."""
    if not state.window.has_left_out:
        return None
    return frozenset(message.message_id for message in state.history)


def tokens_in(state: "SessionState") -> Callable[[ProviderRequest], int]:
    """Return a function that estimates the tokens of a request for its model, as past counts teach."""

    def tokens_of(request: ProviderRequest) -> int:
        return state.window.calibration.tokens(request.model, request_tokens(request))

    return tokens_of


def strategy_of(state: "SessionState", model: ModelInUse) -> CompactionStrategy:
    """Compaction strategy of this session; `offline` cannot summarise."""
    wanted = state.settings.compaction.strategy
    return "truncate" if wanted == "summarise" and model.provider.name == "offline" else wanted


def session_limits(state: "SessionState", model: ModelInUse, refused: int | None = None) -> WindowLimits:
    """The limits of the session's model; `refused` are the tokens of a request that was too long for it."""
    settings = state.settings
    known = state.window.refused.get(model.info.name) if refused is None else refused
    level = thought_level_of(model.info, state.thought_level)
    return limits_of(model.info, settings.compaction, settings.turn.max_output_tokens, known, level)


def with_room(state: "SessionState", tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of `tools` that the model's window has space for; the user learns it once when that is not all."""
    specs = tuple(tool.spec for tool in tools)
    names = tools_with_room(specs, state.system, state.model, state.settings.turn.max_output_tokens)
    if len(names) == len(tools):
        return tuple(tools)
    if state.model.qualified not in state.window.told:
        state.window.told.add(state.model.qualified)
        window = f"{state.model.qualified} has a window of {state.model.context_window:,} tokens"
        left_out = ", ".join(spec.name for spec in specs if spec.name not in names)
        state.notices.append(f"{window}, which has no space for every tool: without {left_out}.")
    return tuple(tool for tool in tools if tool.spec.name in names)


class SessionWindow:
    """`TurnWindow` of one turn. `compose` builds the request from the session's conversation as it is."""

    def __init__(
        self,
        dialogue: "ExtendedDialogue",
        turn_id: TurnId,
        model: ModelInUse,
        compose: Callable[[], Awaitable[ProviderRequest]],
        budget: Budget,
        gate: "BudgetGate",
    ) -> None:
        self._dialogue = dialogue
        self._state: WindowState = dialogue.state.window
        self._turn_id = turn_id
        self._model = model
        self._compose = compose
        self._limits = session_limits(dialogue.state, model)
        self._sent: ProviderRequest | None = None
        self._estimate = 0
        self._budget = budget
        self._gate = gate

    async def fitted(self) -> ProviderRequest:
        """The next request, with space made in the conversation where that was needed.

        Raises:
            ContextFullError: it does not fit whatever is left out.
            DatabaseError: a compaction could not be recorded.
        """
        request = await self._compose()
        tokens = await self._count(request)
        if tokens > self._limits.trigger and await self._make_room(tokens):
            request = await self._compose()
            tokens = self._estimated(request)
        if tokens > self._limits.usable:
            request, tokens = await self._cut_to_fit(request, tokens)
        return with_answer_in_window(request, self._model.info, tokens)

    async def _cut_to_fit(self, request: ProviderRequest, tokens: int) -> tuple[ProviderRequest, int]:
        from pattern_acp.session.compaction import LAST_RESORT_CHARACTERS, CompactionRequest

        for characters in LAST_RESORT_CHARACTERS:
            wanted = CompactionRequest(
                "threshold",
                "truncate",
                tokens,
                self._limits.target,
                self._limits,
                is_last_resort=True,
                keep_characters=characters,
            )
            if await self._compacted(wanted):
                request = await self._compose()
                tokens = self._estimated(request)
            if tokens <= self._limits.usable:
                return request, tokens
        fixed = self._estimated(without_messages(request))
        raise does_not_fit(self._model.info, self._limits, tokens, fixed)

    async def after_turn(self) -> None:
        """Make space once the last answer is there, so that the next prompt need not wait for it.

        Raises:
            DatabaseError: it could not be recorded.
        """
        if self._sent is None:
            return
        beside = request_tokens(without_messages(self._sent))
        sent = self._state.texts.of(self._dialogue.state.history, text_limit(self._model.info, WHOLE_CHARACTERS))
        estimate = beside + self._state.messages.of(sent, self._model.info.name)
        tokens = self._state.calibration.tokens(self._model.info.name, estimate)
        if tokens > self._limits.trigger:
            await self._make_room(tokens)

    def sending(self, request: ProviderRequest) -> int:
        """See `TurnWindow.sending`."""
        self._dialogue.shared.asked.set()
        changed = self._state.breaks.saw(request, calls_tools=self._model.info.calls_tools)
        if changed:
            logger.info("The cached prefix of a session is broken by: %s.", changed)
        self._sent, self._estimate = request, request_tokens(request, self._state.messages)
        return self._estimate

    def sent_tokens(self) -> int:
        """See `TurnWindow.sent_tokens`."""
        return self._state.calibration.tokens(self._model.info.name, self._estimate)

    def counted(self, usage: Usage) -> None:
        """See `TurnWindow.counted`."""
        self._state.calibration.learn(self._model.info.name, self._estimate, prompt_tokens(usage))

    async def too_long(self) -> bool:
        """See `TurnWindow.too_long`."""
        if self._sent is None:
            return False
        from pattern_acp.session.compaction import CompactionRequest

        name = self._model.info.name
        tokens = self._state.calibration.tokens(name, self._estimate)
        # It is longer than we believe, or the window is smaller; either way less may be sent from now on.
        limits = session_limits(self._dialogue.state, self._model, refused=tokens)
        wanted = CompactionRequest(
            "provider", strategy_of(self._dialogue.state, self._model), tokens, limits.target, limits
        )
        if not await self._compacted(wanted):
            return False
        self._limits, self._state.refused[name] = limits, tokens
        return True

    async def _make_room(self, tokens: int) -> bool:
        from pattern_acp.session.compaction import CompactionRequest

        strategy = strategy_of(self._dialogue.state, self._model)
        return await self._compacted(
            CompactionRequest("threshold", strategy, tokens, self._limits.target, self._limits)
        )

    async def _compacted(self, wanted: "CompactionRequest") -> bool:
        from pattern_acp.session.compaction import compact

        outcome = await compact(self._dialogue, self._turn_id, self._model, wanted, self._spend, self._gate)
        return outcome is not None

    def _spend(self, usage: Usage, cost: Cost | None) -> Cost | None:
        self._budget.take_usage(usage, cost)
        return self._budget.cost_so_far

    def _estimated(self, request: ProviderRequest) -> int:
        return self._state.calibration.tokens(request.model, request_tokens(request, self._state.messages))

    async def _count(self, request: ProviderRequest) -> int:
        """The tokens of a request: the provider's count where it matters and can be obtained, else the estimate."""
        estimate = self._estimated(request)
        provider = self._model.provider
        if not self._state.counts or not self._limits.is_near(estimate) or not isinstance(provider, TokenCounter):
            return estimate
        counted: int | None = None
        with anyio.move_on_after(COUNT_SECONDS) as scope:
            try:
                counted = await provider.count_tokens(request)
            except PatternError as error:
                logger.info("A request could not be counted: %s", error.sentence)
        if counted is None:
            self._state.counts = False
            if scope.cancelled_caught:
                logger.info("Counting a request took longer than %.0f s.", COUNT_SECONDS)
            return estimate
        self._state.calibration.learn(request.model, request_tokens(request, self._state.messages), counted)
        return counted


def without_messages(request: ProviderRequest) -> ProviderRequest:
    """Copy of a request without its conversation."""
    return ProviderRequest(request.model, request.system, request.tools, (), request.volatile)
