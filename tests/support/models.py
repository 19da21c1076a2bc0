"""`FakeModels`: providers for tests of sessions, by name."""

from collections.abc import Mapping, Sequence

from pattern_acp.providers.base import ModelInfo, Provider, Route, ThoughtLevel
from pattern_acp.providers.fallback import FallbackProvider, Refusal, TokensOf
from pattern_acp.providers.http_errors import ProviderRequestError


class FakeModels:
    """`session.constellation.Models` over given providers, each with one model of its own name."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)
        self.without_key: dict[str, str] = {}
        """Sentences of `missing_key`, by provider."""
        self.fallback: tuple[str, ...] = ()
        """What stands in for a provider that is out."""
        self.keys: dict[str, str] = {}
        """What `key_in_use` says, by provider."""
        self.warnings: dict[str, str] = {}
        """What `key_warning` says, by provider."""
        self.infos = {name: fake_model(name) for name in providers}
        """What is known of each provider's model."""
        self.known_routes: dict[str, Route] = {}
        """What `routes` says, by provider."""
        self.headers: dict[str, dict[str, str]] = {}
        """The headers that a client set, by provider."""
        self.unlearned: dict[str, ModelInfo] = {}
        """What `learn` finds out, by provider."""

    def available(self) -> Sequence[ModelInfo]:
        """See `Models.available`."""
        return tuple(self.infos.values())

    def resolve(self, qualified: str) -> tuple[Provider, ModelInfo]:
        """See `Models.resolve`."""
        name = qualified.partition("/")[0]
        if name not in self._providers:
            raise ProviderRequestError(f"There is no provider {name!r}; configure one in config.toml.")
        return self._providers[name], self.infos[name]

    def with_fallback(
        self, provider: Provider, info: ModelInfo, tokens_of: TokensOf, refusal: Refusal | None = None
    ) -> Provider:
        """See `Models.with_fallback`; no rate limit is waited for."""
        chain = [qualified for qualified in self.fallback if qualified != info.qualified]
        return FallbackProvider(provider, chain, self.resolve, tokens_of, 0, refusal) if chain else provider

    def missing_key(self, qualified: str) -> str:
        """See `Models.missing_key`."""
        return self.without_key.get(qualified.partition("/")[0], "")

    def key_in_use(self, qualified: str) -> str:
        """See `Models.key_in_use`."""
        return self.keys.get(qualified.partition("/")[0], "")

    def default(self) -> ModelInfo:
        """See `Models.default`."""
        return self.available()[0]

    def routes(self) -> Sequence[Route]:
        """See `Models.routes`."""
        return tuple(self.known_routes.values())

    async def set_route(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        """See `Models.set_route`; the headers are kept."""
        if name not in self.known_routes:
            raise ProviderRequestError(f"There is no provider {name!r} to configure.")
        self.known_routes[name] = Route(name, "anthropic", "", url)
        self.headers[name] = dict(headers)

    def disable(self, name: str) -> None:
        """See `Models.disable`."""
        if name not in self.known_routes:
            raise ProviderRequestError(f"There is no provider {name!r} to configure.")
        self.known_routes[name] = Route(name, "anthropic", "", "")

    async def learn(self, qualified: str) -> None:
        """See `Models.learn`."""
        name = qualified.partition("/")[0]
        self.infos[name] = self.unlearned.pop(name, self.infos[name])

    def key_warning(self, qualified: str) -> str:
        """See `Models.key_warning`."""
        return self.warnings.get(qualified.partition("/")[0], "")


def fake_model(name: str) -> ModelInfo:
    """A model that can do everything."""
    return ModelInfo(
        name,
        "test",
        context_window=100_000,
        sees_images=True,
        thought_levels=(ThoughtLevel.OFF, ThoughtLevel.LOW, ThoughtLevel.HIGH),
    )
