"""What models there are: the providers' lists, and the servers found on this machine.

Owns: keeping that knowledge and refreshing it off the hot path. Must not know: providers' streams and the choice.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.config.settings import HTTP_WIRES, ModelSettings, ProviderSettings, Settings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.providers.base import Figure, ModelInfo
from pattern_acp.providers.catalogue import (
    WELL_KNOWN,
    ListedModel,
    ModelFacts,
    configure,
    describe,
    is_chat_model,
    vendor_name,
)
from pattern_acp.providers.choose import usable_providers
from pattern_acp.providers.endpoints import base_url, has_vendor_names, is_openai
from pattern_acp.providers.local_servers import LOCAL_SECONDS, LOCAL_SERVERS, LocalServer
from pattern_acp.providers.model_figures import Source, source_of, with_sources
from pattern_acp.providers.model_lists import ModelLists


async def listening(candidates: Sequence[ProviderSettings], seconds: float) -> tuple[ProviderSettings, ...]:
    """The candidates whose port takes a connection within `seconds` in all, in their order. Never raises."""
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
"""Models whose weights their vendors never gave away (OpenAI, Anthropic, Google, xAI; November 2026)."""

MOST_KEPT = 1_000
"""Models whose facts are kept as they were put together."""


class KnownModels:
    """The models of `configured` providers.

    `settings` gives those of now, `http` the shared client, and `sign` a provider with the key to send.
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
        """`own` is what the person says of models, by `PROVIDER/MODEL`."""
        self._own = own
        self._settings = settings
        self._configured = configured
        self._lists = lists
        self._http = http
        self._sign = sign
        self.local: tuple[LocalServer, ...] = ()
        """The servers found on this machine so far."""
        self._kept: dict[tuple[str, str], tuple[tuple[ProviderSettings, ListedModel | None, bool], ModelFacts]] = {}
        self._asked: dict[str, anyio.Event] = {}
        """Providers whose list was asked for, each with what is set once that has an end."""

    def _facts(self, settings: ProviderSettings, model: str, listed: ListedModel | None) -> ModelFacts:
        refuses_tools = settings.wire in HTTP_WIRES and self._lists.refuses_tools(settings, model)
        # Asked for eight times a turn, and found out anew only when something of it has changed.
        key, known_by = (settings.name, model), (settings, listed, refuses_tools)
        kept = self._kept.get(key)
        if kept is None or kept[0] != known_by:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = (known_by, self._found(settings, model, listed, refuses_tools=refuses_tools))
        return kept[1]

    def _found(
        self, settings: ProviderSettings, model: str, listed: ListedModel | None, *, refuses_tools: bool
    ) -> ModelFacts:
        facts = _describe(settings, model, listed)
        if refuses_tools:
            info = with_sources(replace(facts.info, calls_tools=False), Source.ANSWER, Figure.TOOLS)
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
        """What is known of one model, with the provider's own list laid over the catalogue."""
        listed = next((entry for entry in self._listed(settings) if entry.name == model), None)
        return self._facts(settings, model, listed)

    def window_is_assumed(self, qualified: str) -> bool:
        """Whether nothing but a provider's list can say how large the window of `PROVIDER/MODEL` is."""
        name, _, model = qualified.partition("/")
        settings = self._configured.get(name)
        if settings is None or settings.wire not in HTTP_WIRES:
            return False
        return source_of(self.describe(settings, model).info, Figure.WINDOW) == Source.ASSUMED

    async def learn_no_tools(self, settings: ProviderSettings, model: str) -> None:
        """Keep that a model refused tools."""
        self._lists.put_no_tools(settings, model)
        await anyio.to_thread.run_sync(self._lists.save)

    def names(self) -> Mapping[str, tuple[str, ...]]:
        """All listed names by provider, unfiltered."""
        return {
            name: tuple(model.name for model in self._listed(settings)) for name, settings in self._configured.items()
        }

    async def first_list(self, provider: str) -> None:
        """Fetch the list of one provider that nobody has asked for its list yet, or wait for whoever does."""
        asked = self._asked.get(provider)
        if asked is not None:
            await asked.wait()
        else:
            await self.refresh_lists(only_unknown=True, only_of=provider)

    async def refresh_lists(self, *, only_unknown: bool = False, only_of: str = "") -> None:
        """Fetch the lists, of one provider or all, that are older than a day or that are not known at all.

        Of a provider whose models the person names, the list is fetched only when it is the one: it tells more than
        names.
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
        """Look for local servers, at most 0.3 s, and httpx's import when something listens."""
        candidates = [self._configured[server.name] for server in LOCAL_SERVERS]
        candidates = await listening(candidates, LOCAL_SECONDS)
        if not candidates:
            self.local = ()
            return
        http = await self._http()
        # After the client, whose import of httpx ran in a worker thread.
        from pattern_acp.providers.discovery import find_local_servers

        self.local = await find_local_servers(http, candidates)

    async def _refresh_list(self, provider: ProviderSettings) -> None:
        http = await self._http()
        # After the client, whose import of httpx ran in a worker thread.
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
    # Whether a server runs the model or passes requests on, nobody says.
    return replace(
        facts, info=free if settings.wire == "offline" else with_sources(free, Source.ASSUMED, Figure.PRICES)
    )


def _runs_at_its_vendor(model: str) -> bool:
    """Whether nobody else has the model's weights: what offers it on this machine is a gateway, and somebody pays."""
    return _AT_ITS_VENDOR.match(vendor_name(model.rsplit("/", 1)[-1].lower())) is not None


def _is_on_this_machine(settings: ProviderSettings) -> bool:
    return settings.wire == "offline" or (
        settings.wire in HTTP_WIRES and urlsplit(base_url(settings)).hostname in {"127.0.0.1", "::1", "localhost"}
    )
