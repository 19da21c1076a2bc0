"""The wire of Chat Completions: requests to JSON, and its stream to our events.

Owns: addresses, headers and bodies for OpenAI and servers that speak like it. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Quirks
from pattern_acp.domain.canonical import Json, sha256_hex
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Role,
    ThinkingPart,
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
from pattern_acp.providers.catalogue import ModelFacts, answer_limit, cost_of, effort_word
from pattern_acp.providers.endpoints import HttpRequest, endpoint, is_official, openai_headers, takes_reasoning
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.history import begun_answer, is_own_thinking, shown_parts, unseen_image
from pattern_acp.providers.http_errors import (
    Failure,
    ProviderConnectionError,
    ProviderOverloadedError,
    broken_event,
    error_of_event,
    parse_failure,
)
from pattern_acp.providers.wire_json import (
    EncodedHistories,
    EncodedHistory,
    arguments_text,
    decode_event,
    sorted_schema,
    to_bytes,
    token_count,
)


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
        """Number of calls that have begun."""
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
                # One id for several whole calls is a server's mistake; their indexes distinguish them.
                is_other = delta.index is not None and same.wire_index is not None and delta.index != same.wire_index
                return None if is_other else same
            unnamed = next((call for call in newest_first if call.wire_index == delta.index and not call.wire_id), None)
            if unnamed is not None and not unnamed.is_begun:
                unnamed.wire_id = delta.id
                return unnamed
            return None
        if delta.index is not None:
            return next((call for call in newest_first if call.wire_index == delta.index), None)
        # Neither id nor index: a name starts a call, anything else continues with the last one.
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
    function_call: FunctionDelta | None = None
    """The form before there were several calls."""


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """Servers that do not stream put the whole answer here."""
    finish_reason: object = None
    error: object = None
    """OpenRouter's report that the provider behind it failed in the middle."""


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
        # Many servers close without [DONE]; a finish reason is as good.
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
        old = [CallDelta(function=delta.function_call)] if delta.function_call is not None else []
        for call in (*(delta.tool_calls or ()), *old):
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


WireMessage: TypeAlias = dict[str, Json]

DEEPSEEK_BETA = "https://api.deepseek.com/beta/chat/completions"
"""The address at which DeepSeek continues with an answer."""

MISTRALS_ID = 9
"""Characters of an id of a call, letters and digits only, that Mistral and the templates of its models take."""

MISTRALS_ANSWER = "Understood."
"""Stands between results and a prompt where a call was cut or has images: these templates take no prompt there."""


def encode_body(
    request: ProviderRequest,
    facts: ModelFacts,
    provider: str,
    *,
    is_openai: bool,
    quirks: Quirks | None = None,
    history: EncodedHistory | None = None,
    begun: tuple[int, str] = (0, ""),
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation.

    `begun` is the answer that the server continues with, behind so many messages.
    """
    quirks, history = quirks or Quirks(), history or EncodedHistory()
    effort = _effort(request, facts)
    traits = facts.traits
    limit = answer_limit(request, facts, reasons=traits.takes_effort, unasked=not traits.off_effort)
    body: dict[str, Json] = {
        "model": request.model,
        "stream": True,
        **({"stream_options": {"include_usage": True}} if quirks.usage_on_request else {}),
        # OpenAI refuses the old name for its newer models; most other servers know only the old one.
        "max_completion_tokens" if is_openai else quirks.answer_limit: limit,
        **({"reasoning_effort": effort} if effort else {}),
        **({"prompt_cache_key": request.cache_key} if is_openai and request.cache_key else {}),
    }
    if request.tools:
        body["tools"] = history.tools(request.tools, None, lambda tools: [_tool(tool) for tool in tools])
    count, text = begun
    messages = _messages(
        replace(request, messages=request.messages[:count]) if text else request, facts, provider, history
    )
    if text:
        last: WireMessage = {"role": "assistant", "content": text.rstrip()}
        if quirks.continues_answers == "continue_final_message":
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        else:
            last[quirks.continues_answers] = True
        messages.append(last)
    body["messages"] = messages
    return to_bytes(body)


def _effort(request: ProviderRequest, facts: ModelFacts) -> str:
    traits = facts.traits
    if not traits.takes_effort or traits.fixed_effort or request.thought_level is ThoughtLevel.AUTO:
        return ""
    return traits.off_effort if request.thought_level is ThoughtLevel.OFF else effort_word(request.thought_level)


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": sorted_schema(tool.input_schema)}
    return {"type": "function", "function": function}


def _messages(request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory) -> list[Json]:
    system: list[Json] = [{"role": "system", "content": request.system}] if request.system.strip() else []
    encode = partial(_encoded, model=request.model, facts=facts, provider=provider)
    encoded = history.of(request.messages, ("openai", request.model, facts, provider), encode)
    last = encoded.last
    if request.volatile.strip():
        _append_volatile(last, request.volatile)
    return [*system, *encoded.prefix, *last]


def _encoded(messages: Sequence[Message], model: str, facts: ModelFacts, provider: str) -> list[WireMessage]:
    encoded: list[WireMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            encoded += _assistant(message, model, facts, provider)
        elif message.role is Role.TOOL:
            encoded += _results(message, facts)
        else:
            _append_user(encoded, shown_parts(message.parts, facts.info, _text, _image))
    return [*_in_mistrals_form(encoded)] if facts.traits.is_mistral else encoded


def _in_mistrals_form(messages: Sequence[WireMessage]) -> Iterator[WireMessage]:
    """The messages with ids of nine letters and digits, and a short answer between results and a prompt."""
    role: Json = ""
    for message in messages:
        if role == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": MISTRALS_ANSWER}
        role = message["role"]
        calls = message.get("tool_calls")
        sent = dict(message)
        if isinstance(calls, Sequence):
            sent["tool_calls"] = [{**call, "id": _short_id(call["id"])} for call in calls if isinstance(call, Mapping)]
        if "tool_call_id" in message:
            sent["tool_call_id"] = _short_id(message["tool_call_id"])
        yield sent


def _short_id(call_id: Json) -> str:
    """The id itself if it has the form, else one that is made of it and always the same."""
    plain = str(call_id)
    is_short = len(plain) == MISTRALS_ID and plain.isascii() and plain.isalnum()
    return plain if is_short else sha256_hex(plain.encode())[:MISTRALS_ID]


def _assistant(message: Message, model: str, facts: ModelFacts, provider: str) -> Iterator[WireMessage]:
    calls: list[Json] = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
        }
        for call in message.tool_calls
    ]
    text = message.text if message.text.strip() else ""
    if not text and not calls:
        return
    reasoning = "".join(
        part.text
        for part in message.parts
        if isinstance(part, ThinkingPart)
        and (facts.traits.echoes_reasoning or facts.traits.thinks_in_text)
        and is_own_thinking(part, provider, model, "openai")
    )
    if facts.traits.thinks_in_text and reasoning:
        text, reasoning = f"<think>\n{reasoning}\n</think>\n\n{text}", ""
    if facts.traits.echoes_reasoning and calls and not reasoning:
        # A call of another model, or without a thought; an empty text counts as missing at some of these servers.
        reasoning = " "
    yield {
        "role": "assistant",
        # Some servers want the key even when there are only calls; null is what OpenAI's own format has there.
        "content": text or None,
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
    }


def _results(message: Message, facts: ModelFacts) -> Iterator[WireMessage]:
    """One message a result. Tool messages carry text only, so images follow in one message of the user's role."""
    images: list[ImagePart] = []
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            unseen = [] if facts.info.sees_images else [unseen_image(image) for image in part.images]
            images += [] if unseen else part.images
            text = f"Error: {part.text}" if part.is_error else part.text
            yield {"role": "tool", "tool_call_id": part.call_id, "content": "\n".join([text, *unseen])}
    if images:
        yield {"role": "user", "content": [_text("Images from the tool results above:"), *map(_image, images)]}


def _append_user(encoded: list[WireMessage], content: list[Json]) -> None:
    """Append a message of the user, joined to one right before it (a prompt that was cancelled before any answer)."""
    if not content:
        return
    texts = [part["text"] for part in content if isinstance(part, Mapping) and part["type"] == "text"]
    value: Json = content if len(texts) < len(content) else "\n\n".join(str(text) for text in texts)
    if encoded and encoded[-1]["role"] == "user":
        encoded[-1]["content"] = _joined(encoded[-1]["content"], value)
    else:
        encoded.append({"role": "user", "content": value})


def _append_volatile(encoded: list[WireMessage], volatile: str) -> None:
    if encoded and encoded[-1]["role"] in {"user", "tool"}:
        encoded[-1]["content"] = _joined(encoded[-1]["content"], volatile)
    else:
        encoded.append({"role": "user", "content": volatile})


def _joined(first: Json, second: Json) -> Json:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Json) -> Sequence[Json]:
    if isinstance(content, str):
        return [_text(content)]
    return content if isinstance(content, Sequence) else []


def _text(text: str) -> Mapping[str, Json]:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Mapping[str, Json]:
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


class OpenAIWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()
        self._is_openai = is_official(settings)
        self._takes_reasoning = takes_reasoning(settings)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        facts, settings = self._describe(request.model), self._settings
        if not self._takes_reasoning:
            facts = replace(facts, traits=replace(facts.traits, echoes_reasoning=False))
        headers = {"content-type": "application/json", "accept": "text/event-stream", **openai_headers(settings)}
        encode = partial(
            encode_body,
            request,
            facts,
            settings.name,
            is_openai=self._is_openai,
            quirks=settings.quirks,
            history=self._histories.of(request.cache_key),
        )
        plain = HttpRequest(settings.name, endpoint(settings, "chat/completions"), headers, encode())
        begun = begun_answer(request.messages) if settings.quirks.continues_answers else (0, "")
        if not begun[1]:
            return plain
        # DeepSeek takes such requests at another address only.
        url = DEEPSEEK_BETA if urlsplit(plain.url).hostname == urlsplit(DEEPSEEK_BETA).hostname else plain.url
        # Apart from the history, whose last messages would be settled otherwise.
        return HttpRequest(settings.name, url, headers, encode(history=None, begun=begun), begun[1], plain)

    def new_decoder(self, request: ProviderRequest) -> OpenAIDecoder:
        """See `Wire.new_decoder`."""
        price = partial(cost_of, self._describe(request.model).info)
        # The history only grows, so its length is a seed that no other request of the conversation has.
        return OpenAIDecoder(self._settings, request.model, price, f"call_{len(request.messages)}")
