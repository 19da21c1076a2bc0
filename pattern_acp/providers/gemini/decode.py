"""The chunks of a streamed `generateContent` answer -> our events.

Owns: the format. Sans I/O, one decoder an attempt. Parts and fields that are not known are passed over.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallEnded,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.errors import ContentFilteredError, ProviderConnectionError
from pattern_acp.providers.finish import filter_reason, finish_word, stop_for
from pattern_acp.providers.gemini.encode import WIRE
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event


class _FunctionCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: dict[str, object] | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: object = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: object = None
    prompt_feedback: _Feedback | None = None
    error: object = None


class GeminiDecoder:
    """See `streaming.Decoder`. `price` turns token counts into money; `id_seed` starts the ids of calls without one."""

    def __init__(
        self, settings: ProviderSettings, model: str, price: Callable[[Usage], Cost | None], id_seed: str
    ) -> None:
        self._settings = settings
        self._model = model
        self._price = price
        self._id_seed = id_seed
        self._calls = 0
        self._is_thinking = False
        self._has_text = False
        self.finish = ""
        self.is_done = False

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """See `Decoder.feed`."""
        try:
            chunk = decode_event(event.data, _Chunk)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken_event(self._settings) from error
        if chunk.error:
            failure = parse_failure(event.data.encode("utf-8", "replace"))
            raise error_of_event(self._settings, self._model, failure) if failure else broken_event(self._settings)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            why = filter_reason(chunk.prompt_feedback.block_reason) or "without a reason"
            raise ContentFilteredError(f"{self._settings.name} refused the prompt {why}; word it differently.")
        return [*self._chunk_events(chunk)]

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        if not self.is_done and not self.finish:
            raise ProviderConnectionError(f"The connection to {self._settings.name} ended in the middle of the answer.")
        has_calls = self._calls > 0
        stop = stop_for(self._settings, self._model, self.finish, has_text=self._has_text, has_calls=has_calls)
        return [*self._end_thinking(), stop]

    def _chunk_events(self, chunk: _Chunk) -> Iterator[ProviderEvent]:
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content.parts if candidate.content else None) or ():
                yield from self._part_events(part)
            # No last word: more of the answer may follow, and the reason that comes last counts.
            self.finish = finish_word(candidate.finish_reason) or self.finish
        if chunk.usage_metadata is not None:
            usage = _usage(chunk.usage_metadata)
            yield UsageKnown(usage, self._price(usage))

    def _part_events(self, part: _Part) -> Iterator[ProviderEvent]:
        if part.function_call is not None:
            # The signature of a call stands right before it.
            yield from self._sign(part)
            yield from self._call(part.function_call)
        elif part.thought:
            if part.text:
                self._is_thinking = True
                yield ThinkingDelta(part.text)
            yield from self._sign(part)
        else:
            if part.text:
                self._has_text = self._has_text or bool(part.text.strip())
                yield from self._end_thinking()
                yield TextDelta(part.text)
            yield from self._sign(part)

    def _call(self, call: _FunctionCall) -> Iterator[ProviderEvent]:
        yield from self._end_thinking()
        index = self._calls
        self._calls += 1
        yield ToolCallBegun(index, call.id or f"{self._id_seed}_{index}", call.name or "")
        yield ToolCallFragment(index, msgspec.json.encode(call.args or {}).decode())
        yield ToolCallEnded(index)

    def _sign(self, part: _Part) -> Iterator[ProviderEvent]:
        if part.thought_signature:
            self._is_thinking = False
            yield ThinkingEnded(part.thought_signature, wire=WIRE)

    def _end_thinking(self) -> Iterator[ProviderEvent]:
        if self._is_thinking:
            self._is_thinking = False
            yield ThinkingEnded(wire=WIRE)


def _usage(counts: object) -> Usage:
    """Google counts cached tokens inside the prompt's, and reasoning beside the answer's; our output holds both."""
    cached = token_count(counts, "cachedContentTokenCount") or 0
    prompt = (token_count(counts, "promptTokenCount") or 0) + (token_count(counts, "toolUsePromptTokenCount") or 0)
    thinking = token_count(counts, "thoughtsTokenCount") or 0
    output = (token_count(counts, "candidatesTokenCount") or 0) + thinking
    return Usage(max(0, prompt - cached), output, cached, 0, thinking)
