from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.workspace.local_terminal import OutputBuffer


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in (*pieces, data) if piece]


@given(st.text(max_size=50), st.lists(st.integers(1, 5)))
def test_text_comes_back_however_it_was_cut(text: str, sizes: list[int]):
    buffer = OutputBuffer(1_000)
    taken = ""
    for piece in cut(text.encode(), sizes):
        buffer.append(piece)
        taken += buffer.take_fresh()
    buffer.finish()
    assert taken + buffer.take_fresh() == text
    assert buffer.output().text == text
    assert not buffer.output().truncated


@given(st.text(min_size=1, max_size=50), st.lists(st.integers(1, 5)), st.integers(0, 60))
def test_the_newest_whole_characters_within_the_limit_are_kept(text: str, sizes: list[int], limit: int):
    buffer = OutputBuffer(limit)
    data = text.encode()
    for piece in cut(data, sizes):
        buffer.append(piece)
    output = buffer.output()
    assert text.endswith(output.text)
    assert limit - 4 < len(output.text.encode()) <= limit or len(data) <= limit or limit < 4
    assert output.truncated is (len(data) > limit)


@given(st.binary(max_size=60), st.lists(st.integers(1, 5)))
def test_any_bytes_become_text(data: bytes, sizes: list[int]):
    buffer = OutputBuffer(1_000)
    for piece in cut(data, sizes):
        buffer.append(piece)
    buffer.finish()
    assert buffer.take_fresh() == data.decode("utf-8", "replace")


def test_what_nobody_takes_stays_within_the_limit():
    buffer = OutputBuffer(10)
    for _ in range(100):
        buffer.append(b"12345")
    assert buffer.take_fresh() == "1234512345"
