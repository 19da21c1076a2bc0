"""From a provider's events to one message."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.turn.stream_reader import MessageAssembly


def assembled(*events: ProviderEvent) -> MessageAssembly:
    assembly = MessageAssembly(MessageId("msg_1"), "wire")
    for event in events:
        assembly.take(event)
    return assembly


def test_text_and_reasoning_keep_their_order_and_their_signatures():
    message = assembled(
        ThinkingDelta("Let "),
        ThinkingDelta("me"),
        ThinkingEnded("c2ln"),
        TextDelta("One"),
        ThinkingDelta("Hm"),
        TextDelta("Two"),
        ThinkingEnded(redacted="cmVk"),
    ).message(with_calls=True)
    assert [(type(part).__name__, getattr(part, "text", "")) for part in message.parts] == [
        ("ThinkingPart", "Let me"),
        ("TextPart", "One"),
        ("ThinkingPart", "Hm"),
        ("TextPart", "Two"),
        ("ThinkingPart", ""),
    ]
    signed = [part for part in message.parts if isinstance(part, ThinkingPart)]
    assert [(part.signature, part.redacted) for part in signed] == [("c2ln", ""), ("", ""), ("", "cmVk")]


def test_parallel_calls_are_told_apart_by_their_index():
    message = assembled(
        ToolCallBegun(1, "b", "second"),
        ToolCallBegun(0, "a", "first"),
        ToolCallFragment(1, '{"x":'),
        ToolCallFragment(0, "{}"),
        ToolCallFragment(1, "2}"),
        ToolCallFragment(7, "nobody's"),
    ).message(with_calls=True)
    assert message.parts == (
        ToolCallPart(ToolCallId("b"), "second", '{"x":2}'),
        ToolCallPart(ToolCallId("a"), "first", "{}"),
    )


def test_a_call_without_arguments_has_an_empty_object():
    (call,) = assembled(ToolCallBegun(0, "a", "first")).message(with_calls=True).tool_calls
    assert call.arguments == "{}"


def test_calls_of_a_stream_that_was_cut_are_left_out():
    message = assembled(TextDelta("One"), ToolCallBegun(0, "a", "first")).message(with_calls=False)
    assert message.parts == (TextPart("One"),)


def test_the_last_usage_counts_and_a_stream_without_a_stop_was_cut():
    assembly = assembled(UsageKnown(Usage(1, 1)), Retrying(1, 5, "Again."), UsageKnown(Usage(10, 2)))
    assert assembly.usage == Usage(10, 2)
    assert assembly.stop is ProviderStop.INTERRUPTED
    assert assembled(Stopped(ProviderStop.END, "Done.")).detail == "Done."


@given(st.lists(st.text(max_size=5), max_size=12))
def test_text_is_the_same_however_it_is_cut_into_deltas(pieces: list[str]):
    message = assembled(*(TextDelta(piece) for piece in pieces)).message(with_calls=True)
    assert message.text == "".join(pieces)
    assert len(message.parts) <= 1
