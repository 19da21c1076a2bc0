"""The chunks of a Chat Completions stream -> our events.

Owns: the format and its dialects. Sans I/O, one decoder an attempt. Known differences: reasoning as
`reasoning_content` (DeepSeek, older vLLM, llama-server), `reasoning` (OpenRouter, Ollama, newer vLLM) or parts of type
`thinking` (Mistral); usage in the last chunk or in one without choices; streams that end without `[DONE]`; errors as a
chunk.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    UsageKnown,
)
from pattern_acp.providers.errors import ProviderConnectionError, ProviderOverloadedError
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.openai.calls import CallAssembler, CallDelta
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import Failure, broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event


class _ContentPart(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: "str | list[_ContentPart] | None" = None


class _Delta(msgspec.Struct):
    content: str | list[_ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """Servers that do not stream put the whole answer here."""
    finish_reason: object = None
    error: object = None
    """OpenRouter's way to say that the provider behind it failed in the middle."""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: object = None
    error: object = None


class OpenAIDecoder:
    """See `streaming.Decoder`. `price` turns token counts into money; `id_seed` starts the ids of calls without one."""

    def __init__(
        self, settings: ProviderSettings, model: str, price: Callable[[Usage], Cost | None], id_seed: str
    ) -> None:
        self._settings = settings
        self._model = model
        self._price = price
        self._calls = CallAssembler(id_seed)
        self._is_thinking = False
        self._has_text = False
        self._has_refused = False
        self.finish = ""
        self.is_done = False

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """See `Decoder.feed`."""
        try:
            chunk = decode_event(event.data, _Chunk)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken_event(self._settings) from error
        if chunk.error or event.event == "error":
            failure = parse_failure(event.data.encode("utf-8", "replace"))
            raise error_of_event(self._settings, self._model, failure) if failure else broken_event(self._settings)
        return [*self._chunk_events(chunk)]

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        # Many servers close without [DONE]; a finish reason says as much.
        if not self.is_done and not self.finish:
            raise ProviderConnectionError(f"The connection to {self._settings.name} ended in the middle of the answer.")
        word = "refusal" if self._has_refused else self.finish
        has_calls = self._calls.count > 0
        stop = stop_for(self._settings, self._model, word, has_text=self._has_text, has_calls=has_calls)
        return [*self._end_thinking(), stop]

    def _chunk_events(self, chunk: _Chunk) -> Iterator[ProviderEvent]:
        for choice in (chunk.choices or ())[:1]:
            yield from self._delta_events(choice.delta or choice.message or _Delta())
            self.finish = finish_word(choice.finish_reason) or self.finish
            if choice.error:
                raise self._broken(choice.error)
        if chunk.usage is not None:
            usage = _usage(chunk.usage)
            yield UsageKnown(usage, self._price(usage))

    def _broken(self, error: object) -> ProviderError:
        failure = parse_failure(msgspec.json.encode({"error": error})) or Failure()
        found = error_of_event(self._settings, self._model, failure)
        # The request was taken, so an error without a kind is not the request's.
        return found if failure.kind else ProviderOverloadedError(found.sentence)

    def _delta_events(self, delta: _Delta) -> Iterator[ProviderEvent]:
        text, thinking = _split_content(delta.content)
        # OpenRouter sends the same reasoning under both names.
        thinking = delta.reasoning_content or delta.reasoning or thinking
        if thinking:
            self._is_thinking = True
            yield ThinkingDelta(thinking)
        if delta.refusal:
            self._has_refused = True
            text += delta.refusal
        if text:
            self._has_text = self._has_text or bool(text.strip())
            yield from self._end_thinking()
            yield TextDelta(text)
        for call in delta.tool_calls or ():
            yield from self._end_thinking()
            yield from self._calls.take(call)

    def _end_thinking(self) -> Iterator[ProviderEvent]:
        if self._is_thinking:
            self._is_thinking = False
            yield ThinkingEnded(wire="openai")


def _split_content(content: str | list[_ContentPart] | None) -> tuple[str, str]:
    """The text and the reasoning of a delta's content."""
    if content is None or isinstance(content, str):
        return content or "", ""
    text = "".join(part.text or "" for part in content if part.type != "thinking")
    thoughts = (part.thinking for part in content if part.type == "thinking")
    return text, "".join(_split_content(thought)[0] for thought in thoughts)


def _usage(counts: object) -> Usage:
    """OpenAI counts cached tokens inside the prompt's, DeepSeek names them differently; ours are apart."""
    cached = token_count(counts, "prompt_tokens_details", "cached_tokens")
    cached = cached or token_count(counts, "prompt_cache_hit_tokens") or 0
    prompt = token_count(counts, "prompt_tokens") or 0
    cached = min(cached, prompt)
    thinking = token_count(counts, "completion_tokens_details", "reasoning_tokens") or 0
    return Usage(prompt - cached, token_count(counts, "completion_tokens") or 0, cached, thinking_tokens=thinking)
