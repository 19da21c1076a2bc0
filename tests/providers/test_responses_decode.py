"""What the Responses API may send beside the usual, from events to ours."""

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
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.http_errors import (
    ContextTooLongError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRequestError,
)
from pattern_acp.providers.openai_responses import ResponsesDecoder

Event = Mapping[str, object]


def decode(*events: Event, end: bool | None = True) -> list[ProviderEvent]:
    decoder = ResponsesDecoder(ProviderSettings("mine", "responses"), "m", lambda _: None, "call_9", {"patch": "input"})
    decoded = [event for item in events for event in decoder.feed(SseEvent("", json.dumps(item)))]
    return [*decoded, *decoder.end()] if end else decoded


def begun(index: int, **item: object) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text(delta: str, index: int = 0) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta}


def ended(status: str = "completed", **fields: object) -> Event:
    return {"type": f"response.{status}", "response": {"status": status, **fields}}


def test_items_that_come_whole_are_read_from_their_end():
    events = decode(
        done(0, type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "why"}], encrypted_content="x"),
        done(1, type="message", content=[{"type": "output_text", "text": "so"}]),
        done(2, type="function_call", call_id="a", name="read", arguments="{}"),
        done(3, type="custom_tool_call", call_id="b", name="patch", input='a"b'),
        ended(),
    )
    assert events == [
        ThinkingDelta("why"),
        ThinkingEnded('{"id":"rs_1","encrypted_content":"x"}', wire="responses"),
        TextDelta("so"),
        ToolCallBegun(2, "a", "read"),
        ToolCallFragment(2, "{}"),
        ToolCallBegun(3, "b", "patch"),
        ToolCallFragment(3, '{"input":"'),
        ToolCallFragment(3, 'a\\"b'),
        ToolCallFragment(3, '"}'),
        Stopped(ProviderStop.TOOL_CALLS),
    ]


def test_reasoning_of_a_server_that_does_not_seal_it_ends_where_its_item_ends():
    delta = {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "why"}
    item = done(0, type="reasoning", id="r", content=[{"type": "reasoning_text", "text": "why"}], summary=[])
    assert decode(begun(0, type="reasoning"), delta, item, text("so", 1), ended())[:3] == [
        ThinkingDelta("why"),
        ThinkingEnded(wire="responses"),
        TextDelta("so"),
    ]


def test_parts_of_a_summary_are_paragraphs():
    kind = "response.reasoning_summary_text.delta"
    events = decode(
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
        {"type": kind, "output_index": 0, "summary_index": 0, "delta": "one"},
        {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1},
        {"type": kind, "output_index": 0, "summary_index": 1, "delta": "two"},
        text("so", 1),
        ended(),
    )
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["one", "\n\n", "two"]


def test_the_phase_of_a_message_is_given_on_with_its_first_text():
    events = decode(begun(0, type="message", phase="commentary"), text("so"), text("on"), ended())
    assert events[:3] == [ThinkingEnded('{"phase":"commentary"}', wire="responses"), TextDelta("so"), TextDelta("on")]


def test_a_call_without_an_id_gets_one():
    assert decode(begun(0, type="function_call", name="read"), ended())[0] == ToolCallBegun(0, "call_9_0", "read")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", ProviderStop.MAX_TOKENS), ("content_filter", ProviderStop.CONTENT_FILTER)],
)
def test_an_incomplete_answer_says_why(reason: str, stop: ProviderStop):
    last = decode(text("so"), ended("incomplete", incomplete_details={"reason": reason}))[-1]
    assert isinstance(last, Stopped)
    assert last.reason is stop


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", ProviderOverloadedError),
        ("rate_limit_exceeded", ProviderOverloadedError),
        ("context_length_exceeded", ContextTooLongError),
        ("invalid_prompt", ProviderRequestError),
    ],
)
def test_a_failed_answer_is_raised(code: str, kind: type[Exception]):
    with pytest.raises(kind):
        decode(ended("failed", error={"code": code, "message": "it broke"}))
    with pytest.raises(kind):
        decode({"type": "error", "code": code, "message": "it broke", "param": None})


def test_usage_of_a_cut_answer_is_known_too():
    usage = {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 8}}
    events = decode(text("so"), ended("incomplete", usage=usage))
    assert UsageKnown(Usage(2, 2, 8)) in events


def test_the_end_without_a_last_event_is_a_cut():
    with pytest.raises(ProviderConnectionError, match="in the middle of the answer"):
        decode(text("so"), done(0, type="message"))
