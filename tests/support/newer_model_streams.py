"""Scripted answers in the stream formats of OpenAI's Responses API and Google's `generateContent`.

Owns: rendering a turn of `providers.scripted` as the frames that these send. A reasoning step with a signature becomes
an encrypted reasoning item, or a signed part. Must not know: sockets.
"""

from collections.abc import Iterator, Sequence

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.providers.wire_json import arguments_object
from tests.support.model_streams import (
    CREATED_AT,
    CallIds,
    Frame,
    data_frame,
    event_frame,
    pauses_of,
    pieces_of,
    stop_word,
    usage_of,
)


def responses_frames(
    steps: Sequence[ScriptStep], model: str, ids: CallIds, chunk: int = 0, plain: Sequence[str] = ()
) -> Iterator[Frame]:
    """One answer of the Responses API. Calls of the tools in `plain` are custom ones, whose one argument is text."""
    numbered = _Numbered(model)
    yield numbered.event("response.created", response=numbered.response("in_progress"))
    items: list[Json] = []
    stop = stop_word(steps, {"max_tokens": "max_output_tokens"})
    cut = next((s for s in reversed(steps) if s.tool or s.text), None) if stop == "max_output_tokens" else None
    for step in steps:
        if step.error is not None:
            code = "server_error" if step.error == "overloaded" else step.error
            failed = {**numbered.response("failed"), "error": {"code": code, "message": step.detail or step.error}}
            yield numbered.event("response.failed", response=failed)
            return
        item = _item(step, ids, len(items), plain)
        if item is None:
            yield from pauses_of(step)
            continue
        if "status" in item and step is cut:
            item = {**item, "status": "incomplete"}
        index = len(items)
        yield numbered.event("response.output_item.added", output_index=index, item=_begun(item))
        for kind, fields in _deltas(step, item, chunk):
            at: JsonObject = {"item_id": item["id"], "output_index": index}
            yield numbered.event(kind, **at, **fields)
        yield numbered.event("response.output_item.done", output_index=index, item=item)
        items.append(item)
    status = "incomplete" if stop in {"max_output_tokens", "content_filter"} else "completed"
    ended: JsonObject = {
        **numbered.response(status),
        "output": items,
        "usage": _responses_usage(steps),
        "incomplete_details": {"reason": stop} if status == "incomplete" else None,
    }
    yield numbered.event(f"response.{status}", response=ended)


class _Numbered:
    """Events of one answer, which the API numbers."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._count = 0

    def event(self, kind: str, **fields: Json) -> bytes:
        frame = event_frame({"type": kind, "sequence_number": self._count, **fields})
        self._count += 1
        return frame

    def response(self, status: str) -> JsonObject:
        return {
            "id": "resp_0001",
            "object": "response",
            "created_at": CREATED_AT,
            "status": status,
            "model": self._model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
        }


def _item(step: ScriptStep, ids: CallIds, index: int, plain: Sequence[str]) -> JsonObject | None:
    """The item that a step becomes, whole."""
    if step.text is not None:
        refuses = step.stop == "refusal"
        part: JsonObject = (
            {"type": "refusal", "refusal": step.text}
            if refuses
            else {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        )
        return {
            "id": f"msg_{index}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    if step.thinking is not None or step.redacted is not None:
        summary: list[Json] = [{"type": "summary_text", "text": step.thinking}] if step.thinking else []
        sealed = step.signature or step.redacted or None
        return {"id": f"rs_{index}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
    if step.tool is None:
        return None
    call_id = step.id or ids.next("call")
    if step.tool in plain:
        text = str(next(iter(arguments_object(step.argument_text).values())))
        return {"id": f"ctc_{index}", "type": "custom_tool_call", "call_id": call_id, "name": step.tool, "input": text}
    return {
        "id": f"fc_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": step.tool,
        "arguments": step.argument_text,
    }


def _begun(item: JsonObject) -> JsonObject:
    """An item as its first event has it."""
    empty: dict[str, Json] = {"content": [], "summary": [], "arguments": "", "input": "", "encrypted_content": None}
    return {key: empty.get(key, value) for key, value in item.items()}


def _deltas(step: ScriptStep, item: JsonObject, chunk: int) -> Iterator[tuple[str, JsonObject]]:
    match item["type"]:
        case "message":
            is_refusal = step.stop == "refusal"
            empty: JsonObject = (
                {"type": "refusal", "refusal": ""}
                if is_refusal
                else {"type": "output_text", "text": "", "annotations": []}
            )
            yield "response.content_part.added", {"content_index": 0, "part": empty}
            kind = "response.refusal.delta" if is_refusal else "response.output_text.delta"
            for piece in pieces_of(step.text or "", chunk):
                yield kind, {"content_index": 0, "delta": piece, "logprobs": []}
        case "reasoning" if step.thinking:
            part: JsonObject = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", {"summary_index": 0, "part": part}
            for piece in pieces_of(step.thinking, chunk):
                yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": piece}
        case "function_call":
            for piece in pieces_of(step.argument_text, chunk):
                yield "response.function_call_arguments.delta", {"delta": piece}
        case "custom_tool_call":
            for piece in pieces_of(str(item["input"]), chunk):
                yield "response.custom_tool_call_input.delta", {"delta": piece}
        case _:
            pass


def _responses_usage(steps: Sequence[ScriptStep]) -> JsonObject:
    usage = usage_of(steps)
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": read + usage.output_tokens,
    }


def gemini_frames(steps: Sequence[ScriptStep], model: str, ids: CallIds, chunk: int = 0) -> Iterator[Frame]:
    """One answer of `streamGenerateContent?alt=sse`. A call is never cut in pieces."""
    signature = ""
    yield _gemini_chunk(model, {"text": ""})
    for step in steps:
        if step.error is not None:
            code, word = (503, "UNAVAILABLE") if step.error == "overloaded" else (400, step.error.upper())
            yield data_frame({"error": {"code": code, "message": step.detail or step.error, "status": word}})
            return
        if step.thinking is not None:
            for piece in pieces_of(step.thinking, chunk):
                yield _gemini_chunk(model, {"text": piece, "thought": True})
            signature = step.signature
        elif step.text is not None:
            for piece in pieces_of(step.text, chunk):
                yield _gemini_chunk(model, {"text": piece})
            if signature:
                yield _gemini_chunk(model, {"text": "", **_signed(signature)})
                signature = ""
        elif step.tool is not None:
            arguments = arguments_object(step.argument_text)
            call: JsonObject = {"id": step.id or ids.next("call"), "name": step.tool, "args": arguments}
            yield _gemini_chunk(model, {"functionCall": call, **_signed(signature)})
            signature = ""
        else:
            yield from pauses_of(step)
    words = {"end": "STOP", "tool_calls": "STOP", "max_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
    usage = usage_of(steps)
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    counts: dict[str, Json] = {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.thinking_tokens,
        "thoughtsTokenCount": usage.thinking_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
    }
    yield _gemini_chunk(model, {"text": ""}, finish=stop_word(steps, words), usageMetadata=counts)


def _signed(signature: str) -> JsonObject:
    return {"thoughtSignature": signature} if signature else {}


def _gemini_chunk(model: str, part: Json, *, finish: str = "", **fields: Json) -> bytes:
    candidate: dict[str, Json] = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return data_frame({"candidates": [candidate], "modelVersion": model, "responseId": "r_0001", **fields})
