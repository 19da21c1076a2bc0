"""The existing models: the providers' lists, cached in a file, and the servers on this machine.

Owns: this knowledge, its file, and refreshing it off the hot path. Must not know: providers' streams and the choice.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from pattern_acp.config.settings import HTTP_WIRES, ModelSettings, ProviderSettings, Settings
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.providers.base import ModelInfo, ModelProperty
from pattern_acp.providers.catalogue import (
    WELL_KNOWN,
    ListedModel,
    ModelFacts,
    Source,
    configure,
    describe,
    is_chat_model,
    source_of,
    vendor_name,
    with_sources,
)
from pattern_acp.providers.choose import LOCAL_SECONDS, LOCAL_SERVERS, LocalServer, usable_providers
from pattern_acp.providers.endpoints import base_url, has_vendor_names, is_openai

FILE_NAME = "model-lists.json"
FRESH_MS = 24 * 60 * 60 * 1000
"""A list is fetched once a day (issue 2, section 6)."""

REFUSED_MS = 30 * FRESH_MS
"""Time for which a refusal of tools or images counts: a server may learn them with an update."""

MAX_FILE_BYTES = 4 * 1024 * 1024
"""OpenRouter's list of some hundred models takes about 60 kB here."""


class _Entry(msgspec.Struct, frozen=True):
    base_url: str
    fetched_at_ms: int
    models: tuple[ListedModel, ...]


class _File(msgspec.Struct, frozen=True):
    lists: dict[str, _Entry] = msgspec.field(default_factory=dict[str, _Entry])
    no_tools: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Times of models' refusals of tools, by address and name."""
    no_images: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """The same of images."""


class ModelLists:
    """Lists by provider. Without a `directory`, nothing outlasts the process. They are read once, at first use."""

    def __init__(self, directory: Path | None, clock: Clock) -> None:
        self._path = None if directory is None else directory / FILE_NAME
        self._clock = clock
        self._loaded: _File | None = None

    def models(self, settings: ProviderSettings) -> tuple[ListedModel, ...]:
        """The last known list, however old; empty when there is none for this provider at this address."""
        entry = self._entry(settings)
        return () if entry is None else entry.models

    def is_fresh(self, settings: ProviderSettings) -> bool:
        """Return whether the list was fetched within the last day."""
        entry = self._entry(settings)
        return entry is not None and 0 <= self._clock.now_ms() - entry.fetched_at_ms < FRESH_MS

    def put(self, settings: ProviderSettings, models: tuple[ListedModel, ...]) -> None:
        """Keep a list that was just fetched; `save` writes it."""
        self._file().lists[settings.name] = _Entry(base_url(settings), self._clock.now_ms(), models)

    def refuses_tools(self, settings: ProviderSettings, model: str) -> bool:
        """Return whether a model said lately that it takes no tools."""
        refused = self._file().no_tools
        return bool(refused) and self._is_recent(refused.get(f"{base_url(settings)} {model}"))

    def refuses_images(self, settings: ProviderSettings, model: str) -> bool:
        """Return whether a model said lately that it takes no images."""
        refused = self._file().no_images
        return bool(refused) and self._is_recent(refused.get(f"{base_url(settings)} {model}"))

    def _is_recent(self, refused: int | None) -> bool:
        return refused is not None and 0 <= self._clock.now_ms() - refused < REFUSED_MS

    def put_no_tools(self, settings: ProviderSettings, model: str) -> None:
        """Keep that a model takes no tools; `save` writes it."""
        self._file().no_tools[f"{base_url(settings)} {model}"] = self._clock.now_ms()

    def put_no_images(self, settings: ProviderSettings, model: str, *, refused: bool = True) -> None:
        """Keep that a model takes no images, or forget it; `save` writes it."""
        key, known = f"{base_url(settings)} {model}", self._file().no_images
        if refused:
            known[key] = self._clock.now_ms()
        else:
            known.pop(key, None)

    def save(self) -> None:
        """Write the file. Blocking, for a worker thread. A directory that cannot be written only costs the cache."""
        if self._path is None:
            return
        data = msgspec.json.encode(self._file())
        # Whole or not at all: another process may read it at any moment.
        partial = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            partial.replace(self._path)
        except OSError:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _entry(self, settings: ProviderSettings) -> _Entry | None:
        entry = self._file().lists.get(settings.name)
        return entry if entry is not None and entry.base_url == base_url(settings) else None

    def _file(self) -> _File:
        if self._loaded is None:
            self._loaded = _read(self._path)
        return self._loaded


def _read(path: Path | None) -> _File:
    if path is None:
        return _File()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        return msgspec.json.decode(data, type=_File) if len(data) <= MAX_FILE_BYTES else _File()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _File()


async def listening_servers(candidates: Sequence[ProviderSettings], seconds: float) -> tuple[ProviderSettings, ...]:
    """Return the candidates whose port accepts a connection within `seconds` in all, in order. Never raises."""
    found: set[str] = set()

    async def knock(settings: ProviderSettings) -> None:
        if await _takes_connections(base_url(settings)):
            found.add(settings.name)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for settings in candidates:
                tasks.start_soon(knock, settings)
    return tuple(settings for settings in candidates if settings.name in found)


async def _takes_connections(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        stream = await anyio.connect_tcp(parts.hostname or "", port)
    except (OSError, ValueError):
        # Nobody there, or an address that is none.
        return False
    await stream.aclose()
    return True


if TYPE_CHECKING:
    from pattern_acp.providers.http import HttpClient

logger = logging.getLogger(__name__)

MAX_OFFERED = 200
"""Models of one provider that are offered; OpenRouter lists hundreds, and an editor shows them in one menu. Any other
can still be named."""


_AT_ITS_VENDOR = late_pattern(r"gpt-\d|chatgpt-|o\d(-|$)|claude-|gemini-|grok-([3-9]|code)")
"""Models whose weights their vendors never published (OpenAI, Anthropic, Google, xAI; November 2026)."""

MOST_KEPT = 1_000
"""Limit on models whose computed facts are cached."""


class KnownModels:
    """The models of `configured` providers.

    `settings` returns the current ones, `http` the shared client, and `sign` a provider with the key to send.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        configured: Mapping[str, ProviderSettings],
        lists: ModelLists,
        http: "Callable[[], Awaitable[HttpClient]]",
        sign: Callable[[ProviderSettings], Awaitable[ProviderSettings]],
        own: Mapping[str, ModelSettings],
    ) -> None:
        """`own` has the user's settings of models, by `PROVIDER/MODEL`."""
        self._own = own
        self._settings = settings
        self._configured = configured
        self._lists = lists
        self._http = http
        self._sign = sign
        self.local: tuple[LocalServer, ...] = ()
        """The servers found on this machine so far."""
        self._kept: dict[tuple[str, str], tuple[object, ModelFacts]] = {}
        self._asked: dict[str, anyio.Event] = {}
        """Providers whose list was asked for, each with what is set once that has an end."""

    def _facts(self, settings: ProviderSettings, model: str, listed: ListedModel | None) -> ModelFacts:
        over_http = settings.wire in HTTP_WIRES
        refuses_tools = over_http and self._lists.refuses_tools(settings, model)
        refuses_images = over_http and self._lists.refuses_images(settings, model)
        # Needed eight times a turn, and computed again only after a change.
        key, known_by = (settings.name, model), (settings, listed, refuses_tools, refuses_images)
        kept = self._kept.get(key)
        if kept is None or kept[0] != known_by:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            facts = self._found(settings, model, listed, refuses_tools=refuses_tools, refuses_images=refuses_images)
            kept = self._kept[key] = (known_by, facts)
        return kept[1]

    def _found(
        self,
        settings: ProviderSettings,
        model: str,
        listed: ListedModel | None,
        *,
        refuses_tools: bool,
        refuses_images: bool,
    ) -> ModelFacts:
        facts = _describe(settings, model, listed)
        if refuses_images:
            info = with_sources(replace(facts.info, sees_images=False), Source.ANSWER, ModelProperty.IMAGES)
            facts = replace(facts, info=info)
        elif settings.wire in HTTP_WIRES and source_of(facts.info, ModelProperty.IMAGES) == Source.ASSUMED:
            # They are sent once; a model that takes none says so, and gets words in their place from then on.
            facts = replace(facts, info=replace(facts.info, sees_images=True))
        if refuses_tools:
            info = with_sources(replace(facts.info, calls_tools=False), Source.ANSWER, ModelProperty.TOOLS)
            facts = replace(facts, info=info)
        own = self._own.get(f"{settings.name}/{model}")
        return facts if own is None else configure(facts, own)

    def available(self) -> tuple[ModelInfo, ...]:
        """See `Providers.available`."""
        found: dict[str, ModelInfo] = {}
        local = [server.settings for server in self.local]
        for provider in (*usable_providers(self._settings()), *local, self._configured["offline"]):
            listed = {model.name: model for model in self._listed(provider)}
            for name in self._names(provider):
                info = self._facts(provider, name, listed.get(name)).info
                found.setdefault(info.qualified, info)
        return tuple(found.values())

    def describe(self, settings: ProviderSettings, model: str) -> ModelFacts:
        """Return the facts about one model, with the provider's own list laid over the catalogue."""
        listed = next((entry for entry in self._listed(settings) if entry.name == model), None)
        return self._facts(settings, model, listed)

    def window_is_assumed(self, qualified: str) -> bool:
        """Return whether only a provider's list can say how large the window of `PROVIDER/MODEL` is."""
        name, _, model = qualified.partition("/")
        settings = self._configured.get(name)
        if settings is None or settings.wire not in HTTP_WIRES:
            return False
        return source_of(self.describe(settings, model).info, ModelProperty.WINDOW) == Source.ASSUMED

    async def learn_no_tools(self, settings: ProviderSettings, model: str) -> None:
        """Keep that a model refused tools."""
        self._lists.put_no_tools(settings, model)
        await anyio.to_thread.run_sync(self._lists.save)

    def tries_images(self, settings: ProviderSettings, model: str) -> bool:
        """Return whether nobody knows that a model takes images, which it is sent all the same."""
        info = self.describe(settings, model).info
        return info.sees_images and source_of(info, ModelProperty.IMAGES) == Source.ASSUMED

    async def learn_images(self, settings: ProviderSettings, model: str, *, refused: bool) -> None:
        """Keep that a model refused images, or that it was not for them that it refused a request."""
        self._lists.put_no_images(settings, model, refused=refused)
        await anyio.to_thread.run_sync(self._lists.save)

    def names(self) -> Mapping[str, tuple[str, ...]]:
        """All listed names by provider, unfiltered."""
        return {
            name: tuple(model.name for model in self._listed(settings)) for name, settings in self._configured.items()
        }

    async def first_list(self, provider: str) -> None:
        """Fetch the list of one provider that nobody has asked for its list yet, or wait for the one who does."""
        asked = self._asked.get(provider)
        if asked is not None:
            await asked.wait()
        else:
            await self.refresh_lists(only_unknown=True, only_of=provider)

    async def refresh_lists(self, *, only_unknown: bool = False, only_of: str = "") -> None:
        """Fetch the lists, of one provider or all, that are older than a day or unknown.

        For a provider whose models the user names, the list is fetched only for `only_of`: it has more than names.
        """
        wanted = [
            provider
            for provider in usable_providers(self._settings())
            if provider.wire in HTTP_WIRES
            and only_of in {"", provider.name}
            and (only_of or not provider.models)
            and not provider.host
            and not self._lists.is_fresh(provider)
            and not (only_unknown and self._listed(provider))
        ]
        if not wanted:
            return
        asked = [self._asked.setdefault(provider.name, anyio.Event()) for provider in wanted]
        try:
            async with anyio.create_task_group() as tasks:
                for provider in wanted:
                    tasks.start_soon(self._refresh_list, provider)
        finally:
            for each in asked:
                each.set()
        await anyio.to_thread.run_sync(self._lists.save)

    async def find_local(self) -> None:
        """Look for local servers, at most 0.3 s, and ask those that listen for their models."""
        candidates = [self._configured[server.name] for server in LOCAL_SERVERS]
        candidates = await listening_servers(candidates, LOCAL_SECONDS)
        if not candidates:
            self.local = ()
            return
        http = await self._http()
        # After the client, which a worker thread imported.
        from pattern_acp.providers.discovery import find_local_servers

        self.local = await find_local_servers(http, candidates)

    async def _refresh_list(self, provider: ProviderSettings) -> None:
        http = await self._http()
        # After the client, which a worker thread imported.
        from pattern_acp.providers.discovery import LIST_SECONDS, fetch_models

        with anyio.move_on_after(LIST_SECONDS):
            try:
                self._lists.put(provider, await fetch_models(http, await self._sign(provider)))
            except ProviderError as error:
                # The list of yesterday, or the default model, serves as well; `doctor` reports reachability.
                logger.info("No model list: %s", error.sentence)

    def _listed(self, settings: ProviderSettings) -> tuple[ListedModel, ...]:
        for server in self.local:
            if server.settings.name == settings.name:
                return server.models
        return self._lists.models(settings) if settings.wire in HTTP_WIRES else ()

    def _names(self, settings: ProviderSettings) -> tuple[str, ...]:
        """The models of one provider to offer, the default first when no list is known yet."""
        if settings.models:
            return settings.models
        if settings.wire in {"offline", "scripted"}:
            return (settings.wire,)
        at_openai = is_openai(settings)
        listed = [model.name for model in self._listed(settings)]
        chat = tuple(name for name in listed if is_chat_model(name, is_openai=at_openai))
        own = [name.partition("/")[2] for name in self._own if name.startswith(f"{settings.name}/")]
        offered = chat[:MAX_OFFERED] or (WELL_KNOWN[settings.wire] if has_vendor_names(settings) else ())
        return tuple(dict.fromkeys((*offered, *own)))


def _describe(settings: ProviderSettings, model: str, listed: ListedModel | None) -> ModelFacts:
    facts = describe(settings.name, model, listed, is_openai=is_openai(settings))
    if facts.info.prices or not _is_on_this_machine(settings) or _runs_at_its_vendor(model):
        return facts
    free = replace(facts.info, is_free=True)
    # Nobody knows whether a server runs the model or passes requests on.
    return replace(
        facts, info=free if settings.wire == "offline" else with_sources(free, Source.ASSUMED, ModelProperty.PRICES)
    )


def _runs_at_its_vendor(model: str) -> bool:
    """Return whether only the vendor has the model's weights: a server of it on this machine is a paid gateway."""
    return _AT_ITS_VENDOR.match(vendor_name(model.rsplit("/", 1)[-1].lower())) is not None


def _is_on_this_machine(settings: ProviderSettings) -> bool:
    return settings.wire == "offline" or (
        settings.wire in HTTP_WIRES and urlsplit(base_url(settings)).hostname in {"127.0.0.1", "::1", "localhost"}
    )
