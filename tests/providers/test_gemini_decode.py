"""What Gemini may send beside the usual, from chunks to our events."""

import json
from collections.abc import Mapping

import pytest

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallEnded,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.gemini import GeminiDecoder
from pattern_acp.providers.http_errors import (
    ContentFilteredError,
    EmptyAnswerError,
    ProviderConnectionError,
    ProviderOverloadedError,
)

Chunk = Mapping[str, object]


def decode(*chunks: Chunk) -> list[ProviderEvent]:
    decoder = GeminiDecoder(ProviderSettings("mine", "gemini"), "m", lambda _: None, "call_9")
    events = [event for chunk in chunks for event in decoder.feed(SseEvent("", json.dumps(chunk)))]
    return [*events, *decoder.end()]


def chunk(*parts: object, finish: str | None = None, **fields: object) -> Chunk:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}], **fields}


def test_a_signature_stands_before_its_call_and_ends_the_reasoning():
    call = {"functionCall": {"name": "read", "args": {"path": "ä"}}, "thoughtSignature": "c2ln"}
    other = {"functionCall": {"name": "list", "id": "own"}}
    assert decode(chunk({"text": "why", "thought": True}), chunk(call, other, finish="STOP")) == [
        ThinkingDelta("why"),
        ThinkingEnded("c2ln", wire="gemini"),
        ToolCallBegun(0, "call_9_0", "read"),
        ToolCallFragment(0, '{"path":"ä"}'),
        ToolCallEnded(0),
        ToolCallBegun(1, "own", "list"),
        ToolCallFragment(1, "{}"),
        ToolCallEnded(1),
        Stopped(ProviderStop.TOOL_CALLS),
    ]


def test_unsigned_reasoning_ends_where_the_answer_begins():
    assert decode(chunk({"text": "why", "thought": True}), chunk({"text": "so"}, finish="STOP"))[:3] == [
        ThinkingDelta("why"),
        ThinkingEnded(wire="gemini"),
        TextDelta("so"),
    ]


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"])
def test_an_answer_that_is_cut_for_its_content_says_why(reason: str):
    last = decode(chunk({"text": "so"}), chunk(finish=reason))[-1]
    assert isinstance(last, Stopped)
    assert last.reason is ProviderStop.CONTENT_FILTER
    assert last.detail.startswith("The provider stopped the answer ")


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "SOMETHING_NEW"])
def test_a_prompt_that_is_blocked_is_refused_in_words(reason: str):
    with pytest.raises(ContentFilteredError, match="mine refused the prompt"):
        decode({"promptFeedback": {"blockReason": reason}})


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_call_that_the_model_wrote_wrong_is_named(reason: str):
    with pytest.raises(ProviderOverloadedError, match="wrote a tool call that cannot be read"):
        decode({"candidates": [{"finishReason": reason}]})


def test_reasoning_alone_is_no_answer():
    with pytest.raises(EmptyAnswerError):
        decode(chunk({"text": "why", "thought": True}, finish="STOP"))


def test_the_end_without_a_finish_reason_is_a_cut():
    with pytest.raises(ProviderConnectionError, match="in the middle of the answer"):
        decode(chunk({"text": "so"}))


def test_an_overload_inside_the_stream_can_be_tried_again():
    with pytest.raises(ProviderOverloadedError):
        decode({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})


def test_usage_counts_reasoning_as_output_and_cached_tokens_apart():
    counts = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 8,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 17,
    }
    assert UsageKnown(Usage(2, 7, 8, 0, 5)) in decode(chunk({"text": "so"}, finish="STOP", usageMetadata=counts))


def test_null_where_others_leave_out_is_fine():
    nothing = {"text": None, "thought": None, "functionCall": None}
    empty: Chunk = {"candidates": None, "usageMetadata": {"promptTokenCount": None}}
    assert decode(chunk(nothing), empty, {"candidates": [{"content": None}]}, chunk({"text": "so"}, finish="STOP"))


@pytest.mark.parametrize("counts", [{}, {"usageMetadata": {"candidatesTokenCount": 1}}])
def test_what_follows_an_early_finish_reason_is_part_of_the_answer(counts: Mapping[str, object]):
    events = decode(
        chunk(finish="STOP", **counts),
        chunk({"text": "One "}, finish="STOP", **counts),
        chunk({"text": "two"}, finish="STOP", **counts),
        chunk({"functionCall": {"name": "read"}}, usageMetadata={"candidatesTokenCount": 9}),
    )
    assert [event for event in events if not isinstance(event, UsageKnown)] == [
        TextDelta("One "),
        TextDelta("two"),
        ToolCallBegun(0, "call_9_0", "read"),
        ToolCallFragment(0, "{}"),
        ToolCallEnded(0),
        Stopped(ProviderStop.TOOL_CALLS),
    ]
    assert [event for event in events if isinstance(event, UsageKnown)][-1].usage == Usage(0, 9)


def test_the_last_finish_reason_counts():
    last = decode(chunk({"text": "One"}, finish="STOP"), chunk({"text": " two"}, finish="MAX_TOKENS"))[-1]
    assert isinstance(last, Stopped)
    assert last.reason is ProviderStop.MAX_TOKENS
