"""An embedder behind HTTP: any server that speaks OpenAI's /v1/embeddings, Ollama among them.

Owns: the request and the answer. Must not know: how a request is sent (`Post`), addresses and keys. The wire is
OpenAI's "Create embeddings" (POST {base_url}/embeddings with `model`, `input` and `encoding_format`).
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pattern_acp.memory.embeddings import EmbedderError, EmbeddingModel, TextUse, Vector, unit

FLOOR = 0.45
"""Cosine below which nothing is shown. Models differ; many give .3 and more to texts that have nothing in common."""

LONGEST_TEXT = 8_000
"""Characters of a text that are sent: about 2,000 tokens, which the smaller models take."""

TEXTS_A_REQUEST = 32


class Post(Protocol):
    """Sends one request to the embedder's server."""

    async def __call__(self, path: str, body: bytes) -> bytes:
        """The answer's body.

        Raises:
            EmbedderError: there was none, or it was a refusal; the sentence holds no key and no text.
        """
        ...


class _Item(msgspec.Struct):
    embedding: list[float]
    index: int = -1


class _Answer(msgspec.Struct):
    data: list[_Item]


class RemoteEmbedder:
    """`Embedder` by a server. `name` is `PROVIDER/MODEL`, of which the server learns the model."""

    is_immediate = False

    def __init__(self, name: str, post: Post) -> None:
        self.model = EmbeddingModel(name, 0, floor=FLOOR, trust=1.0)
        self._served_name = name.partition("/")[2]
        self._post = post

    async def prepare(self) -> None:
        """See `Embedder.prepare`; nothing is sent before there is a text."""

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        prefix = self._prefix(use)
        made: list[Vector] = []
        for first in range(0, len(texts), TEXTS_A_REQUEST):
            portion = [prefix + text[:LONGEST_TEXT] for text in texts[first : first + TEXTS_A_REQUEST]]
            made += await self._ask(portion)
        return tuple(made)

    async def _ask(self, texts: list[str]) -> list[Vector]:
        # Some servers refuse an empty text.
        asked = {"model": self._served_name, "input": [text or " " for text in texts], "encoding_format": "float"}
        body = await self._post("embeddings", msgspec.json.encode(asked))
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError as error:
            raise self._unusable() from error
        items = answer.data
        if len(items) != len(texts) or len({len(item.embedding) for item in items}) != 1:
            raise self._unusable()
        if {item.index for item in items} == set(range(len(texts))):
            items = sorted(items, key=lambda item: item.index)
        return [unit(item.embedding) for item in items]

    def _unusable(self) -> EmbedderError:
        return EmbedderError(
            f"The embedder {self.model.name} gave an answer that is no list of vectors; check its model."
        )

    def _prefix(self, use: TextUse) -> str:
        # nomic-embed-text and e5 are trained with these and lose much without them (their model cards).
        name = self._served_name.lower()
        if "nomic-embed" in name:
            return "search_query: " if use is TextUse.QUERY else "search_document: "
        if name.startswith(("e5-", "multilingual-e5")) or "/e5-" in name:
            return "query: " if use is TextUse.QUERY else "passage: "
        return ""
