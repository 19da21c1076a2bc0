"""Lines and files of segments: nothing that was written is lost but a line that was cut off, and damage shows."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pattern_acp.db.raw import SqlValue
from pattern_acp.db.segment_files import (
    INLINE_BYTES,
    LINE_BYTES,
    LineTooLongError,
    SegmentDamageError,
    SegmentReading,
    SegmentWriter,
    Tail,
    decode_line,
    decode_row,
    delete_segments,
    encode_line,
    encode_rows,
    generations,
    next_generation,
    only_writer,
    read_header,
    read_lines,
    read_tail,
    read_value,
    segments,
)
from pattern_acp.domain.canonical import JsonObject

HEADER: JsonObject = {"segment": 1}

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=40),
)


class Kept:
    """Large values in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def fetch(self, name: str) -> bytes:
        return self.files[name]


def event(number: int) -> bytes:
    return encode_line({"e": [number, "x" * 20]})


def written(folder: Path, count: int) -> Path:
    generation = folder / "segments" / "0001"
    writer = SegmentWriter(generation, HEADER)
    for number in range(1, count + 1):
        writer.write(number, [event(number)])
    writer.close()
    return generation


def numbers(generation: Path, reading: SegmentReading) -> list[object]:
    lines = (line for segment in segments(generation) for line in read_lines(segment, reading))
    return [found[0] for line in lines if isinstance(found := line.get("e"), list)]


@example(["\x85\u2028"])  # ends of lines to Python, and none to whoever reads segments
@given(st.lists(VALUES, max_size=8))
def test_a_row_is_read_as_it_was_written(row: list[SqlValue]):
    kept = Kept()
    raw = encode_rows(lambda rows: {"e": rows[0]}, [tuple(row)], kept.keep)
    assert raw.startswith(b"\n")
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 2
    assert raw.decode("utf-8")
    assert decode_row(decode_line(raw.strip(b"\n"))["e"], kept.fetch) == tuple(row)


@given(st.data())
def test_a_line_with_another_byte_is_damaged(data: st.DataObject):
    raw = encode_line({"e": [1, "a text", {"b": "AAAA"}]}).strip(b"\n")
    place = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    with pytest.raises(SegmentDamageError):
        decode_line(raw[:place] + bytes([other]) + raw[place + 1 :])


@pytest.mark.parametrize("large", ["é" * INLINE_BYTES, b"\x00" * (INLINE_BYTES + 1)])
def test_a_large_value_is_a_file_of_its_own(tmp_path: Path, large: SqlValue):
    writer = SegmentWriter(tmp_path / "0001", HEADER)
    raw = encode_rows(lambda rows: {"e": rows[0]}, [(1, large)], writer.keep)
    assert len(raw) < 200
    row = decode_row(decode_line(raw.strip(b"\n"))["e"], lambda name: read_value(tmp_path / "0001", name))
    assert row == (1, large)
    [file] = (tmp_path / "0001" / "blobs").iterdir()
    file.write_bytes(b"something else")
    with pytest.raises(SegmentDamageError, match="is not what it was"):
        read_value(tmp_path / "0001", file.name)
    with pytest.raises(SegmentDamageError, match="cannot be read"):
        read_value(tmp_path / "0001", "0" * 64)


def test_many_values_that_are_large_together_leave_the_line_and_a_line_that_is_still_too_long_is_refused():
    kept = Kept()
    raw = encode_rows(lambda rows: {"e": rows[0]}, [tuple(str(n) * 60_000 for n in range(8))], kept.keep)
    assert len(raw) < LINE_BYTES
    assert len(kept.files) == 8
    with pytest.raises(LineTooLongError):
        encode_rows(lambda rows: {"e": rows[0]}, [tuple("x" * 1000 for _ in range(300))], kept.keep)


@pytest.mark.parametrize(
    "row", [{}, ["x", []], [{"b": "not base 64!"}], [{"f": "0" * 64}], [{"f": "surrogate", "k": "t"}]]
)
def test_what_is_no_row_is_damage(row: list[SqlValue]):
    def fetch(name: str) -> bytes:
        return b"\xff" if name == "surrogate" else b""

    with pytest.raises(SegmentDamageError):
        decode_row(row, fetch)


def test_a_segment_that_is_full_is_followed_by_one_that_is_named_by_its_first_event(tmp_path: Path):
    writer = SegmentWriter(tmp_path / "0001", HEADER, segment_bytes=150)
    for number in range(1, 8):
        writer.write(number, [event(number)])
    writer.close()
    names = [each.name for each in segments(tmp_path / "0001")]
    assert names[0] == "seg-000000000001.jsonl"
    assert len(names) > 2
    for name in names:
        first = next(read_lines(tmp_path / "0001" / name, SegmentReading()))
        assert name == f"seg-{first['first']:012}.jsonl"
    assert numbers(tmp_path / "0001", SegmentReading()) == list(range(1, 8))
    assert read_tail(tmp_path / "0001").seq == 7
    before = {each: each.read_bytes() for each in segments(tmp_path / "0001")[:-1]}
    again = SegmentWriter(tmp_path / "0001", HEADER, segment_bytes=150)
    again.write(8, [event(8)])
    again.close()
    assert {each: each.read_bytes() for each in before} == before


def test_wherever_the_last_line_is_cut_off_that_line_alone_is_lost(tmp_path: Path):
    generation = written(tmp_path, 3)
    [segment] = segments(generation)
    whole = segment.read_bytes()
    begins = whole.rindex(b'{"c"')
    for length in range(begins - 1, len(whole)):
        segment.write_bytes(whole[:length])
        reading = SegmentReading()
        assert numbers(generation, reading) == [1, 2]
        assert (reading.torn, reading.damaged) == (int(length > begins), [])
        assert read_tail(generation).seq == 2
        writer = SegmentWriter(generation, HEADER)
        writer.write(3, [event(3)])
        writer.close()
        again = SegmentReading()
        assert numbers(generation, again) == [1, 2, 3]
        assert (again.torn, again.damaged) == (int(length > begins), [])
        assert read_tail(generation).seq == 3


def test_a_damaged_line_in_the_middle_is_named_and_is_not_taken_for_one_that_was_cut_off(tmp_path: Path):
    generation = written(tmp_path, 3)
    [segment] = segments(generation)
    content = segment.read_bytes()
    place = content.index(b"[2,")
    segment.write_bytes(content[:place] + b"[9," + content[place + 3 :])
    reading = SegmentReading()
    assert numbers(generation, reading) == [1, 3]
    at = content.rindex(b'{"c"', 0, place)
    assert reading.damaged == [f"seg-000000000001.jsonl, byte {at}"]
    assert reading.torn == 0


def test_the_end_is_found_however_much_stands_before_it(tmp_path: Path):
    generation = tmp_path / "0001"
    writer = SegmentWriter(generation, HEADER)
    writer.write(1, [event(1), *(encode_line({"t": "x", "r": ["y" * 50_000]}) for _ in range(30))])
    writer.close()
    assert read_tail(generation) == Tail(1, (1, "x" * 20))
    assert read_header(generation) == {"segment": 1, "first": 1}
    assert read_tail(tmp_path / "empty") == Tail()
    assert read_header(tmp_path / "empty") == {}


def test_only_one_writes_at_a_time_and_deleting_waits_for_it(tmp_path: Path):
    path = tmp_path / "constellation.db"
    assert delete_segments(path, seconds=0)
    written(tmp_path, 1)
    assert [each.name for each in generations(path)] == ["0001"]
    assert next_generation(path).name == "0002"
    with only_writer(path) as first:
        with only_writer(path) as second:
            assert (first, second) == (True, False)
        assert not delete_segments(path, seconds=0.05)
    assert delete_segments(path, seconds=0)
    assert generations(path) == []


def test_a_value_is_kept_once_and_under_its_hash(tmp_path: Path):
    writer = SegmentWriter(tmp_path / "0001", HEADER)
    name = hashlib.sha256(b"content").hexdigest()
    writer.keep(name, b"content")
    writer.keep(name, b"content")
    assert read_value(tmp_path / "0001", name) == b"content"
    writer.close()
    with pytest.raises(SegmentDamageError):
        read_value(tmp_path / "0001", "../" + name)
