"""`ProviderRequest` -> the body of a Messages request.

Owns: the format and where the cache's marks stand. Pure.

The body's bytes come in the order in which Anthropic builds the prompt for its cache: tools, system, messages. Of the
four marks (`cache_control`) it allows, one stands at the end of the tools, one at the end of the system prompt, one at
the end of the last message of the history and one at the end of the person's side before that: the cache looks back at
most 20 blocks from a mark, which a step of a dozen parallel calls exceeds. `volatile` follows the last mark, so its
changes cost nothing but itself.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias, cast

from msgspec import Struct

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
from pattern_acp.providers.answer_limit import answer_limit, reasoning_room
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import ModelFacts, Thinking
from pattern_acp.providers.encoded_history import EncodedHistory, has_earlier_of_person
from pattern_acp.providers.history import is_blank, is_own_thinking, resource_text, unseen_image
from pattern_acp.providers.wire_json import arguments_object, sorted_schema, to_bytes

LEAST_BUDGET = 1_024
"""The smallest budget for thinking that the Messages API takes."""

COUNTED = frozenset({"model", "thinking", "tools", "system", "messages"})
"""What count_tokens of the Messages API takes."""

_MARK: JsonObject = {"type": "ephemeral"}
"""Without `ttl` the cache holds for five minutes."""

_HOUR_MARK: JsonObject = {"type": "ephemeral", "ttl": "1h"}

Block: TypeAlias = dict[str, Json]


class Envelope(Struct, frozen=True):
    """In what a body differs where another than Anthropic serves the models."""

    version: str = ""
    """`anthropic_version`, where it stands in the body."""
    leaves_out: frozenset[str] = frozenset()
    """Fields that are said elsewhere."""


OWN = Envelope()

REASONING = frozenset({"thinking", "redacted_thinking"})
"""Types of blocks."""


def encode_body(
    request: ProviderRequest,
    facts: ModelFacts,
    provider: str,
    history: EncodedHistory | None = None,
    envelope: Envelope = OWN,
) -> bytes:
    """The body, always the same bytes for the same request. `history` is what is encoded of its conversation."""
    body = _body(request, facts, provider, history or EncodedHistory())
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
    if kind is Thinking.NONE or level is ThoughtLevel.DEFAULT:
        return {}, ""
    if level is ThoughtLevel.OFF:
        if kind is Thinking.ADAPTIVE:
            # Models from 5 on think unless told not to.
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
    encoded = history.of(request.messages, form, encode, has_earlier_of_person)
    last = encoded.last
    _mark(last, mark)
    if request.volatile.strip():
        block: Block = {"type": "text", "text": request.volatile}
        if last and last[-1]["role"] == "user":
            _content(last[-1]).append(block)
        else:
            last.append({"role": "user", "content": [block]})
    return [*encoded.settled, *last]


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
    """Mark the end of the history, and of the person's side before it; reasoning blocks take no mark."""
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
