"""Vectors at rest, and the embedder that needs nothing."""

from array import array

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.memory.embeddings import (
    DIMENSIONS,
    HashedNgrams,
    TextUse,
    cosine,
    from_bytes,
    hashed_vector,
    to_bytes,
    unit,
)

FIRST_OF_PORT = (0, 0.0368)

finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@given(st.lists(finite, min_size=1, max_size=40))
def test_a_vector_survives_being_stored(values: list[float]):
    vector = array("f", values)
    assert from_bytes(to_bytes(vector)) == vector


def test_bytes_that_are_no_floats_give_an_empty_vector():
    assert from_bytes(b"abc") == array("f")


@given(st.lists(finite, min_size=1, max_size=40))
def test_a_unit_vector_is_of_length_one_or_nothing(values: list[float]):
    vector = unit(values)
    assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-3) or not any(vector)


def test_vectors_of_different_models_are_not_alike():
    assert cosine(unit([1.0]), unit([1.0, 0.0])) == 0.0


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_any_text_has_a_vector_of_the_right_size(text: str):
    vector = hashed_vector(text)
    assert len(vector) == DIMENSIONS
    assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-4) or not any(vector)


def test_a_text_is_most_like_itself():
    assert cosine(hashed_vector("the port is 5433"), hashed_vector("The port is 5433.")) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("persisted", "message persistence", "message rendering"),
        ("getUserId", "the user id", "the order number"),
        ("authentification", "authentication of users", "animation of users"),
        ("dockerimage", "Docker images are built", "Doctors are imagined builders"),
    ],
)
def test_other_forms_and_misspellings_are_nearer_than_other_words(query: str, near: str, far: str):
    asked = hashed_vector(query)
    assert cosine(asked, hashed_vector(near)) > cosine(asked, hashed_vector(far)) + 0.1


def test_the_same_text_has_the_same_vector_in_every_process():
    # Python's own hash differs from process to process; what is stored would then be worthless.
    vector = hashed_vector("port")
    first = next(place for place, value in enumerate(vector) if value)
    assert (first, round(vector[first], 4)) == FIRST_OF_PORT


async def test_many_texts_come_in_order():
    texts = [f"text number {number}" for number in range(40)]
    with anyio.fail_after(30):
        made = await HashedNgrams().embed(texts, TextUse.STORED)
    assert made == tuple(hashed_vector(text) for text in texts)
