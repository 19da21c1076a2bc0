import json
from collections.abc import Mapping

import pytest

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.anthropic import AnthropicDecoder
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.http_errors import (
    ContextTooLongError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
)

SETTINGS = ProviderSettings("mine", "anthropic", api_key_env="MINE_KEY")


def decode(*events: Mapping[str, object] | str) -> list[ProviderEvent]:
    decoder = AnthropicDecoder(SETTINGS, "m", lambda _: None)
    decoded: list[ProviderEvent] = []
    for event in events:
        decoded += decoder.feed(SseEvent("", event if isinstance(event, str) else json.dumps(event)))
    return [*decoded, *decoder.end()]


def block(index: int, start: Mapping[str, object], *deltas: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(words: str) -> list[Mapping[str, object]]:
    return block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def stop(reason: str, **details: object) -> list[Mapping[str, object]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason, **details}}, {"type": "message_stop"}]


def test_a_signature_that_comes_in_pieces_is_joined():
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "ab"},
        {"type": "signature_delta", "signature": "cd"},
    )
    assert decode(*thinking, *text("so"), *stop("end_turn"))[:2] == [
        ThinkingDelta("Hm."),
        ThinkingEnded("abcd", wire="anthropic"),
    ]


def test_reasoning_whose_text_is_withheld_still_ends_with_its_signature():
    thinking = block(0, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "ab"})
    assert decode(*thinking, *text("so"), *stop("end_turn"))[0] == ThinkingEnded("ab", wire="anthropic")


def test_a_whole_call_in_its_first_event_is_taken():
    whole = block(0, {"type": "tool_use", "id": "a", "name": "read", "input": {"x": 1}})
    assert decode(*whole, *stop("tool_use")) == [
        ToolCallBegun(0, "a", "read"),
        ToolCallFragment(0, '{"x":1}'),
        Stopped(ProviderStop.TOOL_CALLS),
    ]


def test_calls_count_even_when_the_stop_reason_says_otherwise():
    whole = block(0, {"type": "tool_use", "id": "a", "name": "read", "input": {}})
    assert decode(*whole, *stop("end_turn"))[-1] == Stopped(ProviderStop.TOOL_CALLS)


def test_usage_is_put_together_from_both_events():
    start = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1}
    events = decode(
        {"type": "message_start", "message": {"usage": start}},
        *text("so"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    assert [event.usage for event in events if isinstance(event, UsageKnown)] == [Usage(5, 1, 7, 2), Usage(5, 9, 7, 2)]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", ProviderStop.END),
        ("stop_sequence", ProviderStop.END),
        ("max_tokens", ProviderStop.MAX_TOKENS),
        ("model_context_window_exceeded", ProviderStop.MAX_TOKENS),
        ("refusal", ProviderStop.REFUSAL),
        ("pause_turn", ProviderStop.INTERRUPTED),
    ],
)
def test_every_stop_reason_is_known(reason: str, expected: ProviderStop):
    last = decode(*text("so"), *stop(reason))[-1]
    assert isinstance(last, Stopped)
    assert last.reason is expected
    assert bool(last.detail) is (expected is not ProviderStop.END)


def test_a_refusal_needs_no_text_and_keeps_its_explanation():
    details = {"type": "refusal", "explanation": "Because."}
    assert decode(*stop("refusal", stop_details=details)) == [Stopped(ProviderStop.REFUSAL, "Because.")]


def test_what_is_unknown_is_passed_over():
    unknown = [
        {"type": "ping"},
        {"type": "something_new", "content": 1},
        *block(
            3, {"type": "server_tool_use", "id": "x", "name": "y"}, {"type": "input_json_delta", "partial_json": "{}"}
        ),
        {"type": "content_block_delta", "index": 9, "delta": {"type": "citations_delta"}},
        {"type": "content_block_stop", "index": 9},
    ]
    assert decode(*unknown, *text("so"), *stop("end_turn")) == [TextDelta("so"), Stopped(ProviderStop.END)]


def test_the_end_without_message_stop_is_enough_after_a_stop_reason():
    assert decode(*text("so"), stop("end_turn")[0])[-1] == Stopped(ProviderStop.END)


def test_the_end_without_either_is_a_cut():
    with pytest.raises(ProviderConnectionError):
        decode(*text("so"))


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("overloaded_error", "Overloaded", ProviderOverloadedError),
        ("api_error", "Internal", ProviderOverloadedError),
        ("rate_limit_error", "Slow down", ProviderOverloadedError),
        ("authentication_error", "bad key", ProviderAuthError),
        ("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum", ContextTooLongError),
    ],
)
def test_an_error_in_the_stream_is_raised(kind: str, message: str, expected: type[Exception]):
    with pytest.raises(expected):
        decode({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize("data", ["x", "[]", '{"no":"type"}', '{"type":"content_block_start"}', '{"type":"error"}'])
def test_what_is_no_event_is_a_protocol_error(data: str):
    with pytest.raises(ProviderProtocolError):
        decode(data)


def nulls(*names: str) -> Mapping[str, object]:
    return dict.fromkeys(names)


def test_null_stands_for_what_a_block_does_not_have():
    fields = ("id", "name", "text", "thinking", "signature", "data", "input", "partial_json", "stop_reason")
    events = [
        *block(
            0,
            {**nulls(*fields), "type": "thinking"},
            {**nulls(*fields), "type": "thinking_delta", "thinking": "Hm."},
            {**nulls(*fields), "type": "signature_delta"},
        ),
        *block(1, {**nulls(*fields), "type": "text"}, {**nulls(*fields), "type": "text_delta", "text": "so"}),
        *block(
            2,
            {**nulls(*fields), "type": "tool_use", "id": "a", "name": "read"},
            {**nulls(*fields), "type": "input_json_delta", "partial_json": "{}"},
        ),
    ]
    whole = [{**nulls("message", "content_block", "delta", "usage"), **event} for event in events]
    assert decode(*whole, *stop("tool_use")) == [
        ThinkingDelta("Hm."),
        ThinkingEnded(wire="anthropic"),
        TextDelta("so"),
        ToolCallBegun(2, "a", "read"),
        ToolCallFragment(2, "{}"),
        Stopped(ProviderStop.TOOL_CALLS),
    ]


@pytest.mark.parametrize("index", [{}, {"index": None}])
def test_blocks_without_an_index_follow_each_other(index: Mapping[str, object]):
    events = [
        *block(0, {"type": "text"}, {"type": "text_delta", "text": "so"}),
        *block(1, {"type": "tool_use", "id": "a", "name": "read"}, {"type": "input_json_delta", "partial_json": "{}"}),
        *block(2, {"type": "tool_use", "id": "b", "name": "list"}, {"type": "input_json_delta", "partial_json": "[]"}),
    ]
    bare = [{**{name: value for name, value in event.items() if name != "index"}, **index} for event in events]
    assert decode(*bare, *stop("tool_use")) == decode(*events, *stop("tool_use"))


@pytest.mark.parametrize("arguments", [{"x": 1}, '{"x":1}'])
def test_arguments_come_as_text_or_as_an_object_in_either_event(arguments: object):
    call = {"type": "tool_use", "id": "a", "name": "read"}
    first = block(0, {**call, "input": arguments})
    later = block(0, {**call, "input": ""}, {"type": "input_json_delta", "partial_json": arguments})
    for events in (first, later):
        assert ToolCallFragment(0, '{"x":1}') in decode(*events, *stop("tool_use"))


def test_a_whole_call_without_the_end_of_its_block_has_its_arguments():
    begun = block(0, {"type": "tool_use", "id": "a", "name": "read", "input": {"x": 1}})[0]
    assert decode(begun, *stop("tool_use"))[1:] == [ToolCallFragment(0, '{"x":1}'), Stopped(ProviderStop.TOOL_CALLS)]


def test_the_type_of_an_event_may_stand_beside_its_data_only():
    decoder = AnthropicDecoder(SETTINGS, "m", lambda _: None)
    events: list[ProviderEvent] = []
    for event in (*text("so"), *stop("end_turn")):
        bare = {name: value for name, value in event.items() if name != "type"}
        events += decoder.feed(SseEvent(str(event["type"]), json.dumps(bare)))
    assert [*events, *decoder.end()] == [TextDelta("so"), Stopped(ProviderStop.END)]
    assert decoder.is_done
