"""Comparing with every vector."""

from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.memory.embeddings import hashed_vector, to_bytes, unit
from pattern_acp.memory.vectors import WORTH_NUMPY, cosines


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=20))
def test_each_vector_gets_its_cosine_in_order(texts: list[str]):
    stored = [to_bytes(hashed_vector(text)) for text in texts]
    for place, text in enumerate(texts):
        alike = cosines(hashed_vector(text), stored)
        assert len(alike) == len(texts)
        assert alike[place] == pytest.approx(max(alike), abs=1e-5)


def test_a_vector_of_another_length_is_like_nothing():
    assert cosines(unit([1.0, 2.0]), [to_bytes(unit([1.0, 2.0])), to_bytes(unit([1.0])), b"", b"abc"])[1:] == [0, 0, 0]


@pytest.mark.skipif(find_spec("numpy") is None, reason="numpy is not installed")
def test_numpy_gives_the_same_order():
    stored = [to_bytes(hashed_vector(f"text number {number}")) for number in range(WORTH_NUMPY)]
    query = hashed_vector("number 77 of the texts")
    fast, slow = cosines(query, stored), cosines(query, stored, may_use_numpy=False)
    assert fast == pytest.approx(slow, abs=1e-5)
