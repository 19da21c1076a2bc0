"""The model of a replay: what the recorded one said, request by request.

Owns: turning a recorded answer into the events of a stream that make it. Must not know: how streams are read. How an
answer was cut into pieces, and how often a request was tried, is not recorded.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import anyio.lowlevel
from msgspec.structs import replace

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import Message, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.journal.events import ErrorReported, TurnEnded
from pattern_acp.providers import errors
from pattern_acp.providers.base import (
    ModelSwitched,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    Told,
    ToolCallBegun,
    ToolCallFragment,
    ToolCallUnread,
    UsageKnown,
    UsageUntold,
)
from pattern_acp.session.replay.position import Position
from pattern_acp.session.replay.recorded import RecordedRequest, RecordedTurn
from pattern_acp.turn.loop import GOES_ON, TOLD_AGAIN

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
        for event in said_by(request):
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


def said_by(request: RecordedRequest) -> Iterator[ProviderEvent]:
    """What came of a recorded answer, before its end."""
    qualified = f"{request.event.provider}/{request.event.model}"
    answering = answered_by(request) or qualified
    for told in request.told:
        if told.message.message_id.endswith(TOLD_AGAIN):
            # The loop says that itself.
            continue
        for part in told.message.parts:
            if isinstance(part, ThinkingPart):
                yield Retrying(1, 0, part.text)
            elif isinstance(part, TextPart):
                yield Told(part.text.strip().removeprefix("> "))
    if answering != qualified:
        yield ModelSwitched(answering)
    yield from _parts(request.message.message if request.message is not None else None)
    # What was estimated the loop estimates again, unless its provider had told of a cache before the answer was cut.
    usage = request.usage
    if usage is not None and (not usage.estimated or usage.usage.cache_read_tokens or usage.usage.cache_write_tokens):
        # What an estimate says of the answer is our own count, which the loop takes again.
        known = replace(usage.usage, output_tokens=0) if usage.estimated else usage.usage
        yield UsageKnown(known, usage.spent)
    if usage is not None and usage.estimated:
        yield UsageUntold()


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
                    yield ToolCallUnread(index, problem)
            case _:
                pass


def failure_of(position: Position) -> Exception | None:
    """The failure that the newest request met; None when it met none."""
    request, following, error = position.current, position.following, position.turn.error
    if following is not None:
        is_again = following.event.number == request.event.number
        return errors.ContextTooLongError("The request is too long.") if is_again else None
    if error is None and position.turn.ended is not None and ends_in_peace(position.turn.ended):
        # Nothing followed an answer that had lost only its end.
        return errors.EmptyAnswerError("The model ended without an answer.")
    return failure_from(error) if error is not None else None


def ends_in_peace(ended: TurnEnded) -> bool:
    """Whether a turn ended with nothing to say of it."""
    return ended.stop_reason is StopReason.END_TURN and not ended.sentence


def failure_from(error: ErrorReported) -> Exception:
    """The recorded failure, of its own class where that is a provider's."""
    kind: object = getattr(errors, error.kind, None)
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(error.sentence)
    return RecordedFailureError(error.sentence)


def stop_of(turn: RecordedTurn, request: RecordedRequest, *, is_last: bool) -> Stopped:
    """Why the model stopped, which the journal tells by what came of it."""
    message = request.message
    if request.went_on:
        return Stopped(ProviderStop.INTERRUPTED, request.went_on.removesuffix(GOES_ON).rstrip())
    ended, sentence = (turn.ended.stop_reason, turn.ended.sentence) if turn.ended is not None else (None, "")
    if message is not None and message.message.tool_calls:
        return Stopped(ProviderStop.TOOL_CALLS)
    if message is not None and not message.complete:
        return Stopped(ProviderStop.INTERRUPTED, sentence if is_last else "")
    if is_last and message is None and ended is StopReason.END_TURN:
        # An answer without anything in it ends a turn in peace only where it broke off.
        return Stopped(ProviderStop.INTERRUPTED, sentence)
    if is_last and ended is not None and ended in _STOPS:
        return Stopped(_STOPS[ended], sentence)
    return Stopped(ProviderStop.END)
