import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.providers.event_streams import SseEvent, SseParser, SseTooLargeError


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.end()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_counts(end: bytes):
    assert parse(end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])) == [
        SseEvent("a", "1\n2"),
        SseEvent("", "3"),
    ]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b": comment\n\ndata: x\n\n", [SseEvent("", "x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [SseEvent("", "x")]),
        (b"data:x\n\n", [SseEvent("", "x")]),
        (b"data:  x\n\n", [SseEvent("", " x")]),
        (b"data\n\n", [SseEvent("", "")]),
        (b"data: a:b\n\n", [SseEvent("", "a:b")]),
        (b"event: only\n\n", []),
        (b"id: 1\nretry: 5\nother: x\ndata: x\n\n", [SseEvent("", "x")]),
        (b"data: x", [SseEvent("", "x")]),
        (b"data: x\r", [SseEvent("", "x")]),
        (b"event: a\n\ndata: x\n\n", [SseEvent("", "x")]),
        (b"data: \xff\n\n", [SseEvent("", "\ufffd")]),
        (b"", []),
    ],
)
def test_a_stream_is_read_as_the_format_says(stream: bytes, events: list[SseEvent]):
    assert parse(stream) == events


PIECES = st.sampled_from(
    [b"data: ", b"data", b":", b" ", b"event: e", b"\n", b"\r", b"\r\n", b"x", "é€".encode(), b"\xef\xbb\xbf", b": c"]
)


@given(st.lists(PIECES, max_size=40).map(b"".join), st.data())
def test_where_the_chunks_are_cut_changes_nothing(stream: bytes, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[start:stop] for start, stop in itertools.pairwise(bounds)]
    assert parse(*chunks) == parse(stream) == parse(*(bytes([byte]) for byte in stream))


def test_an_event_at_the_limit_is_given():
    assert SseParser(limit=10).feed(b"data: 123\n\n") == [SseEvent("", "123")]
    assert SseParser(limit=20).feed(b"data: 123456789\ndata: 123456789\n\n") == [SseEvent("", "123456789\n123456789")]


def test_an_event_over_the_limit_is_refused():
    with pytest.raises(SseTooLargeError):
        SseParser(limit=20).feed(b"data: 123456789\ndata: 1234567890\n\n")


def test_a_line_that_never_ends_is_refused():
    parser = SseParser(limit=20)
    parser.feed(b"x" * 20)
    with pytest.raises(SseTooLargeError):
        parser.feed(b"x")
