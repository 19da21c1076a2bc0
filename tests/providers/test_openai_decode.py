"""The dialects of Chat Completions, from bytes to events."""

import json
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.http_errors import (
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
)
from pattern_acp.providers.openai import CallAssembler, CallDelta, FunctionDelta, OpenAIDecoder
from pattern_acp.providers.streaming import HalvesJoiner, feed_all

SETTINGS = ProviderSettings("mine", "openai")


def decode(*chunks: Mapping[str, object] | str, end: bool | None = True) -> list[ProviderEvent]:
    decoder = OpenAIDecoder(SETTINGS, "m", lambda _: None, "call_9")
    events: list[ProviderEvent] = []
    for chunk in chunks:
        events += feed_all(decoder, [SseEvent("", chunk if isinstance(chunk, str) else json.dumps(chunk))])
    return [*events, *decoder.end()] if end else events


def delta(finish: str | None = None, **fields: object) -> Mapping[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def calls(*fragments: Mapping[str, object]) -> Mapping[str, object]:
    return delta(tool_calls=list(fragments))


def function(name: str | None = None, arguments: object = None) -> Mapping[str, object]:
    return {"name": name, "arguments": arguments}


def assembled(events: Sequence[ProviderEvent]) -> list[tuple[str, str, str]]:
    """Id, name and whole arguments of each call."""
    begun = [event for event in events if isinstance(event, ToolCallBegun)]
    return [
        (
            call.call_id,
            call.name,
            "".join(
                event.text for event in events if isinstance(event, ToolCallFragment) and event.index == call.index
            ),
        )
        for call in begun
    ]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_known_under_both_names(name: str):
    assert decode(delta(**{name: "why"}), delta("stop", content="so")) == [
        ThinkingDelta("why"),
        ThinkingEnded(wire="openai"),
        TextDelta("so"),
        Stopped(ProviderStop.END),
    ]


def test_reasoning_under_both_names_at_once_counts_once():
    assert decode(delta(reasoning="why", reasoning_content="why"), end=False) == [ThinkingDelta("why")]


def test_content_in_parts_is_split_into_text_and_reasoning():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}, {"type": "text", "text": "so"}]
    assert decode(delta("stop", content=parts))[:3] == [
        ThinkingDelta("why"),
        ThinkingEnded(wire="openai"),
        TextDelta("so"),
    ]


def test_calls_in_the_usual_form():
    events = decode(
        calls({"index": 0, "id": "a", "function": function("read", "")}),
        calls(
            {"index": 0, "function": function(arguments='{"x"')},
            {"index": 1, "id": "b", "function": function("run", "{}")},
        ),
        calls({"index": 0, "function": function(arguments=":1}")}),
        delta("tool_calls"),
    )
    assert assembled(events) == [("a", "read", '{"x":1}'), ("b", "run", "{}")]
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


def test_whole_calls_that_all_have_index_0_are_told_apart_by_their_ids():
    first = {"index": 0, "id": "a", "function": function("read", "{}")}
    second = {"index": 0, "id": "b", "function": function("read", "[]")}
    assert assembled(decode(calls(first), calls(second), "[DONE]")) == [("a", "read", "{}"), ("b", "read", "[]")]


def test_a_repeated_id_and_name_go_on_with_the_same_call():
    pieces = [{"index": 0, "id": "a", "function": function("read", text)} for text in ('{"x"', ":1}")]
    assert assembled(decode(*(calls(piece) for piece in pieces), "[DONE]")) == [("a", "read", '{"x":1}')]


def test_one_id_for_two_indexes_is_two_calls():
    pieces = [{"index": at, "id": "same", "function": function("read", "{}")} for at in (0, 1)]
    assert len(assembled(decode(calls(*pieces), "[DONE]"))) == 2


def test_calls_without_index_and_id_start_with_a_name():
    events = decode(
        calls({"function": function("read", '{"x"')}),
        calls({"function": function(arguments=":1}")}),
        calls({"function": function("run", "{}")}),
        "[DONE]",
    )
    assert assembled(events) == [("call_9_0", "read", '{"x":1}'), ("call_9_1", "run", "{}")]


def test_arguments_may_be_an_object():
    assert assembled(decode(calls({"function": function("read", {"x": 1})}), "[DONE]")) == [
        ("call_9_0", "read", '{"x":1}')
    ]


def test_a_call_begins_once_its_name_is_known():
    events = decode(
        calls({"index": 0, "id": "a", "function": function(arguments="{")}),
        calls({"index": 0, "function": function("read", "}")}),
        "[DONE]",
    )
    assert assembled(events) == [("a", "read", "{}")]


def test_a_whole_answer_in_message_is_taken():
    message = {"content": "so", "tool_calls": [{"id": "a", "function": function("read", "{}")}]}
    events = decode({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert TextDelta("so") in events
    assert assembled(events) == [("a", "read", "{}")]
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", ProviderStop.END),
        ("length", ProviderStop.MAX_TOKENS),
        ("content_filter", ProviderStop.CONTENT_FILTER),
        ("tool_calls", ProviderStop.END),
    ],
)
def test_the_finish_reason_becomes_a_stop(finish: str, stop: ProviderStop):
    last = decode(delta(content="so"), delta(finish))[-1]
    assert isinstance(last, Stopped)
    assert last.reason is stop


def test_a_refusal_is_text_and_a_stop():
    events = decode(delta(refusal="I will not."), delta("stop"))
    assert events[0] == TextDelta("I will not.")
    assert events[-1] == Stopped(ProviderStop.REFUSAL, "The model declined to answer.")


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}, Usage(2, 2, 8)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8}, Usage(2, 2, 8)),
        ({"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None}, Usage()),
    ],
)
def test_usage_is_read_in_its_dialects(counts: Mapping[str, object], usage: Usage):
    assert UsageKnown(usage) in decode(delta("stop", content="so"), {"choices": [], "usage": counts})


def test_the_end_without_done_is_enough_after_a_finish_reason():
    assert decode(delta("stop", content="so"))[-1] == Stopped(ProviderStop.END)


def test_the_end_without_either_is_a_cut():
    with pytest.raises(ProviderConnectionError, match="in the middle of the answer"):
        decode(delta(content="so"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "type": "server_error"}, ProviderOverloadedError),
        ({"message": "busy", "code": 502}, ProviderOverloadedError),
        ({"message": "no"}, ProviderRequestError),
        ("just text", ProviderRequestError),
    ],
)
def test_an_error_in_the_stream_is_raised(error: object, kind: type[Exception]):
    with pytest.raises(kind):
        decode({"error": error})


@pytest.mark.parametrize("data", ["nonsense", "[]", '{"choices":1}'])
def test_what_is_no_chunk_is_a_protocol_error(data: str):
    with pytest.raises(ProviderProtocolError):
        decode(data)


def test_null_where_others_leave_out_is_fine():
    nothing = {"content": None, "tool_calls": None, "reasoning": None, "refusal": None}
    assert decode(delta(**nothing), {"choices": None}, delta("stop", content="so"))[0] == TextDelta("so")


@given(
    st.lists(st.text("ab", max_size=3), min_size=1, max_size=4), st.integers(1, 3), st.randoms(use_true_random=False)
)
def test_fragments_of_parallel_calls_may_come_in_any_order(texts: list[str], size: int, random: Random):
    pieces = {at: [text[i : i + size] for i in range(0, len(text), size)] for at, text in enumerate(texts)}
    queue = [at for at, parts in pieces.items() for _ in parts]
    random.shuffle(queue)
    assembler = CallAssembler("x")
    events: list[ProviderEvent] = []
    for at in range(len(texts)):
        events += assembler.take(CallDelta(at, f"id{at}", FunctionDelta("f", "")))
    for at in queue:
        events += assembler.take(CallDelta(at, None, FunctionDelta(None, pieces[at].pop(0))))
    assert assembled(events) == [(f"id{at}", "f", text) for at, text in enumerate(texts)]


def test_an_emoji_that_a_server_cut_in_two_does_not_end_the_answer():
    halves = [
        '{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}',
        '{"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}',
    ]
    joiner = HalvesJoiner()
    events = [each for event in decode(*halves, delta("stop")) for each in joiner.take(event)]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", "\U0001f600"]
