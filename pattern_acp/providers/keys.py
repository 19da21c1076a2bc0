"""Keys that are not in the settings: their port, and the provider that asks it at each request.

Owns: getting the key before a request, and once more when the provider refuses it. Must not know: where keys are stored
and how they are renewed (`bootstrap` connects `credentials`).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

from pattern_acp.config.settings import ProviderSettings, Secret
from pattern_acp.providers.base import Provider, ProviderEvent, ProviderRequest, TokenCounter
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http_errors import ProviderAuthError
from pattern_acp.providers.retry import is_content


class ProviderKeys(Protocol):
    """The keys of providers."""

    def with_stored_keys(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        """Mark those as set up for which a key is stored. Cheap; the key in them is not for sending."""
        ...

    def used(self, settings: ProviderSettings) -> str:
        """Describe the source of the key in use, with its last four characters; empty without one. Cheap."""
        ...

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        """`settings` with the key to send now. `refused` is one that the provider has just refused.

        Raises:
            ProviderAuthError: the user has to sign in again.
            ProviderConnectionError: the key cannot be renewed at the moment.
        """
        ...

    async def sign(self, settings: ProviderSettings, request: HttpRequest) -> HttpRequest:
        """Sign `request` for a provider whose settings were `signed`. Raises like `signed`."""
        ...


class SettingsKeys:
    """`ProviderKeys` without a store: the keys of the settings."""

    def with_stored_keys(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        """See `ProviderKeys.with_stored_keys`."""
        return providers

    def used(self, settings: ProviderSettings) -> str:
        """See `ProviderKeys.used`."""
        return settings.api_key.source if settings.api_key is not None else ""

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        """See `ProviderKeys.signed`."""
        del refused
        return settings

    async def sign(self, settings: ProviderSettings, request: HttpRequest) -> HttpRequest:
        """See `ProviderKeys.sign`."""
        del settings
        return request


class SignedProvider:
    """`Provider` that gets its key at each request. `build` makes the provider for settings with a key."""

    def __init__(
        self, settings: ProviderSettings, keys: ProviderKeys, build: Callable[[ProviderSettings], Provider]
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._build = build
        self._built: tuple[ProviderSettings, Provider] | None = None

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._settings.name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`. A key that is refused is renewed once, and the request sent once more."""
        return aclosing(self._events(request))

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`."""
        counter = self._provider(await self._keys.signed(self._settings))
        return await counter.count_tokens(request) if isinstance(counter, TokenCounter) else None

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        signed = await self._keys.signed(self._settings)
        has_content = False
        try:
            async with self._provider(signed).stream(request) as events:
                async for event in events:
                    has_content = has_content or is_content(event)
                    yield event
        except ProviderAuthError:
            renewed = signed if has_content else await self._keys.signed(self._settings, signed.api_key)
            if renewed.api_key == signed.api_key:
                raise
        else:
            return
        async with self._provider(renewed).stream(request) as events:
            async for event in events:
                yield event

    def _provider(self, signed: ProviderSettings) -> Provider:
        if self._built is None or self._built[0] != signed:
            self._built = (signed, self._build(signed))
        return self._built[1]
