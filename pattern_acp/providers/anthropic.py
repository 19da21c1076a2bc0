"""The wire of Anthropic's Messages: requests to JSON, and its stream to our events.

Owns: addresses, headers and bodies for Anthropic, Vertex AI and Amazon Bedrock. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ThoughtLevel,
    ToolCallBegun,
    ToolCallFragment,
    ToolSpec,
    UsageKnown,
)
from pattern_acp.providers.catalogue import (
    CONFIGURED_PRICES,
    ModelFacts,
    Thinking,
    answer_limit,
    cost_of,
    reasoning_room,
)
from pattern_acp.providers.endpoints import HttpRequest, anthropic_headers, endpoint, openai_headers
from pattern_acp.providers.event_streams import EventStreamParser, SseEvent
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.history import begun_answer, is_blank, is_own_thinking, resource_text, unseen_image
from pattern_acp.providers.http_errors import (
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderRequestError,
    broken_event,
    error_of_event,
    parse_failure,
)
from pattern_acp.providers.wire_json import (
    EncodedHistories,
    EncodedHistory,
    arguments_object,
    decode_event,
    has_earlier_user_message,
    sorted_schema,
    to_bytes,
    token_count,
)

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""Counters in the order of `Usage`."""


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


class _Whole(msgspec.Struct):
    """An answer that is no stream."""

    type: str | None = None
    content: list[_Block] | None = None
    stop_reason: object = None
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
            if parsed.type == "message":
                return self._whole(decode_event(event.data, _Whole))
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

    def _whole(self, event: _Whole) -> Sequence[ProviderEvent]:
        events: list[ProviderEvent] = []
        for index, block in enumerate(event.content or ()):
            events += [*self._block_started(index, block), *self._block_ended(index)]
        self.finish, self.is_done = finish_word(event.stop_reason), True
        return [*events, *self._count(event.usage)]

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


LEAST_BUDGET = 1_024
"""The smallest budget for thinking that the Messages API takes."""

COUNTED = frozenset({"model", "thinking", "tools", "system", "messages"})
"""Fields that count_tokens of the Messages API accepts."""

_MARK: JsonObject = {"type": "ephemeral"}
"""Cache mark; without `ttl` the cache lasts five minutes."""

_HOUR_MARK: JsonObject = {"type": "ephemeral", "ttl": "1h"}

Block: TypeAlias = dict[str, Json]


class Envelope(Struct, frozen=True):
    """Differences of a body where another than Anthropic serves the models."""

    version: str = ""
    """Value of `anthropic_version`, if it goes into the body."""
    leaves_out: frozenset[str] = frozenset()
    """Fields that go elsewhere."""


OWN = Envelope()

REASONING = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks."""


def encode_body(
    request: ProviderRequest,
    facts: ModelFacts,
    provider: str,
    history: EncodedHistory | None = None,
    envelope: Envelope = OWN,
    begun: str = "",
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation.

    `begun` is the answer that the model continues with, behind the conversation.
    """
    body = _body(request, facts, provider, history or EncodedHistory())
    if begun:
        # The vendor refuses blanks at the end.
        last: Block = {"role": "assistant", "content": [{"type": "text", "text": begun.rstrip()}]}
        body["messages"] = [*cast("list[Json]", body["messages"]), last]
    left = {key: value for key, value in body.items() if key not in envelope.leaves_out}
    return to_bytes({**_version(envelope), **left})


def encode_count_body(
    request: ProviderRequest,
    facts: ModelFacts,
    provider: str,
    history: EncodedHistory | None = None,
    envelope: Envelope = OWN,
) -> bytes:
    """The body that asks how many tokens the request has: all of it that is part of the prompt."""
    body = _body(request, facts, provider, history or EncodedHistory())
    return to_bytes({**_version(envelope), **{key: value for key, value in body.items() if key in COUNTED}})


def _version(envelope: Envelope) -> Block:
    return {"anthropic_version": envelope.version} if envelope.version else {}


def _body(request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory) -> Block:
    kind = facts.traits.thinking
    thinking, effort = _thinking(request.thought_level, kind, reasoning_room(facts.info, request.thought_level))
    mark = _HOUR_MARK if request.cache_ttl == "1h" else _MARK
    body: dict[str, Json] = {
        "model": request.model,
        "max_tokens": answer_limit(request, facts, reasons=kind is not Thinking.NONE, unasked=kind is Thinking.ALWAYS),
        "stream": True,
        **({"thinking": thinking} if thinking else {}),
        **({"output_config": {"effort": effort}} if effort else {}),
    }
    if request.tools:
        body["tools"] = history.tools(request.tools, mark, partial(_tools, mark=mark))
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": mark}]
    body["messages"] = _messages(request, facts, provider, mark, history)
    return body


def _thinking(level: ThoughtLevel, kind: Thinking, tokens: int) -> tuple[JsonObject, str]:
    """The `thinking` object and the effort word; `display` since newer models hide their reasoning otherwise."""
    if kind is Thinking.NONE or level is ThoughtLevel.AUTO:
        return {}, ""
    if level is ThoughtLevel.OFF:
        if kind is Thinking.ADAPTIVE:
            # Models from 5 on think unless asked not to.
            return {"type": "disabled"}, ""
        return ({"type": "adaptive", "display": "summarized"}, "") if kind is Thinking.ALWAYS else ({}, "")
    if kind is Thinking.BUDGET:
        return {"type": "enabled", "budget_tokens": max(tokens, LEAST_BUDGET)}, ""
    return {"type": "adaptive", "display": "summarized"}, level.value


def _tools(tools: Sequence[ToolSpec], mark: JsonObject) -> list[Json]:
    encoded: list[Block] = [
        {"name": tool.name, "description": tool.description, "input_schema": sorted_schema(tool.input_schema)}
        for tool in tools
    ]
    encoded[-1]["cache_control"] = mark
    return [*encoded]


def _messages(
    request: ProviderRequest, facts: ModelFacts, provider: str, mark: JsonObject, history: EncodedHistory
) -> list[Json]:
    encode = partial(_encoded, model=request.model, facts=facts, provider=provider)
    form = ("anthropic", request.model, facts, provider)
    encoded = history.of(request.messages, form, encode, has_earlier_user_message)
    last = encoded.last
    _mark(last, mark)
    if request.volatile.strip():
        block: Block = {"type": "text", "text": request.volatile}
        if last and last[-1]["role"] == "user":
            _content(last[-1]).append(block)
        else:
            last.append({"role": "user", "content": [block]})
    return [*encoded.prefix, *last]


def _encoded(messages: Sequence[Message], model: str, facts: ModelFacts, provider: str) -> list[Block]:
    encoded: list[Block] = []
    for message in messages:
        blocks = [block for part in message.parts for block in _blocks(part, model, facts, provider)]
        # An answer that broke off may be left with reasoning at its end, for which the vendor refuses every request.
        while message.role is Role.ASSISTANT and blocks and blocks[-1]["type"] in REASONING:
            blocks.pop()
        if blocks:
            encoded.append({"role": "assistant" if message.role is Role.ASSISTANT else "user", "content": blocks})
    return encoded


def _content(message: Block) -> list[Block]:
    return cast("list[Block]", message["content"])


def _mark(encoded: Sequence[Block], mark: JsonObject) -> None:
    """Mark the end of the history, and of the user's side before it; reasoning blocks take no mark."""
    ends = [len(encoded) - 1] if encoded else []
    ends += [at for at in range(len(encoded) - 2, -1, -1) if encoded[at]["role"] == "user"][:1]
    for at in ends:
        block = _content(encoded[at])[-1]
        if block["type"] not in REASONING:
            block["cache_control"] = mark


def _blocks(part: Part, model: str, facts: ModelFacts, provider: str) -> Iterator[Block]:
    match part:
        case TextPart():
            if not is_blank(part):
                yield {"type": "text", "text": part.text}
        case ToolCallPart():
            arguments = arguments_object(part.arguments)
            yield {"type": "tool_use", "id": part.call_id, "name": part.name, "input": arguments}
        case ToolResultPart():
            yield _result(part, facts)
        case ImagePart():
            yield _image(part, facts)
        case ResourcePart():
            yield {"type": "text", "text": resource_text(part)}
        case ThinkingPart():
            yield from _thinking_blocks(part, model, provider)


def _image(part: ImagePart, facts: ModelFacts) -> Block:
    if not facts.info.sees_images:
        return {"type": "text", "text": unseen_image(part)}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _thinking_blocks(part: ThinkingPart, model: str, provider: str) -> Iterator[Block]:
    """Own reasoning byte for byte; reasoning that was cut before its signature, or is another's, is left out."""
    if not is_own_thinking(part, provider, model, "anthropic"):
        return
    if part.redacted:
        yield {"type": "redacted_thinking", "data": part.redacted}
    elif part.signature:
        yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _result(part: ToolResultPart, facts: ModelFacts) -> Block:
    content: list[Json] = [{"type": "text", "text": part.text}] if part.text.strip() else []
    content += [_image(image, facts) for image in part.images]
    return {
        "type": "tool_result",
        "tool_use_id": part.call_id,
        **({"content": content} if content else {}),
        **({"is_error": True} if part.is_error else {}),
    }


class AnthropicWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            **anthropic_headers(self._settings),
        }
        return self.post(request, endpoint(self._settings, "messages"), headers)

    def post(
        self, request: ProviderRequest, url: str, headers: Mapping[str, str], envelope: Envelope = OWN
    ) -> HttpRequest:
        """The request as HTTP, in the envelope of the one who serves the models."""
        facts, name = self._describe(request.model), self._settings.name
        encode = partial(
            encode_body, facts=facts, provider=name, history=self._histories.of(request.cache_key), envelope=envelope
        )
        plain = HttpRequest(name, url, headers, encode(request))
        thinks = _thinking(request.thought_level, facts.traits.thinking, 0)[0]
        if not facts.traits.continues_answers or thinks:
            return plain
        count, begun = begun_answer(request.messages)
        if not begun:
            return plain
        # Apart from the history, whose last messages would be settled otherwise.
        body = encode(replace(request, messages=request.messages[:count]), history=None, begun=begun)
        return HttpRequest(name, url, headers, body, begun, plain)

    def encode_count(self, request: ProviderRequest) -> HttpRequest:
        """See `CountingWire.encode_count`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "messages/count_tokens"),
            {"content-type": "application/json", **anthropic_headers(self._settings)},
            self.count_body(request),
        )

    def count_body(self, request: ProviderRequest, envelope: Envelope = OWN) -> bytes:
        """The body of a question for the tokens of a request."""
        history = self._histories.of(request.cache_key)
        return encode_count_body(request, self._describe(request.model), self._settings.name, history, envelope)

    def read_count(self, body: bytes) -> int:
        """See `CountingWire.read_count`."""
        try:
            count = token_count(msgspec.json.decode(body), "input_tokens")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            count = None
        if count is None:
            raise ProviderProtocolError(f"{self._settings.name} gave no count of tokens.")
        return count

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        info = self._describe(request.model).info
        if request.cache_ttl == "1h" and info.prices != CONFIGURED_PRICES:
            # Writing for an hour costs twice the input, and five quarters of it otherwise (Anthropic's price page).
            info = replace(info, cache_write_price=2 * info.input_price)
        price = partial(cost_of, info)
        return AnthropicDecoder(self._settings, request.model, price)


VERTEX_ENVELOPE = Envelope("vertex-2023-10-16", frozenset({"model"}))
"""The one version that Vertex takes."""


class VertexWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._own = AnthropicWire(settings, describe)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`.

        Raises:
            ProviderRequestError: no project is known.
        """
        url = self._address(f"{quote(request.model, safe='@')}:streamRawPredict")
        return self._own.post(request, url, {**self._headers(), "accept": "text/event-stream"}, VERTEX_ENVELOPE)

    def encode_count(self, request: ProviderRequest) -> HttpRequest:
        """See `CountingWire.encode_count`. It names the model in its body. Raises like `encode`."""
        return HttpRequest(
            self._settings.name,
            self._address("count-tokens:rawPredict"),
            self._headers(),
            self._own.count_body(request, VERTEX_ENVELOPE),
        )

    def read_count(self, body: bytes) -> int:
        """See `CountingWire.read_count`."""
        return self._own.read_count(body)

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        return self._own.new_decoder(request)

    def _address(self, what: str) -> str:
        place = self._settings
        if not place.project:
            raise ProviderRequestError(
                f"{place.name} needs a project at Google and its credentials name none; set project in "
                f"[providers.{place.name}] of config.toml, or GOOGLE_CLOUD_PROJECT."
            )
        path = f"projects/{quote(place.project, safe=':')}/locations/{place.region}/publishers/anthropic/models"
        return endpoint(place, f"{path}/{what}")

    def _headers(self) -> Mapping[str, str]:
        # Google takes its access tokens as OpenAI takes its keys (RFC 6750).
        return {"content-type": "application/json", **openai_headers(self._settings)}


BEDROCK_ENVELOPE = Envelope("bedrock-2023-05-31", frozenset({"model", "stream"}))
"""The one version that Bedrock takes."""


class BedrockWire:
    """See `streaming.Wire` and `streaming.FramedWire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._own = AnthropicWire(settings, describe)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        # The id of an access key is no key to send: it only names the signer of the request.
        who = self._settings.headers if self._settings.signs else openai_headers(self._settings)
        url = endpoint(self._settings, f"model/{quote(request.model, safe=':')}/invoke-with-response-stream")
        headers = {"content-type": "application/json", "accept": "application/vnd.amazon.eventstream", **who}
        return self._own.post(request, url, headers, BEDROCK_ENVELOPE)

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        return self._own.new_decoder(request)

    def new_parser(self) -> EventStreamParser:
        """See `FramedWire.new_parser`."""
        return EventStreamParser()
