"""The wire of OpenAI's Responses: requests to JSON, and its stream to our events.

Owns: addresses, headers and bodies. Must not know: how HTTP is carried out.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct, field

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
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
    ToolCallEnded,
    ToolCallFragment,
    ToolSpec,
    UsageKnown,
)
from pattern_acp.providers.catalogue import ModelFacts, answer_limit, cost_of, effort_word
from pattern_acp.providers.endpoints import HttpRequest, endpoint, openai_headers
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.finish import finish_word, stop_for
from pattern_acp.providers.history import is_blank, is_own_thinking, shown_parts, unseen_image
from pattern_acp.providers.http_errors import (
    Failure,
    ProviderConnectionError,
    broken_event,
    error_of_event,
    parse_failure,
)
from pattern_acp.providers.wire_json import (
    EncodedHistories,
    EncodedHistory,
    WireItem,
    arguments_object,
    arguments_text,
    decode_event,
    sorted_schema,
    to_bytes,
    token_count,
)


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: object = None
    output: "list[_Item] | None" = None
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
    arguments: str | dict[str, object] | None = None
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
    delta: str | dict[str, object] | None = None
    text: str | None = None
    """The whole text, at its end."""
    refusal: str | None = None
    arguments: str | dict[str, object] | None = None
    input: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    object: str | None = None
    """`response` for an answer that is no stream, and replaces the event."""


class _Open(Struct):
    """An item that has begun. `has_deltas`: parts of it were already passed on."""

    kind: str = ""
    has_deltas: bool = False
    is_begun: bool = False
    is_over: bool = False
    phase: str = ""
    """The model's remark on a message; passed on with its first text."""
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
        if not kind and parsed.object == "response":
            return [*self._ended("response.completed", decode_event(event.data, _Response))]
        if kind == "error" or not kind:
            failure = parse_failure(event.data.encode("utf-8", "replace"))
            raise error_of_event(self.settings, self.model, failure) if failure else broken_event(self.settings)
        if kind in _LAST:
            return [*self._ended(kind, parsed.response or _Response())]
        item = self._items.setdefault(parsed.output_index, _Open())
        return [*self._item_events(kind, parsed, item)]

    def end(self) -> Sequence[ProviderEvent]:
        """See `Decoder.end`."""
        # Only the last event says whether the answer is complete, so `[DONE]` alone is not enough.
        if not self.finish:
            raise ProviderConnectionError(f"The connection to {self.settings.name} ended in the middle of the answer.")
        word = "refusal" if self._has_refused and self.finish == "completed" else self.finish
        has_calls = self._calls > 0
        stop = stop_for(self.settings, self.model, word, has_text=self._has_text, has_calls=has_calls)
        return [*self._end_thinking(), stop]

    def _item_events(self, kind: str, event: _Event, item: _Open) -> Iterator[ProviderEvent]:
        delta = _as_text(event.delta)
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
            case "response.output_text.done" | "response.refusal.done" if not item.has_deltas:
                self._has_refused = self._has_refused or bool(event.refusal)
                yield from self._text(event.text or event.refusal or "", item)
            case "response.function_call_arguments.done" | "response.custom_tool_call_input.done" if (
                not item.has_deltas
            ):
                yield from self._arguments(event.output_index, _as_text(event.arguments or event.input), item)
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
        if item.is_over:
            return
        item.is_over = True
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
                    yield from self._arguments(index, _as_text(ended.arguments or ended.input), item)
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
        if not self._has_text and not self._calls:
            # Some servers stream nothing and send all of the answer with its end.
            for index, item in enumerate(response.output or ()):
                yield from self._item_ended(index, item, self._items.setdefault(index, _Open()))
        details = response.incomplete_details or _IncompleteDetails()
        self.finish = details.reason or "max_output_tokens" if word == "incomplete" else word
        self.is_done = True

    def _end_thinking(self) -> Iterator[ProviderEvent]:
        if self._is_thinking:
            self._is_thinking = False
            yield ThinkingEnded(wire=WIRE)


def _as_text(arguments: str | dict[str, object] | None) -> str:
    """A call's arguments, which some servers also send as an object."""
    return msgspec.json.encode(arguments).decode() if isinstance(arguments, dict) else arguments or ""


def _usage(counts: object) -> Usage:
    """OpenAI counts cached tokens inside the input's, and reasoning inside the output's; our cached ones are apart."""
    read = token_count(counts, "input_tokens_details", "cached_tokens") or 0
    written = token_count(counts, "input_tokens_details", "cache_write_tokens") or 0
    thinking = token_count(counts, "output_tokens_details", "reasoning_tokens") or 0
    fresh = max(0, (token_count(counts, "input_tokens") or 0) - read - written)
    return Usage(fresh, token_count(counts, "output_tokens") or 0, read, written, thinking)


WIRE = "responses"


class ReasoningItem(msgspec.Struct, frozen=True):
    """The returned part of a reasoning item beside its summary: `ThinkingPart.signature` on this wire."""

    id: str
    encrypted_content: str


class MessagePhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Remark of newer models on a message, which they expect back: the other form of a signature."""

    phase: str


def encode_body(
    request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory | None = None
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation."""
    reasoning, history = _reasoning(request, facts), history or EncodedHistory()
    body: dict[str, Json] = {
        "model": request.model,
        "stream": True,
        "store": False,
        "max_output_tokens": answer_limit(
            request, facts, reasons=facts.traits.takes_effort, unasked=not facts.traits.off_effort
        ),
        # A model that does not reason is refused with this.
        **({"include": ["reasoning.encrypted_content"]} if facts.traits.takes_effort else {}),
        **({"reasoning": reasoning} if reasoning else {}),
        **({"prompt_cache_key": request.cache_key} if request.cache_key else {}),
        **({"instructions": request.system} if request.system.strip() else {}),
    }
    if request.tools:
        body["tools"] = history.tools(request.tools, facts, lambda tools: [_tool(tool, facts) for tool in tools])
    body["input"] = _input(request, facts, provider, history)
    return to_bytes(body)


def free_form_arguments(tools: Sequence[ToolSpec], facts: ModelFacts) -> Mapping[str, str]:
    """Tools that the model writes as plain text, with the name of the argument that the text is."""
    if not facts.traits.writes_free_form:
        return {}
    return {tool.name: tool.free_form for tool in tools if tool.free_form}


def _reasoning(request: ProviderRequest, facts: ModelFacts) -> JsonObject:
    if not facts.traits.takes_effort or facts.traits.fixed_effort or request.thought_level is ThoughtLevel.AUTO:
        return {}
    if request.thought_level is ThoughtLevel.OFF:
        return {"effort": facts.traits.off_effort} if facts.traits.off_effort else {}
    return {"effort": effort_word(request.thought_level), "summary": "auto"}


def _tool(tool: ToolSpec, facts: ModelFacts) -> Json:
    if tool.free_form and facts.traits.writes_free_form:
        description = f"{tool.description} {_about_text(tool)}".strip()
        return {"type": "custom", "name": tool.name, "description": description, "format": {"type": "text"}}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": sorted_schema(tool.input_schema),
        # The API's default is true, which wants every argument to be required.
        "strict": False,
    }


def _about_text(tool: ToolSpec) -> str:
    """Describe the text as the schema, which is not sent, does."""
    properties = tool.input_schema.get("properties")
    argument = properties.get(tool.free_form) if isinstance(properties, Mapping) else None
    about = argument.get("description") if isinstance(argument, Mapping) else None
    return about if isinstance(about, str) else ""


def _input(request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory) -> list[Json]:
    free_form = free_form_arguments(request.tools, facts)
    encode = partial(_items, model=request.model, facts=facts, provider=provider, free_form=free_form)
    encoded = history.of(request.messages, (WIRE, request.model, facts, provider, free_form), encode)
    last = encoded.last
    if request.volatile.strip():
        last.append({"type": "message", "role": "user", "content": [_text(request.volatile)]})
    return [*encoded.prefix, *last]


def _items(
    messages: Sequence[Message], model: str, facts: ModelFacts, provider: str, free_form: Mapping[str, str]
) -> list[WireItem]:
    items: list[WireItem] = []
    written: set[str] = set()
    for message in messages:
        if message.role is Role.ASSISTANT:
            items += _assistant(message, model, provider, free_form, written)
        elif message.role is Role.TOOL:
            items += [_result(part, facts, written) for part in message.parts if isinstance(part, ToolResultPart)]
        else:
            content = shown_parts(message.parts, facts.info, _text, _image)
            if content:
                items.append({"type": "message", "role": "user", "content": content})
    return items


def _assistant(
    message: Message, model: str, provider: str, free_form: Mapping[str, str], written: set[str]
) -> Iterator[WireItem]:
    """The items of one answer in their order. Calls that were written as plain text are added to `written`."""
    waiting: list[WireItem] = []
    phase = ""
    for part in message.parts:
        match part:
            case ThinkingPart() if is_own_thinking(part, provider, model, WIRE):
                phase = _phase(part) or phase
                waiting += _reasoning_item(part)
            case TextPart(text) if not is_blank(part):
                yield from waiting
                waiting.clear()
                yield {
                    "type": "message",
                    "role": "assistant",
                    "content": text,
                    **({"phase": phase} if phase else {}),
                }
                phase = ""
            case ToolCallPart():
                yield from waiting
                waiting.clear()
                yield _call(part, free_form, written)
            case _:
                pass


def _phase(part: ThinkingPart) -> str:
    try:
        return msgspec.json.decode(part.signature, type=MessagePhase).phase
    except msgspec.MsgspecError:
        return ""


def _reasoning_item(part: ThinkingPart) -> list[WireItem]:
    try:
        item = msgspec.json.decode(part.signature, type=ReasoningItem)
    except msgspec.MsgspecError:
        # Cut before its end, or from a server without an encrypted form.
        return []
    # The summary is for people, and the text is where `forget` takes a passage out; the model reads the encrypted form.
    summary: list[Json] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return [{"type": "reasoning", "id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}]


def _call(part: ToolCallPart, free_form: Mapping[str, str], written: set[str]) -> WireItem:
    name = free_form.get(part.name, "")
    arguments = arguments_object(part.arguments)
    text = arguments.get(name)
    if name and isinstance(text, str) and len(arguments) == 1:
        written.add(part.call_id)
        return {"type": "custom_tool_call", "call_id": part.call_id, "name": part.name, "input": text}
    return {
        "type": "function_call",
        "call_id": part.call_id,
        "name": part.name,
        "arguments": arguments_text(part.arguments),
    }


def _result(part: ToolResultPart, facts: ModelFacts, written: set[str]) -> WireItem:
    text = f"Error: {part.text}" if part.is_error else part.text
    unseen = [] if facts.info.sees_images else [unseen_image(image) for image in part.images]
    text = "\n".join([text, *unseen])
    kind = "custom_tool_call_output" if part.call_id in written else "function_call_output"
    shown = [] if unseen else [_image(image) for image in part.images]
    output: Json = [*([_text(text)] if text.strip() else []), *shown] if shown else text
    return {"type": kind, "call_id": part.call_id, "output": output}


def _text(text: str) -> Mapping[str, Json]:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart) -> Mapping[str, Json]:
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.media_type};base64,{part.data}"}


class ResponsesWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "responses"),
            {"content-type": "application/json", "accept": "text/event-stream", **openai_headers(self._settings)},
            encode_body(
                request,
                self._describe(request.model),
                self._settings.name,
                self._histories.of(request.cache_key),
            ),
        )

    def new_decoder(self, request: ProviderRequest) -> ResponsesDecoder:
        """See `Wire.new_decoder`."""
        facts = self._describe(request.model)
        return ResponsesDecoder(
            self._settings,
            request.model,
            partial(cost_of, facts.info),
            # The history only grows, so its length is a seed that no other request of the conversation has.
            f"call_{len(request.messages)}",
            free_form_arguments(request.tools, facts),
        )
