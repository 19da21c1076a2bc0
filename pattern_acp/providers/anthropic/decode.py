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
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.errors import ProviderConnectionError
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""In the order of `Usage`."""


class _Message(msgspec.Struct):
    usage: object = None


class _Block(msgspec.Struct):
    """Servers that are compatible write null for what a block does not have, as they do in deltas."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: str | dict[str, object] | None = None


class _StopDetails(msgspec.Struct):
    explanation: str | None = None


class _Delta(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | dict[str, object] | None = None
    stop_reason: object = None
    stop_details: _StopDetails | None = None


class _Event(msgspec.Struct):
    type: str | None = None
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: object = None


class AnthropicDecoder:
    """See `streaming.Decoder`. `price` turns token counts into money."""

    def __init__(self, settings: ProviderSettings, model: str, price: Callable[[Usage], Cost | None]) -> None:
        self._settings = settings
        self._model = model
        self._price = price
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._open: dict[int, _Block] = {}
        self._begun = 0
        self._latest = 0
        self._has_fragments: set[int] = set()
        self._signatures: dict[int, str] = {}
        self._has_text = False
        self._calls = 0
        self._detail = ""
        self.finish = ""
        self.is_done = False

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """See `Decoder.feed`."""
        try:
            parsed = decode_event(event.data, _Event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken_event(self._settings) from error
        kind = parsed.type or event.event
        if kind == "error" or not kind:
            failure = parse_failure(event.data.encode("utf-8", "replace")) if kind else None
            raise error_of_event(self._settings, self._model, failure) if failure else broken_event(self._settings)
        index = self._index(kind, parsed)
        match kind:
            case "message_start":
                return self._count(parsed.message.usage if parsed.message else None)
            case "content_block_start":
                return self._block_started(index, parsed.content_block)
            case "content_block_delta":
                return self._block_goes_on(index, parsed.delta or _Delta())
            case "content_block_stop":
                return self._block_ended(index)
            case "message_delta":
                return self._message_goes_on(parsed)
            case "message_stop":
                self.is_done = True
            case _:
                pass
        return ()

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        # A stream that named its stop reason is whole even when the last event is missing.
        if not self.is_done and not self.finish:
            raise ProviderConnectionError(f"The connection to {self._settings.name} ended in the middle of the answer.")
        has_calls = self._calls > 0
        stop = stop_for(
            self._settings, self._model, self.finish, has_text=self._has_text, has_calls=has_calls, detail=self._detail
        )
        left_open = [event for index in sorted(self._open) for event in self._block_ended(index)]
        return [*left_open, stop]

    def _index(self, kind: str, event: _Event) -> int:
        if event.index is not None:
            return event.index
        return self._begun if kind == "content_block_start" else self._latest

    def _block_started(self, index: int, block: _Block | None) -> Sequence[ProviderEvent]:
        if block is None:
            raise broken_event(self._settings)
        self._open[index] = block
        self._begun += 1
        self._latest = index
        match block.type:
            case "text":
                return self._text(block.text or "")
            case "thinking":
                self._signatures[index] = block.signature or ""
                return (ThinkingDelta(block.thinking),) if block.thinking else ()
            case "tool_use":
                self._calls += 1
                return (ToolCallBegun(index, block.id or "", block.name or ""),)
            case _:
                return ()

    def _block_goes_on(self, index: int, delta: _Delta) -> Sequence[ProviderEvent]:
        match delta.type:
            case "text_delta":
                return self._text(delta.text or "")
            case "thinking_delta":
                return (ThinkingDelta(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                self._signatures[index] = self._signatures.get(index, "") + (delta.signature or "")
            case "input_json_delta" if index in self._open and self._open[index].type == "tool_use":
                if delta.partial_json:
                    self._has_fragments.add(index)
                    return (ToolCallFragment(index, _json_text(delta.partial_json)),)
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
            return (ThinkingEnded(redacted=block.data or "", wire="anthropic"),)
        # Compatible servers send a whole call in its first event.
        if block.type == "tool_use" and block.input and index not in self._has_fragments:
            return (ToolCallFragment(index, _json_text(block.input)),)
        return ()

    def _message_goes_on(self, event: _Event) -> Sequence[ProviderEvent]:
        if event.delta is not None and (word := finish_word(event.delta.stop_reason)):
            self.finish = word
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


def _json_text(arguments: str | dict[str, object]) -> str:
    """A call's arguments, which compatible servers also send as an object."""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
