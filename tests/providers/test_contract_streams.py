"""What every wire must make of its vendor's stream: one suite for all of them, without sockets."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from pattern_acp.config.settings import Wire
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import Message, TextPart, ThinkingPart, ToolCallPart
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
    ToolSpec,
    UsageKnown,
)
from pattern_acp.providers.event_streams import SseEvent
from pattern_acp.providers.http_errors import EmptyAnswerError, ProviderConnectionError, ProviderProtocolError
from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from pattern_acp.turn.stream_reader import MessageAssembly
from tests.support.conversations import request, results, user
from tests.support.conversations import result as result_of
from tests.support.wires import MODELS, WIRES, body_for, decoder_for, read, stream_of

ASKED = request(user("Hi"))
PATCH = ToolSpec("apply_patch", "Edit files.", {"type": "object"}, free_form="input")

WHOLE = [
    ScriptStep(thinking="Hmm, ä.", signature="c2ln"),
    ScriptStep(text="Two cälls."),
    ScriptStep(tool="read_file", arguments={"path": "äöü"}, id="call_a"),
    ScriptStep(tool="run_command", arguments={"command": "ls"}, id="call_b"),
    ScriptStep(usage=ScriptUsage(7, 9, 20, 0, 4)),
]
"""An answer with everything in it."""


def answer(wire: Wire, steps: list[ScriptStep], chunk: int = 0, size: int = 0) -> list[ProviderEvent]:
    decoder = decoder_for(wire, ASKED)
    return [*read(decoder, stream_of(wire, steps, chunk), size), *decoder.end()]


def message_of(events: list[ProviderEvent], wire: Wire, *, with_calls: bool = True) -> Message:
    assembly = MessageAssembly(MessageId("m"), f"mine/{MODELS[wire]}")
    for event in events:
        assembly.take(event)
    return assembly.message(with_calls=with_calls)


def stop_of(events: list[ProviderEvent]) -> ProviderStop:
    assert isinstance(events[-1], Stopped)
    return events[-1].reason


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_text_reasoning_and_parallel_calls_arrive_in_their_order(wire: Wire, chunk: int):
    events = answer(wire, WHOLE, chunk)
    parts = message_of(events, wire).parts
    assert [part.text for part in parts if isinstance(part, ThinkingPart) and part.text] == ["Hmm, ä."]
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["Two cälls."]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [(part.call_id, part.name) for part in calls] == [("call_a", "read_file"), ("call_b", "run_command")]
    assert [json.loads(part.arguments) for part in calls] == [{"path": "äöü"}, {"command": "ls"}]
    assert stop_of(events) is ProviderStop.TOOL_CALLS


@pytest.mark.parametrize("wire", WIRES)
def test_usage_tells_fresh_cached_and_reasoning_tokens_apart(wire: Wire):
    last = [event for event in answer(wire, WHOLE) if isinstance(event, UsageKnown)][-1]
    # Anthropic counts reasoning with the answer.
    assert last.usage == Usage(7, 9, 20, 0, 0 if wire == "anthropic" else 4)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("count", ["-7", "1e30", f"{10**30}", "1.5", '"7"', "null", "true", "[]", "{}", '"many"'])
def test_a_count_that_is_none_costs_no_answer_and_is_not_added_up(wire: Wire, count: str):
    stream = stream_of(wire, [ScriptStep(text="Hello."), ScriptStep(usage=ScriptUsage(7, 9, 20, 0, 4))])
    mistaken = re.sub(rb'("\w*(?:_tokens|TokenCount)"): ?\d+', b"\\1:" + count.encode(), stream)
    assert mistaken != stream
    decoder = decoder_for(wire, ASKED)
    events = [*read(decoder, mistaken), *decoder.end()]
    assert message_of(events, wire).text == "Hello."
    for event in events:
        if isinstance(event, UsageKnown):
            assert all(0 <= each < 100 for each in asdict(event.usage).values())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("usage", ["5", '"none"', "[1]", "{}", "null"])
def test_usage_that_is_none_costs_no_answer(wire: Wire, usage: str):
    stream = stream_of(wire, [ScriptStep(text="Hello."), ScriptStep(usage=ScriptUsage(7, 9, 20, 0, 4))])
    mistaken = re.sub(rb'("usage(?:Metadata)?"): ?\{(?:[^{}]|\{[^{}]*\})*\}', b"\\1:" + usage.encode(), stream)
    assert mistaken != stream
    decoder = decoder_for(wire, ASKED)
    assert message_of([*read(decoder, mistaken), *decoder.end()], wire).text == "Hello."


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_cut_at_any_byte_ends_in_a_defined_way(wire: Wire):
    """What came before the cut is a beginning of the whole answer, and the end says that it is cut."""
    stream = stream_of(wire, WHOLE, 4)
    whole = answer(wire, WHOLE, 4)
    calls = message_of(whole, wire).tool_calls
    ended = 0
    for cut in range(len(stream)):
        decoder = decoder_for(wire, ASKED)
        events: list[ProviderEvent] = []
        try:
            events = read(decoder, stream[:cut])
            events += decoder.end()
            ended += 1
            # Whatever ends as if it were whole has every call whole: half a call can never run.
            assert message_of(events, wire).tool_calls == calls
        except (ProviderConnectionError, ProviderProtocolError):
            # Cut between two events, or through one, whose piece came as the last line.
            pass
        plain = [event for event in events if not isinstance(event, Stopped)]
        assert plain == whole[: len(plain)]
    # Only a stream that lacks its very last bytes, without a meaning of their own, counts as whole.
    assert ended < 120


@pytest.mark.parametrize("wire", WIRES)
@given(size=st.integers(1, 64))
@settings(max_examples=15, deadline=None)
def test_where_the_network_cuts_the_bytes_changes_nothing(wire: Wire, size: int):
    assert answer(wire, WHOLE, 5, size) == answer(wire, WHOLE, 5)


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_at_its_limit_of_tokens_says_so(wire: Wire):
    events = answer(wire, [ScriptStep(text="So"), ScriptStep(stop="max_tokens")])
    assert stop_of(events) is ProviderStop.MAX_TOKENS


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "anthropic"])
def test_a_filtered_answer_says_so(wire: Wire):
    events = answer(wire, [ScriptStep(text="So"), ScriptStep(stop="content_filter")])
    assert stop_of(events) is ProviderStop.CONTENT_FILTER


def test_a_refusal_is_text_and_a_stop_where_the_wire_has_one():
    for wire in ("anthropic", "responses"):
        events = answer(wire, [ScriptStep(text="I will not.", stop="refusal")])
        assert TextDelta("I will not.") in events
        assert stop_of(events) is ProviderStop.REFUSAL


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_without_anything_is_an_error(wire: Wire):
    with pytest.raises(EmptyAnswerError, match="ended without an answer"):
        answer(wire, [ScriptStep(stop="end")])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("data", ["nonsense", "[]", '{"type":5,"choices":5,"candidates":5}', "\x00"])
def test_what_is_no_event_is_a_protocol_error(wire: Wire, data: str):
    with pytest.raises(ProviderProtocolError, match="not in the format of its wire"):
        decoder_for(wire, ASKED).feed(SseEvent("", data))


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_the_stream_is_raised(wire: Wire):
    with pytest.raises(ProviderError, match=r"no such thing|overloaded or has a fault"):
        answer(wire, [ScriptStep(text="So"), ScriptStep(error="invalid", detail="no such thing")])


@pytest.mark.parametrize("wire", WIRES)
def test_events_and_fields_that_are_not_known_are_passed_over(wire: Wire):
    decoder = decoder_for(wire, ASKED)
    assert decoder.feed(SseEvent("", '{"type":"response.some_new.event","novel":{"a":[1]}}')) in ([], ())
    assert [*read(decoder, stream_of(wire, WHOLE)), *decoder.end()] == answer(wire, WHOLE)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openai"])
def test_reasoning_goes_back_as_it_came(wire: Wire):
    """The whole way: the vendor's stream, our message, the next request."""
    message = message_of(answer(wire, WHOLE), wire)
    ids = [call.call_id for call in message.tool_calls]
    history = (user("Hi"), message, results(*(result_of(call_id) for call_id in ids)))
    assert b'"c2ln"' in body_for(wire, request(*history))


def test_a_patch_that_openai_sends_as_plain_text_becomes_arguments_and_goes_back_as_text():
    text = '*** Begin Patch\n+ "quoted" \\ back\tslash ä😀\n*** End Patch'
    asked = replace(ASKED, tools=(PATCH,))
    steps = [ScriptStep(tool="apply_patch", arguments={"input": text}, id="c")]
    for chunk in (0, 1, 7):
        decoder = decoder_for("responses", asked)
        stream = stream_of("responses", steps, chunk, plain=("apply_patch",))
        assert b"custom_tool_call_input.delta" in stream
        message = message_of([*read(decoder, stream), *decoder.end()], "responses")
        assert [json.loads(call.arguments) for call in message.tool_calls] == [{"input": text}]
    sent = body_for("responses", replace(asked, messages=(user("Hi"), message, results(result_of("c")))))
    assert json.loads(sent)["input"][1]["input"] == text


def test_reasoning_between_calls_keeps_its_place():
    steps = [
        ScriptStep(thinking="One.", signature="Zmlyc3Q="),
        ScriptStep(tool="read_file", arguments={"path": "a"}),
        ScriptStep(thinking="Two.", signature="c2Vjb25k"),
        ScriptStep(tool="read_file", arguments={"path": "b"}),
    ]
    for wire in ("anthropic", "responses", "gemini"):
        kinds = [type(part) for part in message_of(answer(wire, steps), wire).parts]
        assert kinds == [ThinkingPart, ToolCallPart, ThinkingPart, ToolCallPart], wire


def test_the_marks_of_reasoning_name_their_wire():
    for wire in WIRES:
        ends = [event for event in answer(wire, WHOLE) if isinstance(event, ThinkingEnded)]
        assert {end.wire for end in ends} == {wire}
        assert ThinkingDelta("Hmm, ä.") in answer(wire, WHOLE)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_has_its_own_fragments(wire: Wire):
    events = answer(wire, WHOLE, 2)
    begun = [event.index for event in events if isinstance(event, ToolCallBegun)]
    assert len(set(begun)) == len(begun) == 2
    assert {event.index for event in events if isinstance(event, ToolCallFragment)} == set(begun)
