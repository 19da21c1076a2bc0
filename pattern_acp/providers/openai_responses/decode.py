"""The events of a Responses stream -> ours.

Owns: the format. Sans I/O, one decoder an attempt. Events and items that are not known are passed over. Servers that
send an item whole, without its deltas, are read from the item's last event.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, field

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
from pattern_acp.providers.errors import ProviderConnectionError
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.openai_responses.encode import WIRE, MessagePhase, ReasoningItem
from pattern_acp.providers.sse import SseEvent
from pattern_acp.providers.status import Failure, broken_event, error_of_event, parse_failure
from pattern_acp.providers.token_counts import token_count
from pattern_acp.providers.wire_json import decode_event


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: object = None
    usage: object = None
    error: _Error | None = None
    incomplete_details: _IncompleteDetails | None = None


class _Content(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    phase: str | None = None
    status: str | None = None
    encrypted_content: str | None = None
    content: list[_Content] | None = None
    summary: list[_Content] | None = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    item: _Item | None = None
    response: _Response | None = None


class _Open(Struct):
    """An item that has begun. `has_deltas`: something of it was given on already."""

    kind: str = ""
    has_deltas: bool = False
    is_begun: bool = False
    phase: str = ""
    """What the model says of a message; given on with its first text."""
    argument: str = ""
    """The argument that the text of a free-form call is; empty for a call with JSON arguments."""


_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesDecoder(Struct):
    """See `streaming.Decoder`.

    `price` turns token counts into money, `id_seed` starts the ids of calls without one, and `free_form` names the
    tools that are written as plain text, with the argument that the text is.
    """

    settings: ProviderSettings
    model: str
    price: Callable[[Usage], Cost | None]
    id_seed: str
    free_form: Mapping[str, str]
    _items: dict[int, _Open] = field(default_factory=dict[int, _Open])
    _is_thinking: bool = False
    _has_text: bool = False
    _has_refused: bool = False
    _calls: int = 0
    finish: str = ""
    is_done: bool = False

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """See `Decoder.feed`."""
        try:
            parsed = decode_event(event.data, _Event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken_event(self.settings) from error
        kind = parsed.type or event.event
        if kind == "error" or not kind:
            failure = parse_failure(event.data.encode("utf-8", "replace"))
            raise error_of_event(self.settings, self.model, failure) if failure else broken_event(self.settings)
        if kind in _LAST:
            return [*self._ended(kind, parsed.response or _Response())]
        item = self._items.setdefault(parsed.output_index, _Open())
        return [*self._item_events(kind, parsed, item)]

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        # Only the last event says whether the answer is whole, so `[DONE]` alone is not enough.
        if not self.finish:
            raise ProviderConnectionError(f"The connection to {self.settings.name} ended in the middle of the answer.")
        word = "refusal" if self._has_refused and self.finish == "completed" else self.finish
        has_calls = self._calls > 0
        stop = stop_for(self.settings, self.model, word, has_text=self._has_text, has_calls=has_calls)
        return [*self._end_thinking(), stop]

    def _item_events(self, kind: str, event: _Event, item: _Open) -> Iterator[ProviderEvent]:
        delta = event.delta or ""
        match kind:
            case "response.output_item.added" if event.item is not None:
                yield from self._item_began(event.output_index, event.item, item)
            case "response.output_item.done" if event.item is not None:
                yield from self._item_ended(event.output_index, event.item, item)
            case "response.output_text.delta":
                yield from self._text(delta, item)
            case "response.refusal.delta":
                self._has_refused = True
                yield from self._text(delta, item)
            case "response.reasoning_summary_part.added" if event.summary_index and self._is_thinking:
                yield ThinkingDelta("\n\n")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._thinking(delta, item)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self._arguments(event.output_index, delta, item)
            case _:
                pass

    def _item_began(self, index: int, begun: _Item, item: _Open) -> Iterator[ProviderEvent]:
        item.kind = begun.type
        item.phase = begun.phase or ""
        if begun.type in {"function_call", "custom_tool_call"} and begun.name and not item.is_begun:
            yield from self._end_thinking()
            item.is_begun = True
            is_plain = begun.type == "custom_tool_call"
            item.argument = self.free_form.get(begun.name, "input") if is_plain else ""
            yield ToolCallBegun(index, begun.call_id or f"{self.id_seed}_{self._calls}", begun.name)
            self._calls += 1
            if item.argument:
                yield ToolCallFragment(index, f'{{{json.dumps(item.argument)}:"')

    def _item_ended(self, index: int, ended: _Item, item: _Open) -> Iterator[ProviderEvent]:
        if not item.kind:
            yield from self._item_began(index, ended, item)
        match ended.type:
            case "reasoning":
                yield from self._reasoning_ended(ended, item)
            case "message" if not item.has_deltas:
                self._has_refused = self._has_refused or any(part.refusal for part in ended.content or ())
                yield from self._text("".join(part.text or part.refusal or "" for part in ended.content or ()), item)
            case "function_call" | "custom_tool_call" if item.is_begun:
                if not item.has_deltas:
                    yield from self._arguments(index, ended.arguments or ended.input or "", item)
                if item.argument:
                    yield ToolCallFragment(index, '"}')
                if ended.status == "completed":
                    yield ToolCallEnded(index)
            case _:
                pass

    def _reasoning_ended(self, ended: _Item, item: _Open) -> Iterator[ProviderEvent]:
        if not item.has_deltas:
            text = "\n\n".join(part.text for part in (ended.summary or ended.content or ()) if part.text)
            yield from self._thinking(text, item)
        if ended.encrypted_content:
            self._is_thinking = False
            kept = ReasoningItem(ended.id or "", ended.encrypted_content)
            yield ThinkingEnded(msgspec.json.encode(kept).decode(), wire=WIRE)
        else:
            yield from self._end_thinking()

    def _text(self, text: str, item: _Open) -> Iterator[ProviderEvent]:
        if text:
            item.has_deltas = True
            self._has_text = self._has_text or bool(text.strip())
            yield from self._end_thinking()
            if item.phase:
                yield ThinkingEnded(msgspec.json.encode(MessagePhase(item.phase)).decode(), wire=WIRE)
                item.phase = ""
            yield TextDelta(text)

    def _thinking(self, text: str, item: _Open) -> Iterator[ProviderEvent]:
        if text:
            item.has_deltas = self._is_thinking = True
            yield ThinkingDelta(text)

    def _arguments(self, index: int, text: str, item: _Open) -> Iterator[ProviderEvent]:
        if text and item.is_begun:
            item.has_deltas = True
            # Plain text becomes the inside of a JSON string, piece by piece.
            yield ToolCallFragment(index, json.dumps(text, ensure_ascii=False)[1:-1] if item.argument else text)

    def _ended(self, kind: str, response: _Response) -> Iterator[ProviderEvent]:
        if response.usage is not None:
            usage = _usage(response.usage)
            yield UsageKnown(usage, self.price(usage))
        word = kind.removeprefix("response.")
        if word == "completed":
            # Some servers send the response as it was when it began.
            status = finish_word(response.status)
            word = word if status in {"", "in_progress", "queued"} else status
        error = response.error or _Error()
        if word == "failed" or error.code or error.message:
            raise error_of_event(self.settings, self.model, Failure(error.message or "", error.code or ""))
        details = response.incomplete_details or _IncompleteDetails()
        self.finish = details.reason or "max_output_tokens" if word == "incomplete" else word
        self.is_done = True

    def _end_thinking(self) -> Iterator[ProviderEvent]:
        if self._is_thinking:
            self._is_thinking = False
            yield ThinkingEnded(wire=WIRE)


def _usage(counts: object) -> Usage:
    """OpenAI counts cached tokens inside the input's, and reasoning inside the output's; our cached ones are apart."""
    read = token_count(counts, "input_tokens_details", "cached_tokens") or 0
    written = token_count(counts, "input_tokens_details", "cache_write_tokens") or 0
    thinking = token_count(counts, "output_tokens_details", "reasoning_tokens") or 0
    fresh = max(0, (token_count(counts, "input_tokens") or 0) - read - written)
    return Usage(fresh, token_count(counts, "output_tokens") or 0, read, written, thinking)
