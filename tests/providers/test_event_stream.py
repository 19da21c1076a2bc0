"""Amazon's event stream: our parser and our encoder against botocore's, and every way in which bytes are damaged."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.providers.event_streams import EventStreamError, EventStreamParser, SseEvent
from tests.support.amazon import chunk_frame, event_frame, exception_frame

EVENTS = ['{"type":"message_start"}', '{"type":"ping","text":"Grüße 😀"}', "{}"]
STREAM = b"".join(chunk_frame(event) for event in EVENTS)


def read(stream: bytes, size: int = 0) -> list[SseEvent]:
    parser = EventStreamParser()
    pieces = range(0, len(stream), size or max(len(stream), 1))
    events = [event for start in pieces for event in parser.feed(stream[start : start + (size or len(stream))])]
    return [*events, *parser.end()]


def as_botocore_reads_it(stream: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = cast("Callable[[], Any]", EventStreamBuffer)()
    buffer.add_data(stream)
    return [(message.headers, message.payload) for message in buffer]


@pytest.mark.slow
@given(st.lists(st.tuples(st.binary(max_size=99), st.dictionaries(st.text(min_size=1, max_size=20), st.text()))))
def test_what_the_fake_server_writes_is_what_amazons_own_library_reads(messages: list[tuple[bytes, dict[str, str]]]):
    stream = b"".join(event_frame(payload, headers) for payload, headers in messages)
    assert as_botocore_reads_it(stream) == [(headers, payload) for payload, headers in messages]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64])
def test_where_the_network_cuts_the_bytes_changes_nothing(size: int):
    assert read(STREAM, size) == [SseEvent("", event) for event in EVENTS]


def test_a_stream_cut_at_any_byte_gives_the_whole_events_before_the_cut():
    whole = read(STREAM)
    for cut in range(len(STREAM)):
        got = read(STREAM[:cut])
        assert got == whole[: len(got)]
        assert len(got) < len(whole)


def test_a_bit_that_is_turned_anywhere_gives_no_event_and_is_noticed():
    frame = chunk_frame(EVENTS[0])
    for at in range(len(frame)):
        damaged = bytes([*frame[:at], frame[at] ^ 4, *frame[at + 1 :]])
        with pytest.raises(EventStreamError):
            read(damaged)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: {}\n\ndata: {}\n\n",
        b"<html><body>Sign in</body></html>",
        event_frame(b"nonsense", {":message-type": "event", ":event-type": "chunk"}),
        event_frame(b'{"bytes":"%%%"}', {":message-type": "event", ":event-type": "chunk"}),
        event_frame(b'{"bytes":5}', {":message-type": "event", ":event-type": "chunk"}),
    ],
)
def test_what_is_no_event_stream_is_refused(stream: bytes):
    with pytest.raises(EventStreamError):
        read(stream)


def test_a_message_longer_than_the_limit_is_refused_before_it_is_there():
    with pytest.raises(EventStreamError, match="cannot be"):
        EventStreamParser(limit=100).feed(chunk_frame("x" * 200)[:20])


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(stream: bytes):
    with suppress(EventStreamError):
        assert read(stream) == []


def test_an_exception_is_an_error_event_and_unknown_kinds_are_passed_over():
    stream = (
        event_frame(b"{}", {":message-type": "event", ":event-type": "novel"})
        + event_frame(b"{}", {":message-type": "rumour"})
        + exception_frame("throttlingException", "Slow down.")
        + event_frame(b"", {":message-type": "error", ":error-code": "Broken", ":error-message": "Gone."})
    )
    errors = [json.loads(event.data)["error"] for event in read(stream)]
    assert errors == [
        {"type": "throttlingException", "message": "Slow down."},
        {"type": "Broken", "message": "Gone."},
    ]
