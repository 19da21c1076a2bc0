"""`ProviderRequest` -> the body of a `generateContent` request.

Owns: the format. Pure.

The signature of the model's reasoning goes back on the part that it came with: the call after it, or a part of its own
where text was. `contents` is the last key and grows at its end only. `volatile` is joined to the last content, to the
text of a result where that is one: a message of the person behind a result would begin a new turn, for which the model
puts its reasoning aside.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, cast

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
from pattern_acp.providers.answer_limit import REASONING_TOKENS, answer_limit
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import ModelFacts, Thinking
from pattern_acp.providers.encoded_history import EncodedHistory
from pattern_acp.providers.history import is_blank, is_own_thinking, resource_text, unseen_image
from pattern_acp.providers.wire_json import arguments_object, to_bytes

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
"""What is nested deeper is an object of any form, as is a definition inside itself."""

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
    """One choice is taken as it is; the choice null says that the value may be left empty."""
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
"""What Google's guide gives for calls that another model made: newer models refuse a call without a signature."""

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
    if kind is Thinking.NONE or level is ThoughtLevel.DEFAULT:
        return {}
    if level is ThoughtLevel.OFF:
        return {"thinkingBudget": 0} if kind is Thinking.BUDGET else {}
    if facts.traits.thinks_by_level:
        return {"thinkingLevel": level.value.upper(), "includeThoughts": True}
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
    return [*encoded.settled, *last]


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
                # Of parallel calls only the first has one.
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
