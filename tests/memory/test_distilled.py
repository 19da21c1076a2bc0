"""The embedder that needs no package."""

from math import sqrt
from pathlib import Path

import pytest

from pattern_acp.bootstrap.embedding import choose_embedder
from pattern_acp.config.settings import MemorySettings, Settings
from pattern_acp.domain.clock import SystemClock
from pattern_acp.memory.embeddings import TextUse, cosine
from pattern_acp.memory.local_embedders import DIMENSIONS, DISTILLED, DistilledMiniLm
from pattern_acp.memory.service.search import knows


async def likeness(one: str, other: str) -> float:
    left, right = await DistilledMiniLm().embed((one, other), TextUse.STORED)
    return cosine(left, right)


@pytest.mark.parametrize(
    ("one", "like", "unlike"),
    [
        ("settings", "configuration", "banana"),
        ("delete the file", "remove a document", "play some music"),
        ("the user logs in", "login page", "compress the backup"),
    ],
)
async def test_words_that_mean_like_things_are_alike(one: str, like: str, unlike: str):
    assert await likeness(one, like) > 0.3 > await likeness(one, unlike)


async def test_vectors_have_length_one_and_those_of_nothing_none():
    full, empty = await DistilledMiniLm().embed(("a port of the database", ""), TextUse.QUERY)
    assert len(full) == len(empty) == DIMENSIONS
    assert sqrt(sum(value * value for value in full)) == pytest.approx(1.0, abs=1e-4)
    assert not any(empty)


async def test_many_texts_are_embedded_as_each_alone():
    texts = tuple(f"text number {number}" for number in range(5))
    embedder = DistilledMiniLm()
    await embedder.prepare()
    assert await embedder.embed(texts, TextUse.STORED) == tuple(
        [(await embedder.embed((text,), TextUse.STORED))[0] for text in texts]
    )


def test_it_is_chosen_by_name_and_orders_without_saying_anything_by_itself():
    settings = Settings(memory=MemorySettings(embedder="distilled"))
    assert choose_embedder(settings, SystemClock(), Path("models")).embedder.model is DISTILLED
    assert not knows(DISTILLED)
