"""The model's window of a subagent: what no longer fits leaves its conversation.

Owns: when room is made in it, and that this is recorded in its thread. Must not know: how units are chosen
(`context/choosing.py`). Nothing is summed up: its task stays, and it can look again at what it needs.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context import compaction
from pattern_acp.context.compaction import SHORT_RESULT_CHARACTERS, Untouchable
from pattern_acp.context.window import (
    MessageTokens,
    does_not_fit,
    messages_tokens,
    prompt_tokens,
    request_tokens,
    with_answer_in_window,
)
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import ContextCompacted
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.session.compaction_choice import LAST_RESORT_CHARACTERS, Wanted, choose_for
from pattern_acp.session.window import session_limits, without_messages
from pattern_acp.turn.loop import ModelInUse
from pattern_acp.turn.sink import Fact, TurnSink

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FOUND_AGAIN = "Look again at what you still need of it."
"""What is said of what left: a search finds nothing of a subagent's own conversation."""


class SubagentWindow:
    """`TurnWindow` of one subagent. `history` is its conversation, and changes in place."""

    def __init__(
        self,
        session: "Session",
        turn_id: TurnId,
        model: ModelInUse,
        history: list[Message],
        sink: TurnSink,
        compose: Callable[[], Awaitable[ProviderRequest]],
    ) -> None:
        """`compose` builds the request from `history` as it is; `sink` is the one of its thread."""
        self._session, self._turn_id, self._model, self._history = session, turn_id, model, history
        self._sink, self._compose = sink, compose
        # What the counts of a model's answers taught holds for everything that it is sent.
        self._calibration = session.state.window.calibration
        self._messages = MessageTokens()
        self._limits = session_limits(session, model)
        self._estimate = 0
        self._task = history[0].message_id

    async def fitted(self) -> ProviderRequest:
        """The next request, with room made where that was needed.

        Raises:
            ContextFullError: it does not fit whatever is left out.
            DatabaseError: it could not be recorded what left.
        """
        request = await self._compose()
        tokens = self._tokens(request)
        if tokens > self._limits.trigger and await self._made_room(self._wanted("threshold", tokens)):
            request = await self._compose()
            tokens = self._tokens(request)
        for characters in LAST_RESORT_CHARACTERS:
            if tokens <= self._limits.usable:
                break
            if await self._made_room(self._wanted("threshold", tokens, last_resort=characters)):
                request = await self._compose()
                tokens = self._tokens(request)
        if tokens > self._limits.usable:
            raise does_not_fit(self._model.info, self._limits, tokens, self._tokens(without_messages(request)))
        return with_answer_in_window(request, self._model.info, tokens)

    def sending(self, request: ProviderRequest) -> int:
        """See `TurnWindow.sending`."""
        self._estimate = request_tokens(request, self._messages)
        return self._estimate

    def sent_tokens(self) -> int:
        """See `TurnWindow.sent_tokens`."""
        return self._calibration.tokens(self._model.info.name, self._estimate)

    def counted(self, usage: Usage) -> None:
        """See `TurnWindow.counted`."""
        self._calibration.learn(self._model.info.name, self._estimate, prompt_tokens(usage))

    async def too_long(self) -> bool:
        """See `TurnWindow.too_long`."""
        tokens = self._calibration.tokens(self._model.info.name, self._estimate)
        before, self._limits = self._limits, session_limits(self._session, self._model, refused=tokens)
        if await self._made_room(self._wanted("provider", tokens)):
            self._session.state.window.refused[self._model.info.name] = tokens
            return True
        self._limits = before
        return False

    def _tokens(self, request: ProviderRequest) -> int:
        return self._calibration.tokens(request.model, request_tokens(request, self._messages))

    def _tokens_of(self, messages: Sequence[Message]) -> int:
        name = self._model.info.name
        return self._calibration.tokens(name, messages_tokens(messages, name))

    def _wanted(self, trigger: str, tokens: int, *, last_resort: int = 0) -> Wanted:
        configured = self._session.state.settings.compaction.strategy
        strategy: CompactionStrategy = "truncate" if configured == "summarise" or last_resort else configured
        return Wanted(
            trigger,
            strategy,
            tokens,
            self._limits.target,
            self._limits,
            is_last_resort=bool(last_resort),
            keep_characters=last_resort or SHORT_RESULT_CHARACTERS,
        )

    async def _made_room(self, wanted: Wanted) -> bool:
        rules = Untouchable(prompts=frozenset({self._task}))
        choice = choose_for(self._history, rules, wanted, self._tokens_of)
        if not choice.freed:
            return False
        gone = compaction.left_out(message for unit in choice.removed for message in unit.messages)
        text = compaction.gap_text(gone, "", found_again=FOUND_AGAIN) if choice.removed else ""
        event = ContextCompacted(
            self._turn_id,
            wanted.strategy if choice.removed else "results",
            wanted.trigger,
            choice.message_ids,
            choice.shortened,
            wanted.keep_characters,
            compaction.note_id(self._session.constellation.ids.new("msg")),
            text,
            wanted.tokens,
            max(wanted.tokens - choice.freed, 0),
        )
        await self._sink.record(Fact(event, Actor.SYSTEM, Origin.AGENT))
        self._history[:] = compaction.compacted(self._history, event)
        return True
