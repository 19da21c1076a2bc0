"""What is packed is unpacked as it was, also what an older program packed."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.journal.contents import PackedError, pack, unpack


@given(st.one_of(st.binary(max_size=200), st.text(max_size=50).map(lambda text: text.encode() * 40)))
def test_whatever_is_packed_comes_back_and_is_never_longer(content: bytes):
    encoding, packed = pack(content)
    assert len(packed) <= len(content)
    assert unpack(encoding, packed) == content


def test_what_zlib_packed_before_stays_readable():
    assert unpack("zlib", zlib.compress(b"words " * 100)) == b"words " * 100


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("zstd", b"no frame"), ("zstd", pack(b"x" * 999)[1][:-2]), ("zlib", b"no stream"), ("lzma", b"")],
)
def test_what_is_damaged_or_not_known_is_an_error(encoding: str, packed: bytes):
    with pytest.raises(PackedError):
        unpack(encoding, packed)
