"""The chunks of a Chat Completions stream -> our events.

Owns: the format and its dialects. Sans I/O, one decoder an attempt. Known differences: reasoning as
`reasoning_content` (DeepSeek, older vLLM, llama-server), `reasoning` (OpenRouter, Ollama, newer vLLM) or parts of type
`thinking` (Mistral); usage in the last chunk or in one without choices; streams that end without `[DONE]`; errors as a
chunk.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct, field

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
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
from pattern_acp.providers.errors import ProviderConnectionError, ProviderOverloadedError
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import Failure, broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event


class FunctionDelta(msgspec.Struct):
    """The function of a fragment. Some servers send the arguments as an object."""

    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallDelta(msgspec.Struct):
    """One fragment of a call."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _Call(Struct):
    number: int
    wire_index: int | None
    wire_id: str
    is_begun: bool = False
    waiting: list[str] = field(default_factory=list[str])


class CallAssembler(Struct):
    """Numbers the calls of one answer in the order in which they begin.

    A fragment belongs to the call of its id; else of its index; else to the last call. A new id at a known index is a
    new call, since some servers send whole calls that all have index 0 (Gemini's compatible endpoint); a repeated id is
    not. A call without an id gets one from `id_seed` and its number, so that a replay makes the same.
    """

    id_seed: str
    _calls: list[_Call] = field(default_factory=list[_Call])

    @property
    def count(self) -> int:
        """Calls that have begun."""
        return sum(call.is_begun for call in self._calls)

    def take(self, delta: CallDelta) -> Iterator[ProviderEvent]:
        """Our events for one fragment; a call begins once its name is known."""
        function = delta.function or FunctionDelta()
        call = self._find(delta, has_name=bool(function.name))
        if function.arguments:
            arguments = function.arguments
            call.waiting.append(arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode())
        if function.name and not call.is_begun:
            call.is_begun = True
            yield ToolCallBegun(call.number, call.wire_id or f"{self.id_seed}_{call.number}", function.name)
        if call.is_begun:
            yield from (ToolCallFragment(call.number, text) for text in call.waiting)
            call.waiting.clear()

    def _find(self, delta: CallDelta, *, has_name: bool) -> _Call:
        found = self._known(delta, has_name=has_name)
        if found is not None:
            return found
        call = _Call(len(self._calls), delta.index, delta.id or "")
        self._calls.append(call)
        return call

    def _known(self, delta: CallDelta, *, has_name: bool) -> _Call | None:
        newest_first = self._calls[::-1]
        if delta.id:
            same = next((call for call in newest_first if call.wire_id == delta.id), None)
            if same is not None:
                # One id for several whole calls is a server's mistake; their indexes tell them apart.
                is_other = delta.index is not None and same.wire_index is not None and delta.index != same.wire_index
                return None if is_other else same
            unnamed = next((call for call in newest_first if call.wire_index == delta.index and not call.wire_id), None)
            if unnamed is not None and not unnamed.is_begun:
                unnamed.wire_id = delta.id
                return unnamed
            return None
        if delta.index is not None:
            return next((call for call in newest_first if call.wire_index == delta.index), None)
        # Neither id nor index: a name starts a call, anything else goes on with the last one.
        return newest_first[0] if newest_first and not (has_name and newest_first[0].is_begun) else None


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
