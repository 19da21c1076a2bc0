"""`ProviderRequest` -> the body of a Chat Completions request.

Owns: the format, and the differences between OpenAI itself and the servers that speak its language. Pure.

`messages` is the last key and grows at its end only, so the body up to the last message of the history is a prefix of
the next request's (caches of OpenAI, DeepSeek, vLLM and llama-server match prefixes). `volatile` is joined to the last
message rather than sent as its own: chat templates of many local models refuse two messages of one role in a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from pattern_acp.config.settings import Quirks
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Role,
    ThinkingPart,
    ToolResultPart,
)
from pattern_acp.providers.answer_limit import answer_limit
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.encoded_history import EncodedHistory
from pattern_acp.providers.history import is_own_thinking, shown_parts, unseen_image
from pattern_acp.providers.wire_json import arguments_text, sorted_schema, to_bytes

WireMessage: TypeAlias = dict[str, Json]


def encode_body(
    request: ProviderRequest,
    facts: ModelFacts,
    provider: str,
    *,
    is_openai: bool,
    quirks: Quirks | None = None,
    history: EncodedHistory | None = None,
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation."""
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
    body["messages"] = _messages(request, facts, provider, history)
    return to_bytes(body)


def _effort(request: ProviderRequest, facts: ModelFacts) -> str:
    traits = facts.traits
    if not traits.takes_effort or traits.fixed_effort or request.thought_level is ThoughtLevel.DEFAULT:
        return ""
    return traits.off_effort if request.thought_level is ThoughtLevel.OFF else request.thought_level.value


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
    return [*system, *encoded.settled, *last]


def _encoded(messages: Sequence[Message], model: str, facts: ModelFacts, provider: str) -> list[WireMessage]:
    encoded: list[WireMessage] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            encoded += _assistant(message, model, facts, provider)
        elif message.role is Role.TOOL:
            encoded += _results(message, facts)
        else:
            _append_user(encoded, shown_parts(message.parts, facts.info, _text, _image))
    return encoded


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
        and facts.traits.echoes_reasoning
        and is_own_thinking(part, provider, model, "openai")
    )
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
    """A message of the person, joined to one right before it (a prompt that was cancelled before any answer)."""
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
