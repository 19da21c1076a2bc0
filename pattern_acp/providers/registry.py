"""All providers of the process.

Owns: the provider of a name, the wire of a provider, and the shared HTTP client. The client is imported at the first
request or `warm`, in a worker thread, and a wire when a model of it is resolved; building this imports neither, since
it is on the way to the first answer. Must not know: sessions.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.config.settings import HTTP_WIRES, ProviderSettings, Settings
from pattern_acp.domain.clock import Clock, SystemClock
from pattern_acp.providers.base import ModelInfo, Provider, ProviderRequest, Route
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.choose import LOCAL_SERVERS, ModelChoice, choose_model, usable_providers
from pattern_acp.providers.endpoints import HttpRequest, base_url, is_official, sent_openly
from pattern_acp.providers.http_errors import UnusableModelError
from pattern_acp.providers.keys import ProviderKeys, SettingsKeys, SignedProvider
from pattern_acp.providers.known_models import KnownModels, ModelLists
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.streaming import Decoder, ProviderWire

Describe = Callable[[str], ModelFacts]


class WireByModel:
    """OpenAI's own two wires: Responses for the models that the catalogue marks so, Chat Completions for others."""

    def __init__(self, chat: ProviderWire, responses: ProviderWire, describe: Describe) -> None:
        self._chat = chat
        self._responses = responses
        self._describe = describe

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return self._wire(request.model).encode(request)

    def new_decoder(self, request: ProviderRequest) -> Decoder:
        """See `Wire.new_decoder`."""
        return self._wire(request.model).new_decoder(request)

    def _wire(self, model: str) -> ProviderWire:
        return self._responses if self._describe(model).traits.speaks_responses else self._chat


def build_wire(settings: ProviderSettings, describe: Describe) -> ProviderWire:
    """The wire of a provider that is behind HTTP. `describe` returns the facts about a model."""
    if settings.wire == "anthropic" or settings.host in {"vertex", "bedrock"}:
        from pattern_acp.providers.anthropic import AnthropicWire, BedrockWire, VertexWire

        wires = {"vertex": VertexWire, "bedrock": BedrockWire}
        return wires.get(settings.host, AnthropicWire)(settings, describe)
    if settings.wire == "gemini":
        from pattern_acp.providers.gemini import GeminiWire

        return GeminiWire(settings, describe)
    if settings.wire == "responses":
        return _responses(settings, describe)
    from pattern_acp.providers.openai import OpenAIWire

    chat = OpenAIWire(settings, describe)
    return WireByModel(chat, _responses(settings, describe), describe) if is_official(settings) else chat


def _responses(settings: ProviderSettings, describe: Describe) -> ProviderWire:
    from pattern_acp.providers.openai_responses import ResponsesWire

    return ResponsesWire(settings, describe)


if TYPE_CHECKING:
    from pattern_acp.providers.fallback import Refusal, TokensOf
    from pattern_acp.providers.http import HttpClient

FIRST_LIST_SECONDS = 3.0
"""Longest wait of `choose` and `learn` for the list of a provider whose models are unknown."""

OFFLINE = ProviderSettings("offline", "offline")


class Providers:
    """Resolves `PROVIDER/MODEL`.

    `cache_dir` is for the model lists; None caches them in memory only. `keys` has the keys that are not in the
    settings.
    """

    def __init__(
        self,
        settings: Settings,
        cache_dir: Path | None = None,
        clock: Clock | None = None,
        retry: RetryPolicy | None = None,
        keys: ProviderKeys | None = None,
    ) -> None:
        self._settings = settings
        self._keys = keys or SettingsKeys()
        self._clock = clock or SystemClock()
        self._retry = retry or RetryPolicy()
        self._limiters = RateLimiters(self._clock, cache_dir)
        self._built: dict[str, Provider] = {}
        self._http = _SharedClient(settings, self._clock)
        self._configured: dict[str, ProviderSettings] = {
            **{server.name: server for server in LOCAL_SERVERS},
            **settings.providers,
            "offline": settings.providers.get("offline", OFFLINE),
        }
        self._known = {name: each for name, each in self._configured.items() if each.wire in HTTP_WIRES}
        """Providers behind HTTP, those that the client disabled as well."""
        lists = ModelLists(cache_dir, self._clock)
        self._models = KnownModels(
            self._with_stored_keys, self._configured, lists, self._http.ready, self._signed, settings.models
        )

    def routes(self) -> tuple[Route, ...]:
        """Return the ways to all providers behind HTTP, in the order of the settings."""
        used = {each.name for each in usable_providers(self._with_stored_keys())}
        return tuple(
            Route(name, each.wire, each.host, base_url(each) if name in used else "")
            for name, each in self._known.items()
        )

    async def set_route(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        """Reach a provider at another address from now on, until the process ends, with these headers and no key.

        Raises:
            UnusableModelError: there is no such provider behind HTTP.
        """
        settings = self._known_provider(name)
        routed = ProviderSettings(
            name, settings.wire, url, headers=dict(headers), quirks=settings.quirks, configured=True, is_routed=True
        )
        self._put(routed)
        with anyio.move_on_after(FIRST_LIST_SECONDS):
            await self._models.refresh_lists(only_unknown=True, only_of=name)

    def disable(self, name: str) -> None:
        """Use a provider no more, until the process ends or `set_route` brings it back.

        Raises:
            UnusableModelError: there is no such provider behind HTTP.
        """
        self._known_provider(name)
        self._configured.pop(name, None)
        self._built.pop(name, None)
        others = {key: each for key, each in self._settings.providers.items() if key != name}
        self._settings = replace(self._settings, providers=others)

    def default(self) -> ModelInfo:
        """Return the model to start with by what is known now."""
        return self.resolve(self.choice().qualified)[1]

    def _known_provider(self, name: str) -> ProviderSettings:
        if name not in self._known:
            names = ", ".join(sorted(self._known))
            raise UnusableModelError(f"There is no provider {name!r} to configure; there are {names}.")
        return self._known[name]

    def _put(self, settings: ProviderSettings) -> None:
        self._known[settings.name] = self._configured[settings.name] = settings
        self._built.pop(settings.name, None)
        self._settings = replace(self._settings, providers={**self._settings.providers, settings.name: settings})

    def _with_stored_keys(self) -> Settings:
        return replace(self._settings, providers=self._keys.with_stored_keys(self._settings.providers))

    async def _signed(self, settings: ProviderSettings) -> ProviderSettings:
        return settings if settings.is_routed else await self._keys.signed(settings)

    def available(self) -> tuple[ModelInfo, ...]:
        """The models to offer now: of every provider that is set up, of local servers, and `offline`.

        Cheap: from settings and the cached lists only.
        """
        return self._models.available()

    def resolve(self, qualified: str) -> tuple[Provider, ModelInfo]:
        """The provider and model of `PROVIDER/MODEL`; a model that no list names is passed on as it is.

        Raises:
            UnusableModelError: there is no such provider, or no model is named.
            ConfigError: the script of a scripted provider cannot be played.
        """
        name, _, model = qualified.partition("/")
        settings = self._configured.get(name)
        if settings is None:
            names = ", ".join(sorted(self._configured.keys() - {"scripted"}))
            raise UnusableModelError(f"There is no provider {name!r} (in {qualified!r}); providers are {names}.")
        if not model and settings.wire in HTTP_WIRES:
            raise UnusableModelError(f"{qualified!r} names no model; write PROVIDER/MODEL.")
        if name not in self._built:
            self._built[name] = self._build(settings)
        return self._built[name], self._models.describe(settings, model or settings.wire).info

    def with_fallback(
        self, provider: Provider, info: ModelInfo, tokens_of: "TokensOf", refusal: "Refusal | None" = None
    ) -> Provider:
        """See `session.constellation.Models`."""
        chain = [qualified for qualified in self._settings.fallback if qualified != info.qualified]
        if not chain:
            return provider
        from pattern_acp.providers.fallback import FallbackProvider

        patience_ms = self._settings.fallback_after_seconds * 1000
        return FallbackProvider(provider, chain, self.resolve, tokens_of, patience_ms, refusal)

    def missing_key(self, qualified: str) -> str:
        """A sentence that names the variable when the provider needs a key and has none; else empty."""
        settings = self._configured.get(qualified.partition("/")[0])
        if settings is None or settings.wire not in HTTP_WIRES or settings.is_routed:
            return ""
        held = self._keys.with_stored_keys({settings.name: settings})[settings.name]
        if held.api_key is not None or not (settings.needs_key or is_official(settings)):
            return ""
        from pattern_acp.providers.http_errors import auth_error

        return auth_error(settings, None).sentence

    def key_in_use(self, qualified: str) -> str:
        """Describe the source of the model provider's key, with its last four characters; empty without a key."""
        settings = self._configured.get(qualified.partition("/")[0])
        unkeyed = settings is None or settings.wire not in HTTP_WIRES or settings.is_routed
        return "" if settings is None or unkeyed else self._keys.used(settings)

    def key_warning(self, qualified: str) -> str:
        """A sentence when the key of the model's provider goes to it unencrypted; else empty."""
        settings = self._configured.get(qualified.partition("/")[0])
        warning = "" if settings is None else sent_openly(settings)
        # Keys are looked for last, since that asks the disk.
        has_secret = settings is not None and bool(settings.headers or (warning and self.key_in_use(qualified)))
        return warning if has_secret else ""

    def choice(self) -> ModelChoice:
        """The model to start with by what is known now; nothing is asked, so this may be called at any time."""
        return choose_model(self._with_stored_keys(), self._models.names(), self._models.local)

    async def choose(self) -> ModelChoice:
        """The model to start with; asks local servers (at most 0.3 s) or one list when nothing else is known.

        Not for the way to `initialize`. Never raises.
        """
        choice = self.choice()
        name = self._settings.model.partition("/")[0]
        is_named = bool(self._settings.model) and not choice.problem
        if is_named or (choice.provider != "offline" and not choice.problem) or name == "offline":
            return choice
        with anyio.move_on_after(FIRST_LIST_SECONDS):
            await self._models.refresh_lists(only_unknown=True)
        choice = self.choice()
        if choice.provider == "offline" or choice.problem:
            await self._models.find_local()
        return self.choice()

    async def refresh(self, model: str = "") -> None:
        """Fetch the lists that are older than a day, and look for local servers. Off the hot path; never raises.

        For one `model` only the list of its provider, if none was ever seen and nothing else says how large the window
        is: a first request that is longer would be refused. Other lists wait: they would take their time from the first
        turn.
        """
        if model:
            if self._models.window_is_assumed(model):
                await self._models.refresh_lists(only_unknown=True, only_of=model.partition("/")[0])
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._models.refresh_lists)
            if not any(usable_providers(self._with_stored_keys())):
                tasks.start_soon(self._models.find_local)

    async def learn(self, qualified: str) -> None:
        """Wait for the list of a model's provider if nothing else says how large its window is.

        Once for each provider, and at most `FIRST_LIST_SECONDS`: a request for the assumed window would be refused by a
        smaller one. Never raises.
        """
        if self._models.window_is_assumed(qualified):
            with anyio.move_on_after(FIRST_LIST_SECONDS):
                await self._models.first_list(qualified.partition("/")[0])

    def warm(self, qualified: str) -> None:
        """Get ready for the first request to a model: the client, and certificates where the server is behind TLS.

        Blocking (about 0.1 s for certificates), for a worker thread.
        """
        settings = self._configured.get(qualified.partition("/")[0])
        if settings is not None and settings.wire in HTTP_WIRES:
            self._http.built().warm(base_url(settings))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _build(self, settings: ProviderSettings) -> Provider:
        if settings.wire == "offline":
            from pattern_acp.providers.offline import OfflineProvider

            return OfflineProvider()
        if settings.wire == "scripted":
            return _scripted(settings)
        from pattern_acp.providers.fallback import ImageTrial
        from pattern_acp.providers.text_tools import TextToolsProvider

        def calls_tools(model: str) -> bool:
            return self._models.describe(settings, model).info.calls_tools

        keys = SettingsKeys() if settings.is_routed else self._keys
        signed = SignedProvider(settings, keys, self._build_wire)
        tries_images = partial(self._models.tries_images, settings)
        seeing = ImageTrial(signed, tries_images, partial(self._models.learn_images, settings))
        return TextToolsProvider(seeing, calls_tools, partial(self._models.learn_no_tools, settings))

    def _build_wire(self, settings: ProviderSettings) -> Provider:
        from pattern_acp.providers.streaming import WireProvider

        def known(model: str) -> ModelFacts:
            return self._models.describe(settings, model)

        wire = build_wire(settings, known)
        needs_key = settings.needs_key or is_official(settings)
        sign = partial(self._keys.sign, settings) if settings.signs else None
        return WireProvider(
            settings, wire, self._http.ready, self._retry, self._limiters, needs_key=needs_key, sign=sign
        )


class _SharedClient:
    """The HTTP client of the process, built when it is first needed."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._turn = settings.turn
        self._clock = clock
        self._lock = threading.Lock()
        self._http: HttpClient | None = None

    def built(self) -> "HttpClient":
        """The client. Imports it, so this is for a worker thread; safe from any."""
        from pattern_acp.providers.http import Deadlines, HttpClient

        with self._lock:
            if self._http is None:
                turn = self._turn
                deadlines = Deadlines(
                    turn.provider_connect_seconds,
                    turn.provider_first_byte_seconds,
                    turn.provider_idle_seconds,
                    turn.provider_total_seconds,
                )
                self._http = HttpClient(deadlines, self._clock)
            return self._http

    async def ready(self) -> "HttpClient":
        """The client; it is imported in a worker thread when nothing has done so yet."""
        return self._http or await anyio.to_thread.run_sync(self.built)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()


def _scripted(settings: ProviderSettings) -> Provider:
    from pattern_acp.providers.scripted import ScriptedProvider, load_script

    if not settings.script:
        raise UnusableModelError(f"The provider {settings.name} has no script; set PATTERN_ACP_SCRIPT to a file.")
    script = load_script(Path(settings.script))
    return ScriptedProvider(
        script.turns,
        name=settings.name,
        chunk=script.chunk,
        repeat=script.repeat,
        subagents=script.subagents,
        keeps_requests=False,
    )
