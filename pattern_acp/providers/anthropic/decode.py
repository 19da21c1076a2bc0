"""The events of a Messages stream -> ours.

Owns: the format. Sans I/O, one decoder an attempt. Unknown events, blocks and deltas are passed over, as Anthropic's
versioning rules ask of clients.
"""

from collections.abc import Callable, Sequence

import msgspec

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.errors import EmptyAnswerError, ProviderConnectionError
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""In the order of `Usage`."""


class _Message(msgspec.Struct):
    usage: object = None


class _Block(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: dict[str, object] | None = None


class _StopDetails(msgspec.Struct):
    explanation: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: object = None


_STOPS = {
    "end_turn": ProviderStop.END,
    "stop_sequence": ProviderStop.END,
    "tool_use": ProviderStop.TOOL_CALLS,
    "max_tokens": ProviderStop.MAX_TOKENS,
    "model_context_window_exceeded": ProviderStop.MAX_TOKENS,
    "refusal": ProviderStop.REFUSAL,
    "pause_turn": ProviderStop.INTERRUPTED,
}

_DETAILS = {
    "max_tokens": "The answer reached its limit of tokens.",
    "model_context_window_exceeded": "The conversation filled the model's context window.",
    "refusal": "The model declined to answer.",
    "pause_turn": "The provider paused a long answer; send another prompt to go on.",
}


class AnthropicDecoder:
    """See `streaming.Decoder`. `price` turns token counts into money."""

    def __init__(self, settings: ProviderSettings, model: str, price: Callable[[Usage], Cost | None]) -> None:
        self._settings = settings
        self._model = model
        self._price = price
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._open: dict[int, _Block] = {}
        self._has_fragments: set[int] = set()
        self._signatures: dict[int, str] = {}
        self._has_text = False
        self._calls = 0
        self._stop = ""
        self._detail = ""
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """See `Decoder.is_done`."""
        return self._is_done

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """See `Decoder.feed`."""
        try:
            parsed = decode_event(event.data, _Event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken_event(self._settings) from error
        match parsed.type:
            case "message_start":
                return self._count(parsed.message.usage if parsed.message else None)
            case "content_block_start":
                return self._block_started(parsed.index, parsed.content_block)
            case "content_block_delta":
                return self._block_goes_on(parsed.index, parsed.delta or _Delta())
            case "content_block_stop":
                return self._block_ended(parsed.index)
            case "message_delta":
                return self._message_goes_on(parsed)
            case "message_stop":
                self._is_done = True
            case "error":
                failure = parse_failure(event.data.encode("utf-8", "replace"))
                raise error_of_event(self._settings, self._model, failure) if failure else broken_event(self._settings)
            case _:
                pass
        return ()

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        # A stream that named its stop reason is whole even when the last event is missing.
        if not self._is_done and not self._stop:
            raise ProviderConnectionError(f"The connection to {self._settings.name} ended in the middle of the answer.")
        stop = _STOPS.get(self._stop, ProviderStop.END)
        if stop in {ProviderStop.END, ProviderStop.TOOL_CALLS}:
            stop = ProviderStop.TOOL_CALLS if self._calls else ProviderStop.END
        if stop is ProviderStop.END and not self._has_text:
            raise EmptyAnswerError(f"{self._settings.name}/{self._model} ended without an answer; try again.")
        return (Stopped(stop, self._detail or _DETAILS.get(self._stop, "")),)

    def _block_started(self, index: int, block: _Block | None) -> Sequence[ProviderEvent]:
        if block is None:
            raise broken_event(self._settings)
        self._open[index] = block
        match block.type:
            case "text":
                return self._text(block.text)
            case "thinking":
                self._signatures[index] = block.signature
                return (ThinkingDelta(block.thinking),) if block.thinking else ()
            case "tool_use":
                self._calls += 1
                return (ToolCallBegun(index, block.id, block.name),)
            case _:
                return ()

    def _block_goes_on(self, index: int, delta: _Delta) -> Sequence[ProviderEvent]:
        match delta.type:
            case "text_delta":
                return self._text(delta.text)
            case "thinking_delta":
                return (ThinkingDelta(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                self._signatures[index] = self._signatures.get(index, "") + delta.signature
            case "input_json_delta" if index in self._open and self._open[index].type == "tool_use":
                if delta.partial_json:
                    self._has_fragments.add(index)
                    return (ToolCallFragment(index, delta.partial_json),)
            case _:
                pass
        return ()

    def _block_ended(self, index: int) -> Sequence[ProviderEvent]:
        block = self._open.pop(index, None)
        if block is None:
            return ()
        if block.type == "thinking":
            return (ThinkingEnded(self._signatures.pop(index, ""), wire="anthropic"),)
        if block.type == "redacted_thinking":
            return (ThinkingEnded(redacted=block.data, wire="anthropic"),)
        # Compatible servers send a whole call in its first event.
        if block.type == "tool_use" and block.input and index not in self._has_fragments:
            return (ToolCallFragment(index, msgspec.json.encode(block.input).decode()),)
        return ()

    def _message_goes_on(self, event: _Event) -> Sequence[ProviderEvent]:
        if event.delta is not None and event.delta.stop_reason:
            self._stop = event.delta.stop_reason
            if event.delta.stop_details is not None:
                self._detail = event.delta.stop_details.explanation or ""
        return self._count(event.usage)

    def _text(self, text: str) -> Sequence[ProviderEvent]:
        self._has_text = self._has_text or bool(text.strip())
        return (TextDelta(text),) if text else ()

    def _count(self, usage: object) -> Sequence[ProviderEvent]:
        """Later counts replace earlier ones, field by field: `message_delta` is cumulative and may leave fields out."""
        if usage is None:
            return ()
        for name in _COUNTS:
            count = token_count(usage, name)
            if count is not None:
                self._counts[name] = count
        total = Usage(*self._counts.values())
        return (UsageKnown(total, self._price(total)),)
