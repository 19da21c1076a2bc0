"""What every `Embedder` does. A new implementation adds its factory to `EMBEDDERS`.

The embedder on this machine takes part where its optional package is installed.
"""

import json
from collections.abc import Callable
from math import sqrt

import anyio
import pytest

from pattern_acp.memory.embeddings import Embedder, HashedNgrams, TextUse, Vector, cosine, hashed_vector
from pattern_acp.memory.local_embedders import MiniLm, is_installed
from pattern_acp.memory.remote_embedder import TEXTS_A_REQUEST, RemoteEmbedder


async def answer_as_a_server(path: str, body: bytes) -> bytes:
    """Vectors of another length and scale than ours, in another order than asked."""
    assert path == "embeddings"
    items = [
        {"index": place, "embedding": [5.0 * value for value in hashed_vector(text)]}
        for place, text in enumerate(json.loads(body)["input"])
    ]
    return json.dumps({"object": "list", "data": items[::-1], "model": "m"}).encode()


def remote() -> Embedder:
    return RemoteEmbedder("lab/model", answer_as_a_server)


EMBEDDERS: dict[str, Callable[[], Embedder]] = {"hashed": HashedNgrams, "remote": remote}
if is_installed():
    EMBEDDERS["minilm"] = MiniLm

TEXTS = [
    "The tests run with pytest.",
    "Nobody likes a broken build.",
    "def parse(line): ...",
    "ünï — 中文 🎉",
    "x" * 20_000,
]


@pytest.fixture(params=list(EMBEDDERS))
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return EMBEDDERS[request.param]()


async def embedded(embedder: Embedder, *texts: str, use: TextUse = TextUse.STORED) -> tuple[Vector, ...]:
    with anyio.fail_after(20):
        return await embedder.embed(texts, use)


def length(vector: Vector) -> float:
    return sqrt(sum(value * value for value in vector))


async def test_every_vector_has_length_1_and_the_same_number_of_dimensions(embedder: Embedder):
    vectors = await embedded(embedder, *TEXTS)
    assert [length(vector) for vector in vectors] == pytest.approx([1.0] * len(TEXTS), abs=1e-3)
    assert len({len(vector) for vector in vectors}) == 1
    assert embedder.model.dimensions in {0, len(vectors[0])}


async def test_vectors_come_in_the_order_of_the_texts(embedder: Embedder):
    many = [f"text number {number} about {'abcdefgh'[number % 8] * 5}" for number in range(TEXTS_A_REQUEST + 3)]
    together = await embedded(embedder, *many)
    for place in (0, 1, TEXTS_A_REQUEST - 1, TEXTS_A_REQUEST, len(many) - 1):
        [alone] = await embedded(embedder, many[place])
        assert cosine(alone, together[place]) == pytest.approx(1.0, abs=1e-3)


async def test_no_texts_have_no_vectors(embedder: Embedder):
    assert await embedded(embedder) == ()


async def test_a_text_that_says_nothing_has_a_vector_of_length_0_or_1(embedder: Embedder):
    for vector in await embedded(embedder, "", "  \n"):
        assert length(vector) == pytest.approx(0.0, abs=1e-3) or length(vector) == pytest.approx(1.0, abs=1e-3)


async def test_a_text_is_nearer_to_its_question_than_another(embedder: Embedder):
    near, far = await embedded(embedder, "The tests run with pytest.", "Her birthday is in May.")
    [query] = await embedded(embedder, "running tests with pytest", use=TextUse.QUERY)
    assert cosine(query, near) > cosine(query, far)


def test_what_is_stored_with_vectors_and_how_far_they_are_trusted_makes_sense(embedder: Embedder):
    model = embedder.model
    assert model.name
    assert 0.0 < model.floor < 1.0
    assert 0.0 < model.trust <= 1.0
