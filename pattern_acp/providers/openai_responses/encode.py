"""`ProviderRequest` -> the body of a Responses request.

Owns: the format. Pure.

Nothing is stored on the server (`store: false`), so reasoning goes back as the encrypted items that the model sent,
each right before what it led to; an item without a follower is refused, and is left out. `input` is the last key and
grows at its end only; `volatile` is its last item, so the body up to there is a prefix of the next request's.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

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
from pattern_acp.providers.answer_limit import answer_limit
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.encoded_history import EncodedHistory, WireItem
from pattern_acp.providers.history import is_blank, is_own_thinking, shown_parts, unseen_image
from pattern_acp.providers.wire_json import arguments_object, arguments_text, sorted_schema, to_bytes

WIRE = "responses"


class ReasoningItem(msgspec.Struct, frozen=True):
    """What goes back of a reasoning item beside its summary: `ThinkingPart.signature` on this wire."""

    id: str
    encrypted_content: str


class MessagePhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What newer models say of a message before its text, and want back: the other form of a signature."""

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
    if not facts.traits.takes_effort or facts.traits.fixed_effort or request.thought_level is ThoughtLevel.DEFAULT:
        return {}
    if request.thought_level is ThoughtLevel.OFF:
        return {"effort": facts.traits.off_effort} if facts.traits.off_effort else {}
    return {"effort": request.thought_level.value, "summary": "auto"}


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
    """What the schema, which is not sent, says of the text."""
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
    return [*encoded.settled, *last]


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
        # Cut before its end, or from a server that gives no encrypted form.
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
