"""From a provider's events to one message, shown while it comes."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.argument_repair import whole_fields
from pattern_acp.domain.clock import IdFactory, MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Part, Role, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import MessageRecorded
from pattern_acp.providers.base import (
    MalformedToolCall,
    ModelInfo,
    ModelSwitched,
    Provider,
    ProviderEvent,
    ProviderNotice,
    ProviderRequest,
    ProviderStop,
    RateLimitWait,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallEnded,
    ToolCallFragment,
    UsageKnown,
    UsageMissing,
)
from pattern_acp.turn.recorder import NewEvent, TextStreamed, ThinkingStreamed, TurnRecorder

NEW_PARAGRAPH = "\n\n"
"""Clients join the text of messages that follow each other, so each brings its own break."""


class _OpenCall(Struct):
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])
    problem: str = ""
    is_whole: bool = False
    """True when nothing of the call is missing, even if the answer was cut behind it."""


class MessageAssembly(Struct):
    """Collects one message. Text and reasoning keep the order in which they came."""

    message_id: MessageId
    provider: str
    parts: list[Part] = field(default_factory=list[Part])
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    stop: ProviderStop = ProviderStop.INTERRUPTED
    detail: str = ""
    is_final: bool = False
    """True when an interrupted answer would be interrupted again."""
    attempts: int | None = None
    """Most interruptions in a row for this reason; None for as many as the settings allow."""
    info: ModelInfo | None = None
    """The model that stood in for the one that was asked, where one did and it is known."""
    is_waiting: bool = False
    """True while no request is running: the next one waits for its time."""
    is_untold: bool = False
    """True when the whole answer came without token counts."""
    written_bytes: int = 0
    """Size of the model's output so far."""
    told: int = 0
    """Number of notices to the user about this request, such as that it is tried again."""
    _text: list[str] = field(default_factory=list[str])
    _thinking: list[str] = field(default_factory=list[str])
    _calls: dict[int, _OpenCall] = field(default_factory=dict[int, _OpenCall])
    _places: list[tuple[int, _OpenCall]] = field(default_factory=list[tuple[int, _OpenCall]])
    """Each call with the number of parts before it: reasoning that led to a call must go back right before it."""

    def take(self, event: ProviderEvent) -> None:
        """Take one event of the stream."""
        self.is_waiting = isinstance(event, Retrying | RateLimitWait)
        match event:
            case TextDelta(text):
                self._end_thinking(ThinkingEnded())
                self._text.append(text)
                self.written_bytes += len(text.encode("utf-8", "surrogatepass"))
            case ThinkingDelta(text):
                self._end_text()
                self._thinking.append(text)
                self.written_bytes += len(text.encode("utf-8", "surrogatepass"))
            case ThinkingEnded():
                self._end_thinking(event)
            case ToolCallBegun() | ToolCallFragment() | ToolCallEnded() | MalformedToolCall():
                self._take_call(event)
            case UsageKnown(usage, cost):
                self.usage, self.cost, self.is_untold = usage, cost, False
            case UsageMissing():
                self.is_untold = True
            case Stopped(reason, detail, is_final, attempts):
                self.stop, self.detail, self.is_final, self.attempts = reason, detail, is_final, attempts
            case ModelSwitched(qualified, info=info):
                self.provider, self.info = qualified, info
            case _:
                pass

    def _take_call(self, event: ToolCallBegun | ToolCallFragment | ToolCallEnded | MalformedToolCall) -> None:
        match event:
            case ToolCallBegun(index, call_id, name):
                self._end_thinking(ThinkingEnded())
                self._end_text()
                for before in self._calls.values():
                    # A model writes one call behind the other.
                    before.is_whole = True
                self._calls[index] = _OpenCall(call_id, name)
                self._places.append((len(self.parts), self._calls[index]))
            case ToolCallFragment(index, text):
                if index in self._calls:
                    self._calls[index].is_whole = False
                    self._calls[index].arguments.append(text)
                    self.written_bytes += len(text.encode("utf-8", "surrogatepass"))
            case ToolCallEnded(index):
                if index in self._calls:
                    self._calls[index].is_whole = True
            case MalformedToolCall(index, problem):
                if index in self._calls:
                    self._calls[index].problem = problem

    def message(self, *, with_calls: bool, cut_call: Callable[[str], str] | None = None) -> Message:
        """The message so far. Without calls when the stream was cut, since their arguments may be cut too.

        `cut_call` is for an answer that its limit cut: it says, by the name of its tool, what is wrong with a call that
        may not be whole, and such a call has only those arguments that are.
        """
        self._end_thinking(ThinkingEnded())
        self._end_text()
        parts = list(self.parts)
        for place, call in reversed(self._places if with_calls else ()):
            arguments, problem = "".join(call.arguments) or "{}", call.problem
            if cut_call is not None and (problem or not call.is_whole):
                arguments, problem = whole_fields(arguments), cut_call(call.name)
            parts.insert(place, ToolCallPart(ToolCallId(call.call_id), call.name, arguments, problem))
        return Message(self.message_id, Role.ASSISTANT, _with_texts_joined(parts))

    def _end_text(self) -> None:
        if self._text:
            self.parts.append(TextPart("".join(self._text)))
            self._text.clear()

    def _end_thinking(self, event: ThinkingEnded) -> None:
        if self._thinking or event.signature or event.redacted:
            self._end_text()
            text = "".join(self._thinking)
            self.parts.append(ThinkingPart(text, event.signature, event.redacted, self.provider, event.wire))
            self._thinking.clear()


def _with_texts_joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same with one text where nothing stands between two, as when the call between them was cut."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(before, TextPart):
            joined[-1] = TextPart(before.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


async def read_stream(
    provider: Provider,
    request: ProviderRequest,
    assembly: MessageAssembly,
    recorder: TurnRecorder,
    turn_id: TurnId,
) -> None:
    """Stream `request` into `assembly`, showing text as it comes.

    Raises:
        ProviderError: nothing usable came.
        DatabaseError: a sentence could not be recorded.
    """
    async with provider.stream(request) as events:
        async for event in events:
            assembly.take(event)
            match event:
                case TextDelta(text) if text:
                    await recorder.show(TextStreamed(assembly.message_id, text))
                case ThinkingDelta(text) if text:
                    await recorder.show(ThinkingStreamed(assembly.message_id, text))
                case Retrying(sentence=sentence) | RateLimitWait(sentence=sentence):
                    await think_aloud(sentence, _next_id(assembly), recorder, turn_id)
                case ModelSwitched(sentence=sentence) | ProviderNotice(sentence=sentence) if sentence:
                    await _tell(sentence, assembly, recorder, turn_id)
                case _:
                    pass


async def think_aloud(sentence: str, message_id: MessageId, recorder: TurnRecorder, turn_id: TurnId) -> None:
    """Show a thought of our own, which a replay shows as well and the model never sees."""
    message = Message(message_id, Role.ASSISTANT, (ThinkingPart(sentence),))
    await recorder.show(ThinkingStreamed(message_id, sentence))
    await recorder.record(NewEvent(MessageRecorded(turn_id, message, for_model=False), Actor.SYSTEM, Origin.AGENT))


async def _tell(sentence: str, assembly: MessageAssembly, recorder: TurnRecorder, turn_id: TurnId) -> None:
    """A message of its own: thoughts are folded away in many editors, and this one must be read."""
    text = f"{NEW_PARAGRAPH if recorder.follows_text else ''}> {sentence}{NEW_PARAGRAPH}"
    message = Message(_next_id(assembly), Role.ASSISTANT, (TextPart(text),))
    await recorder.show(TextStreamed(message.message_id, text))
    await recorder.record(NewEvent(MessageRecorded(turn_id, message, for_model=False), Actor.SYSTEM, Origin.AGENT))


def _next_id(assembly: MessageAssembly) -> MessageId:
    assembly.told += 1
    return MessageId(f"{assembly.message_id}_told{assembly.told}")


def new_assembly(ids: IdFactory, provider: str) -> MessageAssembly:
    """An empty assembly with a fresh message id."""
    return MessageAssembly(MessageId(ids.new("msg")), provider)
