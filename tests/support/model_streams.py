"""Scripted answers in the vendors' own stream formats.

Owns: rendering a turn of `providers.scripted` as the frames that Anthropic's Messages and OpenAI's Chat Completions
send, and what all renderings share (newer_model_streams.py has the other wires). The vendors' SDKs read these in our
tests, which is what makes the fake believable. Must not know: sockets.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.providers.scripted import Pause, ScriptStep, ScriptUsage

Frame = bytes | Pause
"""Bytes to send as one piece, or a pause."""

CREATED_AT = 1_700_000_000
"""A fixed time, so that the same script is the same bytes."""


@dataclass(slots=True)
class CallIds:
    """Counts calls, so that ids are unique in one server and the same in every run."""

    count: int = field(default=0)

    def next(self, prefix: str) -> str:
        """The next id, such as `toolu_0001`."""
        self.count += 1
        return f"{prefix}_{self.count:04d}"


def anthropic_frames(steps: Sequence[ScriptStep], model: str, ids: CallIds, chunk: int = 0) -> Iterator[Frame]:
    """One answer of the Messages API."""
    usage = usage_of(steps)
    counts: dict[str, Json] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
    }
    message: dict[str, Json] = {
        "id": "msg_0001",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**counts, "output_tokens": 1},
    }
    yield event_frame({"type": "message_start", "message": message})
    yield event_frame({"type": "ping"})
    index = 0
    for step in steps:
        if step.error is not None:
            kind = f"{step.error}_error" if step.error == "overloaded" else "api_error"
            yield event_frame({"type": "error", "error": {"type": kind, "message": step.detail or step.error}})
            return
        block = _anthropic_block(step, ids)
        if block is None:
            yield from pauses_of(step)
            continue
        yield event_frame({"type": "content_block_start", "index": index, "content_block": block})
        for delta in _anthropic_deltas(step, chunk):
            yield event_frame({"type": "content_block_delta", "index": index, "delta": delta})
        yield event_frame({"type": "content_block_stop", "index": index})
        index += 1
    stop = stop_word(
        steps, {"end": "end_turn", "tool_calls": "tool_use", "max_tokens": "max_tokens", "refusal": "refusal"}
    )
    delta: JsonObject = {"stop_reason": stop, "stop_sequence": None}
    yield event_frame({"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage.output_tokens}})
    yield event_frame({"type": "message_stop"})


def openai_frames(steps: Sequence[ScriptStep], model: str, ids: CallIds, chunk: int = 0) -> Iterator[Frame]:
    """One answer of the Chat Completions API, with usage in a last chunk of its own."""
    usage = usage_of(steps)
    yield _chunk(model, {"role": "assistant", "content": ""})
    calls = 0
    for step in steps:
        if step.error is not None:
            kind = "server_error" if step.error == "overloaded" else step.error
            error: JsonObject = {"message": step.detail or step.error, "type": kind, "param": None, "code": step.error}
            yield data_frame({"error": error})
            return
        if step.tool is not None:
            yield from (_chunk(model, delta) for delta in _openai_call(step, calls, ids, chunk))
            calls += 1
        else:
            yield from (_chunk(model, delta) for delta in _openai_deltas(step, chunk))
            yield from pauses_of(step)
    stop = stop_word(
        steps, {"end": "stop", "tool_calls": "tool_calls", "max_tokens": "length", "content_filter": "content_filter"}
    )
    yield _chunk(model, {}, stop)
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    counts: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }
    yield data_frame({**_head(model), "choices": [], "usage": counts})
    yield b"data: [DONE]\n\n"


def _anthropic_block(step: ScriptStep, ids: CallIds) -> JsonObject | None:
    if step.text is not None:
        return {"type": "text", "text": ""}
    if step.redacted is not None:
        return {"type": "redacted_thinking", "data": step.redacted}
    if step.thinking is not None:
        return {"type": "thinking", "thinking": "", "signature": ""}
    if step.tool is not None:
        return {"type": "tool_use", "id": step.id or ids.next("toolu"), "name": step.tool, "input": {}}
    return None


def _anthropic_deltas(step: ScriptStep, chunk: int) -> Iterator[JsonObject]:
    if step.text is not None:
        yield from ({"type": "text_delta", "text": piece} for piece in pieces_of(step.text, chunk))
    elif step.tool is not None:
        pieces = pieces_of(step.argument_text, chunk)
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces))
    elif step.thinking is not None:
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces_of(step.thinking, chunk))
        yield {"type": "signature_delta", "signature": step.signature}


def _openai_deltas(step: ScriptStep, chunk: int) -> Iterator[JsonObject]:
    if step.text is not None:
        yield from ({"content": piece} for piece in pieces_of(step.text, chunk))
    elif step.thinking is not None:
        yield from ({"reasoning_content": piece} for piece in pieces_of(step.thinking, chunk))


def _openai_call(step: ScriptStep, index: int, ids: CallIds, chunk: int) -> Iterator[JsonObject]:
    begun: JsonObject = {"name": step.tool, "arguments": ""}
    call_id = step.id or ids.next("call")
    yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": begun}]}
    for piece in pieces_of(step.argument_text, chunk):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def usage_of(steps: Sequence[ScriptStep]) -> ScriptUsage:
    """The token counts that a turn names, or small ones."""
    return next((step.usage for step in steps if step.usage is not None), ScriptUsage(10, 5))


def stop_word(steps: Sequence[ScriptStep], words: dict[str, str]) -> str:
    """The vendor's word for why a turn ends, named or implied."""
    named = next((step.stop for step in steps if step.stop is not None), None)
    implied = "tool_calls" if any(step.tool is not None for step in steps) else "end"
    return words.get(named or implied, named or implied)


def pauses_of(step: ScriptStep) -> Iterator[Frame]:
    """The pause that a step is, if it is one."""
    if step.wait_for is not None or step.wait_ms is not None:
        yield Pause(None if step.wait_for else step.wait_ms)


def pieces_of(text: str, chunk: int) -> Iterator[str]:
    """A text in pieces of so many characters (0: whole)."""
    size = chunk if chunk > 0 else max(len(text), 1)
    yield from (text[start : start + size] for start in range(0, len(text), size))


def event_frame(event: JsonObject) -> bytes:
    """One event that is named by its type."""
    return b"event: " + str(event["type"]).encode() + b"\n" + data_frame(event)


def _chunk(model: str, delta: JsonObject, finish: str | None = None) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return data_frame({**_head(model), "choices": [choice]})


def _head(model: str) -> dict[str, Json]:
    return {"id": "chatcmpl-0001", "object": "chat.completion.chunk", "created": CREATED_AT, "model": model}


def data_frame(value: JsonObject) -> bytes:
    """One event without a name."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
