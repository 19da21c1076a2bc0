"""Why an answer ended: the words of all vendors, on every wire."""

import json
from collections.abc import Mapping, Sequence

import pytest

from pattern_acp.config.settings import Wire
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.base import ProviderEvent, ProviderStop, Stopped, TextDelta, ToolCallBegun
from pattern_acp.providers.http_errors import EmptyAnswerError, ProviderConnectionError, ProviderOverloadedError
from pattern_acp.providers.scripted import ScriptStep
from tests.support.conversations import request, user
from tests.support.wires import WIRES, decoder_for, read, stream_of

ASKED = request(user("Hi"))
TEXT = [ScriptStep(text="First half of the ans")]
CALL = [ScriptStep(tool="run_command", arguments={"command": "ls"}, id="call_a")]

GOOD = [
    "stop", "STOP", "end_turn", "endTurn", "stop_sequence", "eos", "eos_token", "COMPLETE", "FINISH_REASON_STOP",
    "StopReason.end_turn", "normal", "eosFound", "stop_token",
]  # fmt: skip
LENGTH = [
    "length", "LENGTH", "max_tokens", "MAX_TOKENS", "maxTokens", "max_output_tokens", "model_length",
    "model_context_window_exceeded", "context_length_exceeded", "maxPredictedTokensReached", "contextLengthReached",
]  # fmt: skip
FILTERED = [
    "content_filter", "CONTENT_FILTER", "content-filter", "SAFETY", "safety", "RECITATION", "recitation", "sensitive",
    "PROHIBITED_CONTENT", "guardrail_intervened",
]  # fmt: skip
BROKEN = [
    "error", "ERROR", "api_error", "network_error", "abort", "cancelled", "timeout", "load", "OTHER",
    "insufficient_system_resource", "malformed_function_call", "something new", "5",
]  # fmt: skip


def ending(wire: Wire, steps: Sequence[ScriptStep], word: object) -> list[ProviderEvent]:
    """An answer of `steps` that ends for the reason `word`, in the field that the wire has for it."""
    stream = stream_of(wire, [*steps, ScriptStep(stop="max_tokens")])
    own = {"anthropic": "max_tokens", "openai": "length", "gemini": "MAX_TOKENS", "responses": "max_output_tokens"}[
        wire
    ]
    raw = json.dumps(own).encode()
    assert stream.count(raw) == 1
    decoder = decoder_for(wire, ASKED)
    return [*read(decoder, stream.replace(raw, json.dumps(word).encode())), *decoder.end()]


def stop_of(events: Sequence[ProviderEvent]) -> Stopped:
    assert isinstance(events[-1], Stopped)
    return events[-1]


wires = pytest.mark.parametrize("wire", WIRES)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "responses"])
@pytest.mark.parametrize("word", GOOD)
def test_a_good_end_is_known_in_the_words_of_every_vendor(wire: Wire, word: str):
    assert stop_of(ending(wire, TEXT, word)) == Stopped(ProviderStop.END)
    assert stop_of(ending(wire, CALL, word)) == Stopped(ProviderStop.TOOL_CALLS)
    with pytest.raises(EmptyAnswerError):
        ending(wire, [], word)


@wires
@pytest.mark.parametrize(
    ("words", "reason"), [(LENGTH, ProviderStop.MAX_TOKENS), (FILTERED, ProviderStop.CONTENT_FILTER)]
)
def test_limits_and_filters_are_known_in_the_words_of_every_vendor(
    wire: Wire, words: Sequence[str], reason: ProviderStop
):
    for word in words:
        for steps in (TEXT, CALL, []):
            stop = stop_of(ending(wire, steps, word))
            assert (word, stop.reason) == (word, reason)
            assert stop.detail.endswith(".")


@wires
@pytest.mark.parametrize("word", BROKEN)
@pytest.mark.parametrize("steps", [TEXT, CALL, []])
def test_a_word_for_an_error_or_one_that_is_not_known_is_no_end(wire: Wire, word: str, steps: list[ScriptStep]):
    with pytest.raises(ProviderOverloadedError, match=word):
        ending(wire, steps, word)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "responses"])
@pytest.mark.parametrize("word", [None, "", "null", "FINISH_REASON_UNSPECIFIED", False])
def test_without_a_reason_only_an_end_that_the_wire_has_makes_an_answer_whole(wire: Wire, word: object):
    if wire == "gemini":
        with pytest.raises(ProviderConnectionError):
            ending(wire, TEXT, word)
    else:
        assert stop_of(ending(wire, TEXT, word)) == Stopped(ProviderStop.END)


def last(kind: str, **response: object) -> bytes:
    return f"data: {json.dumps({'type': f'response.{kind}', 'response': response})}\n\n".encode()


def responding(end: bytes, steps: Sequence[ScriptStep] = TEXT) -> list[ProviderEvent]:
    stream = stream_of("responses", steps)
    decoder = decoder_for("responses", ASKED)
    return [*read(decoder, stream[: stream.rindex(b"event: ")] + end), *decoder.end()]


@pytest.mark.parametrize(
    ("status", "details", "reason"),
    [
        ("completed", None, ProviderStop.END),
        ("in_progress", None, ProviderStop.END),
        (None, None, ProviderStop.END),
        ("incomplete", None, ProviderStop.MAX_TOKENS),
        ("incomplete", {"reason": "max_output_tokens"}, ProviderStop.MAX_TOKENS),
        ("incomplete", {"reason": "content_filter"}, ProviderStop.CONTENT_FILTER),
    ],
)
def test_a_response_that_says_completed_is_whole_only_when_its_status_is(
    status: str | None, details: object, reason: ProviderStop
):
    assert stop_of(responding(last("completed", status=status, incomplete_details=details))).reason is reason


@pytest.mark.parametrize(
    "end",
    [
        last("completed", status="cancelled"),
        last("completed", status="failed", error={"code": "server_error", "message": "Broken."}),
        last("completed", status="incomplete", incomplete_details={"reason": "network_error"}),
        last("cancelled", status="cancelled"),
        last("failed"),
    ],
)
def test_a_response_that_failed_is_no_answer_whatever_its_last_event_is_named(end: bytes):
    with pytest.raises(ProviderError):
        responding(end, CALL)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ({"code": 502, "message": "Upstream closed."}, "overloaded or has a fault"),
        ({"message": "Upstream idle."}, "Upstream idle"),
        ("Upstream idle", "Upstream idle"),
    ],
)
def test_an_error_inside_a_choice_is_one(error: Mapping[str, object] | str, sentence: str):
    chunk = {"choices": [{"delta": {"content": ""}, "finish_reason": "stop", "error": error}]}
    with pytest.raises(ProviderOverloadedError, match=sentence):
        read(decoder_for("openai", ASKED), f"data: {json.dumps(chunk)}\n\n".encode())


ENDS = [b"data: [DONE]\n\n", b"data:[DONE]", b"event: done\ndata: [DONE]\n\ndata: {}\n\ndata: [1]\n\n"]


@wires
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [0, 1])
def test_a_gateways_done_behind_an_answer_changes_nothing(wire: Wire, end: bytes, size: int):
    for steps in (TEXT, CALL):
        stream = stream_of(wire, steps)
        decoder = decoder_for(wire, ASKED)
        whole = [*read(decoder, stream), *decoder.end()]
        decoder = decoder_for(wire, ASKED)
        assert [*read(decoder, stream + end, size), *decoder.end()] == whole


def test_done_in_place_of_message_stop_ends_the_answer():
    stream = stream_of("anthropic", CALL)
    decoder = decoder_for("anthropic", ASKED)
    cut = stream[: stream.index(b"event: message_stop")]
    assert cut != stream
    events = [*read(decoder, cut + b"data: [DONE]\n\n"), *decoder.end()]
    assert decoder.is_done
    assert stop_of(events) == Stopped(ProviderStop.TOOL_CALLS)
    assert any(isinstance(event, ToolCallBegun) for event in events)


PINGS = b"event: ping\ndata: {}\n\ndata:\n\ndata: null\n\nevent: ping\ndata\n\nevent: ping\ndata: alive\n\n: ping\n\n"


@wires
def test_pings_and_events_without_data_are_passed_over_everywhere(wire: Wire):
    stream = stream_of(wire, TEXT)
    decoder = decoder_for(wire, ASKED)
    pinged = PINGS + stream.replace(b"\n\n", b"\n\n" + PINGS)
    events = [*read(decoder, pinged), *decoder.end()]
    assert TextDelta("First half of the ans") in events
    assert stop_of(events) == Stopped(ProviderStop.END)
