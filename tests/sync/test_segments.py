"""A segment opens under its name and key, as it was written, and otherwise not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.sync.segments import (
    Segment,
    SegmentName,
    SyncKeyError,
    key_text,
    name_of,
    new_key,
    read_key,
    seal,
    unseal,
)

KEY = new_key()
DEVICE = "device_" + "a" * 32
NAME = SegmentName(DEVICE, 7)
SEGMENT = Segment(b"an archive", "laptop", {"device_b": 3}, ("device_c",), 12)


def test_a_segment_opens_under_its_name_alone():
    sealed = seal(KEY, NAME, SEGMENT)
    assert b"laptop" not in sealed
    assert unseal(KEY, NAME, sealed) == SEGMENT
    for other in (SegmentName(DEVICE, 8), SegmentName(DEVICE, 7, whole=True), SegmentName("device_" + "b" * 32, 7)):
        assert unseal(KEY, other, sealed) is None
    with pytest.raises(SyncKeyError, match="another key"):
        unseal(new_key(), NAME, sealed)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), length=st.floats(0, 1, exclude_max=True))
def test_a_changed_or_torn_segment_does_not_open(at: float, bit: int, length: float):
    sealed = seal(KEY, NAME, SEGMENT)
    changed = bytearray(sealed)
    changed[int(at * len(sealed))] ^= 1 << bit
    for content in (bytes(changed), sealed[: int(length * len(sealed))]):
        try:
            assert unseal(KEY, NAME, content) is None
        except SyncKeyError:
            assert content[19:27] != sealed[19:27]


@given(key=st.binary(min_size=32, max_size=32), slip=st.integers(0, 71))
def test_a_key_is_read_as_it_was_shown_and_a_slip_is_noticed(key: bytes, slip: int):
    shown = key_text(key)
    assert read_key(f" {shown[:20]}\n{shown[20:]} ") == key
    digits = shown.replace("-", "")
    wrong = digits[:slip] + ("1" if digits[slip] == "0" else "0") + digits[slip + 1 :]
    for typed in (wrong, digits[:-1], "", "my key"):
        with pytest.raises(SyncKeyError):
            read_key(typed)


@pytest.mark.parametrize(
    "file",
    [
        "00000007.segment.part",
        ".00000007.segment.1a2b.part",
        "00000007 (conflicted copy 2026-11-29).segment",
        "00000007.sync-conflict-20261129-211820-ABCDEFG.segment",
        "00000007.segment~",
        "7.segment",
        "desktop.ini",
    ],
)
def test_other_files_of_a_folder_are_no_segments(file: str):
    assert name_of(DEVICE, "00000007.segment") == NAME
    assert name_of(DEVICE, NAME.file) == NAME
    assert name_of(DEVICE, file) is None
    assert name_of("device_x", "00000007.segment") is None
