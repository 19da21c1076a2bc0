"""The wire of Gemini's `generateContent`: requests to JSON, and its stream to our events.

Owns: addresses, headers, bodies and the schemas that Gemini accepts. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast
from urllib.parse import quote

import msgspec

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
    ToolCallEnded,
    ToolCallFragment,
    ToolSpec,
    UsageKnown,
)
from pattern_acp.providers.catalogue import REASONING_TOKENS, ModelFacts, Thinking, answer_limit, cost_of
from pattern_acp.providers.endpoints import HttpRequest, endpoint, gemini_headers
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.finish import filter_reason, finish_word, stop_for
from pattern_acp.providers.history import is_blank, is_own_thinking, resource_text, unseen_image
from pattern_acp.providers.http_errors import (
    ContentFilteredError,
    ProviderConnectionError,
    broken_event,
    error_of_event,
    parse_failure,
)
from pattern_acp.providers.wire_json import (
    EncodedHistories,
    EncodedHistory,
    arguments_object,
    decode_event,
    to_bytes,
    token_count,
)


class _FunctionCall(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: dict[str, object] | str | None = None


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
            # The signature of a call comes right before it.
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
        arguments = call.args or {}
        yield ToolCallFragment(
            index, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        )
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
    """Google counts cached tokens inside the prompt's, and reasoning beside the answer's; our output includes both."""
    cached = token_count(counts, "cachedContentTokenCount") or 0
    prompt = (token_count(counts, "promptTokenCount") or 0) + (token_count(counts, "toolUsePromptTokenCount") or 0)
    thinking = token_count(counts, "thoughtsTokenCount") or 0
    output = (token_count(counts, "candidatesTokenCount") or 0) + thinking
    return Usage(max(0, prompt - cached), output, cached, 0, thinking)


_KEPT = (
    "description",
    "format",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "pattern",
    "title",
)
_FORMATS = {"string": ("enum", "date-time"), "integer": ("int32", "int64"), "number": ("float", "double")}
"""Gemini refuses a whole request for a format that it does not know."""

_DEEPEST = 16
"""Depth beyond which everything is an object of any form, as is a definition inside itself."""

_Seen: TypeAlias = frozenset[str]
"""References that the node at hand is inside of."""


def convert_schema(schema: JsonObject) -> JsonObject:
    """The declaration's `parameters`; empty for a tool without arguments, which must have none."""
    converted = _convert(schema, schema, frozenset(), 0)
    return converted if converted.get("properties") else {}


def _convert(node: Json, root: JsonObject, seen: _Seen, depth: int) -> dict[str, Json]:
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return {"type": "object"}
    node, seen = _resolved(node, root, seen)
    node, seen = _merged(node, root, seen)
    kind, is_nullable = _type_of(node)
    converted: dict[str, Json] = {"type": kind} if kind else {}
    if is_nullable:
        converted["nullable"] = True
    converted |= {key: node[key] for key in _KEPT if key in node}
    if converted.get("format") not in _FORMATS.get(kind, ()):
        converted.pop("format", None)
    words = [node["const"]] if "const" in node else _list(node.get("enum"))
    if words and all(isinstance(word, str) for word in words):
        converted |= {"type": "string", "enum": [*words]}
    choices = [
        _convert(choice, root, seen, depth + 1) for choice in _list(node.get("anyOf")) or _list(node.get("oneOf"))
    ]
    _add_choices(converted, choices)
    if kind == "array":
        converted["items"] = _convert(node.get("items") or {"type": "string"}, root, seen, depth + 1)
    properties = _object(node.get("properties"))
    if properties:
        converted["properties"] = {
            name: _convert(properties[name], root, seen, depth + 1) for name in sorted(properties)
        }
        required = [name for name in _list(node.get("required")) if isinstance(name, str) and name in properties]
        converted |= {"required": required} if required else {}
    return converted or {"type": "object"}


def _add_choices(converted: dict[str, Json], choices: list[dict[str, Json]]) -> None:
    """Add the choices: a single one replaces the schema; the choice null makes the value optional."""
    kinds = [choice for choice in choices if choice.get("type") != "null"]
    if len(kinds) < len(choices):
        converted["nullable"] = True
    if len(kinds) == 1:
        converted |= {key: value for key, value in kinds[0].items() if key not in converted}
    elif kinds:
        converted.pop("type", None)
        converted["anyOf"] = [*kinds]


def _resolved(node: JsonObject, root: JsonObject, seen: _Seen) -> tuple[JsonObject, _Seen]:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node, seen
    found: Json = root
    for step in reference.removeprefix("#/").split("/"):
        found = _object(found).get(step.replace("~1", "/").replace("~0", "~"))
    target = _object(found)
    if not target or "$ref" in target or reference in seen:
        return {"type": "object"}, seen
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}, seen | {reference}


def _merged(node: JsonObject, root: JsonObject, seen: _Seen) -> tuple[JsonObject, _Seen]:
    """A node with its `allOf` laid together."""
    merged: dict[str, Json] = {key: value for key, value in node.items() if key != "allOf"}
    for part in _list(node.get("allOf")):
        resolved, seen = _resolved(_object(part), root, seen)
        for key, value in resolved.items():
            known = merged.get(key)
            if isinstance(known, Mapping):
                merged[key] = {**known, **_object(value)}
            elif key == "required":
                merged[key] = [*_list(known), *(name for name in _list(value) if name not in _list(known))]
            else:
                merged.setdefault(key, value)
    return merged, seen


def _type_of(node: JsonObject) -> tuple[str, bool]:
    """The type, empty when the node names none, and whether null is one of several."""
    kind = node.get("type")
    if isinstance(kind, str):
        return kind, node.get("nullable") is True
    kinds = _list(kind)
    named = [str(item) for item in kinds if item != "null"]
    return (named[0] if named else "object" if "properties" in node else ""), "null" in kinds


def _list(value: Json) -> Sequence[Json]:
    return () if isinstance(value, str) or not isinstance(value, Sequence) else value


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


WIRE = "gemini"

UNSIGNED = "skip_thought_signature_validator"
"""Signature that Google's guide prescribes for calls of another model: newer models refuse a call without one."""

Block: TypeAlias = dict[str, Json]


def encode_body(
    request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory | None = None
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation."""
    thinking, history = _thinking(request.thought_level, facts), history or EncodedHistory()
    reasons = facts.traits.thinking is not Thinking.NONE
    config: JsonObject = {
        "maxOutputTokens": answer_limit(
            request, facts, reasons=reasons, unasked=facts.traits.thinking is Thinking.ALWAYS
        ),
        **({"thinkingConfig": thinking} if thinking else {}),
    }
    body: dict[str, Json] = {"generationConfig": config}
    if request.system.strip():
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declared = history.tools(request.tools, None, lambda tools: [_declaration(tool) for tool in tools])
        body["tools"] = [{"functionDeclarations": declared}]
    body["contents"] = _contents(request, facts, provider, history)
    return to_bytes(body)


def _thinking(level: ThoughtLevel, facts: ModelFacts) -> JsonObject:
    kind = facts.traits.thinking
    if kind is Thinking.NONE or level is ThoughtLevel.AUTO:
        return {}
    if level is ThoughtLevel.OFF:
        return {"thinkingBudget": 0} if kind is Thinking.BUDGET else {}
    if facts.traits.thinks_by_level:
        most = min(level, ThoughtLevel.HIGH, key=tuple(ThoughtLevel).index)
        return {"thinkingLevel": most.value.upper(), "includeThoughts": True}
    return {"thinkingBudget": REASONING_TOKENS[level], "includeThoughts": True}


def _declaration(tool: ToolSpec) -> Json:
    parameters = convert_schema(tool.input_schema)
    return {
        "name": tool.name,
        "description": tool.description,
        **({"parameters": parameters} if parameters else {}),
    }


def _contents(request: ProviderRequest, facts: ModelFacts, provider: str, history: EncodedHistory) -> list[Json]:
    encode = partial(_encoded, model=request.model, facts=facts, provider=provider)
    encoded = history.of(request.messages, (WIRE, request.model, facts, provider), encode)
    last = encoded.last
    if request.volatile.strip():
        _add_volatile(last, request.volatile)
    return [*encoded.prefix, *last]


def _encoded(messages: Sequence[Message], model: str, facts: ModelFacts, provider: str) -> list[Block]:
    contents: list[Block] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.call_id: call.name for call in message.tool_calls}
        if message.role is Role.ASSISTANT:
            role, parts = "model", [*_assistant(message, model, facts, provider)]
        elif message.role is Role.TOOL:
            role, parts = "user", [*_results(message, names, facts)]
        else:
            role, parts = "user", [*_person(message.parts, facts)]
        if parts:
            contents.append({"role": role, "parts": [*parts]})
    return contents


def _add_volatile(contents: list[Block], volatile: str) -> None:
    is_of_person = contents and contents[-1]["role"] == "user"
    last = cast("list[Block]", contents[-1]["parts"]) if is_of_person else []
    result = next((part["functionResponse"] for part in reversed(last) if "functionResponse" in part), None)
    if isinstance(result, dict) and isinstance(response := result.get("response"), dict):
        key = next(iter(response))
        response[key] = f"{response[key]}\n\n{volatile}"
    elif last:
        last.append({"text": volatile})
    else:
        contents.append({"role": "user", "parts": [{"text": volatile}]})


def _assistant(message: Message, model: str, facts: ModelFacts, provider: str) -> Iterator[Block]:
    if not message.text.strip() and not message.tool_calls:
        return
    signature = ""
    is_signed = not facts.traits.thinks_by_level
    for part in message.parts:
        match part:
            case ThinkingPart() if is_own_thinking(part, provider, model, WIRE):
                signature = part.signature or signature
            case ToolCallPart(call_id, name, arguments):
                call: Block = {"functionCall": {"id": call_id, "name": name, "args": arguments_object(arguments)}}
                # Only the first of parallel calls has one.
                kept = signature or ("" if is_signed else UNSIGNED)
                yield {**call, **({"thoughtSignature": kept} if kept else {})}
                signature, is_signed = "", True
            case TextPart(text) if not is_blank(part):
                yield from _signed_text(signature)
                signature = ""
                yield {"text": text}
            case _:
                pass
    yield from _signed_text(signature)


def _signed_text(signature: str) -> Iterator[Block]:
    if signature:
        yield {"text": "", "thoughtSignature": signature}


def _results(message: Message, names: Mapping[str, str], facts: ModelFacts) -> Iterator[Block]:
    """One part a result. Newer models take images inside it; for the others they follow all results."""
    after: list[Block] = []
    for part in message.parts:
        if not isinstance(part, ToolResultPart):
            continue
        unseen = [] if facts.info.sees_images else [unseen_image(image) for image in part.images]
        images = [] if unseen else [_image(image) for image in part.images]
        inside: list[Json] = [*images] if facts.traits.thinks_by_level else []
        after += [] if inside else images
        response: Block = {"error" if part.is_error else "output": "\n".join([part.text, *unseen])}
        yield {
            "functionResponse": {
                "id": part.call_id,
                "name": names.get(part.call_id, "unnamed"),
                "response": response,
                **({"parts": inside} if inside else {}),
            }
        }
    yield from after


def _person(parts: Sequence[Part], facts: ModelFacts) -> Iterator[Block]:
    for part in parts:
        match part:
            case TextPart(text) if not is_blank(part):
                yield {"text": text}
            case ResourcePart():
                yield {"text": resource_text(part)}
            case ImagePart():
                yield _image(part) if facts.info.sees_images else {"text": unseen_image(part)}
            case TextPart() | ThinkingPart() | ToolCallPart() | ToolResultPart():
                pass


def _image(part: ImagePart) -> Block:
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}}


class GeminiWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        model = quote(request.model.removeprefix("models/"), safe="")
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, f"models/{model}:streamGenerateContent?alt=sse"),
            {"content-type": "application/json", "accept": "text/event-stream", **gemini_headers(self._settings)},
            encode_body(
                request,
                self._describe(request.model),
                self._settings.name,
                self._histories.of(request.cache_key),
            ),
        )

    def new_decoder(self, request: ProviderRequest) -> GeminiDecoder:
        """See `Wire.new_decoder`."""
        price = partial(cost_of, self._describe(request.model).info)
        # The history only grows, so its length is a seed that no other request of the conversation has.
        return GeminiDecoder(self._settings, request.model, price, f"call_{len(request.messages)}")
