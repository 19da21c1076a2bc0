from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.jsonrpc.transport import LineDecoder, Oversize


def decode(chunks: list[bytes], limit: int) -> list[bytes | Oversize]:
    decoder = LineDecoder(limit=limit)
    lines = [line for chunk in chunks for line in decoder.feed(chunk)]
    return lines + decoder.finish()


def test_a_line_ends_at_the_line_feed():
    assert decode([b'{"a":1}\n{"b', b'":2}\n'], 100) == [b'{"a":1}', b'{"b":2}']


def test_a_carriage_return_before_the_line_feed_is_no_part_of_the_line():
    assert decode([b"a\r", b"\nb\r\n"], 100) == [b"a", b"b"]


def test_blank_lines_are_left_out():
    assert decode([b"\n\r\n  \na\n\n"], 100) == [b"a"]


def test_the_last_line_needs_no_line_feed():
    assert decode([b"a\nb"], 100) == [b"a", b"b"]


def test_a_line_at_the_limit_passes_and_one_byte_more_does_not():
    assert decode([b"12345\n123456\n12345\r\n1\n"], 5) == [b"12345", Oversize(5), b"12345", b"1"]


def test_a_line_that_is_too_long_is_not_kept_in_memory():
    decoder = LineDecoder(limit=10)
    for _ in range(1000):
        assert decoder.feed(b"x" * 1000) == []
    assert decoder.feed(b"\nnext\n") == [Oversize(10), b"next"]


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r", b"\r\n", b" ", b"0123456789"])).map(b"".join),
    st.data(),
    st.integers(1, 12),
)
def test_lines_do_not_depend_on_how_the_bytes_are_cut(stream: bytes, data: st.DataObject, limit: int):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode(chunks, limit) == decode([stream], limit)
