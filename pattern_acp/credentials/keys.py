"""The key that a provider gets, and its renewal.

Owns: the order of the sources (an explicit choice of the user beats what is merely present), and refreshing OAuth
tokens once for all callers, also across processes. Must not know: wires and sessions.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.config.settings import Host, ProviderSettings, Secret
from pattern_acp.credentials.model import (
    Credential,
    CredentialFileError,
    HttpPost,
    KeySource,
    KeyTier,
    SignInRevokedError,
    SignInTransientError,
    StoredEntry,
    last_four,
)
from pattern_acp.credentials.store import CredentialStore
from pattern_acp.domain.clock import Clock

REFRESH_BEFORE_MS = 60_000
"""Time before its expiry at which a token is renewed, so that a request that streams for a while still has a valid
one."""

REFRESH_LOCK_SECONDS = 45.0
"""Longest wait for another process that renews the same token; its request has a deadline of its own."""

LOCK_POLL_SECONDS = 0.05

_NAMES = {KeyTier.KEYRING: "the keyring", KeyTier.FILE: "the credentials file", KeyTier.OAUTH: "the sign-in (OAuth)"}

_CLOUDS: Mapping[Host, str] = {
    "vertex": "Google's application default credentials",
    "bedrock": "the AWS credential chain",
}


class StoredKeys:
    """Keys of providers, over the settings and the store. `directory` is for the locks of renewals."""

    def __init__(self, store: CredentialStore, directory: Path, post: HttpPost, clock: Clock) -> None:
        self._store = store
        self._directory = directory
        self._post = post
        self._clock = clock
        self._renewing: dict[str, anyio.Lock] = {}
        self._loaded: dict[str, tuple[StoredEntry, Credential]] = {}

    def sources(self, settings: ProviderSettings) -> tuple[KeySource, ...]:
        """List every source of a key for a provider, the first in use first. Cheap; asks no keyring."""
        return key_sources(settings, self._store.entries().get(settings.name))

    async def key(self, settings: ProviderSettings, refused: str = "") -> Secret | None:
        """Return the key to use now; renewed when it expires within 60 s, or when it is `refused` and can be renewed.

        Raises:
            SignInError: the stored one cannot be obtained or renewed; the class says why.
        """
        own = settings.api_key if settings.api_key is not None and settings.api_key.value else None
        sources = self.sources(settings)
        if not sources or sources[0].tier in {KeyTier.CONFIG, KeyTier.ENVIRONMENT}:
            return own
        credential = await self._load(settings.name)
        if credential is None:
            return own
        if self._is_over(credential, refused):
            credential = await self._renew(settings, credential, refused)
        return Secret(credential.secret, _NAMES[sources[0].tier])

    async def _load(self, provider: str) -> Credential | None:
        """Load the stored credential; what came from the keyring is cached until the file says otherwise."""
        entry = self._store.entries().get(provider)
        known = self._loaded.get(provider)
        if entry is not None and known is not None and known[0] == entry and entry.kind == "api_key":
            return known[1]
        credential = await anyio.to_thread.run_sync(self._store.load, provider)
        if entry is not None and credential is not None:
            self._loaded[provider] = (entry, credential)
        return credential

    def _is_over(self, credential: Credential, refused: str) -> bool:
        if credential.kind != "oauth":
            return False
        if refused and credential.secret == refused:
            return True
        expires = credential.expires_at_ms
        return expires is not None and expires - self._clock.now_ms() <= REFRESH_BEFORE_MS

    async def _renew(self, settings: ProviderSettings, seen: Credential, refused: str) -> Credential:
        async with self._renewing.setdefault(settings.name, anyio.Lock()), renewal_lock(self._directory, settings.name):
            # The previous holder of the lock may have renewed it: then its token counts, and the network is not asked
            # again.
            found = await anyio.to_thread.run_sync(self._store.load, settings.name)
            if found is None:
                raise SignInRevokedError(f"{settings.name} was signed out meanwhile; sign in again.")
            is_new = found.secret != seen.secret and self._is_usable_still(found, refused)
            # Some servers' tokens live shorter than `REFRESH_BEFORE_MS`: a new one counts as expired by that, and works
            # all the same.
            if is_new or not self._is_over(found, refused):
                return found
            # A server that rotates tokens voids the old one when it answers: a cancellation must not lose the new one.
            return await self._refreshed(settings, found, refused)

    async def _refreshed(self, settings: ProviderSettings, found: Credential, refused: str) -> Credential:
        current = found
        with anyio.CancelScope(shield=True):
            try:
                current = await self._refresh(settings, found)
            except SignInTransientError:
                if not self._is_usable_still(found, refused):
                    raise
            else:
                await anyio.to_thread.run_sync(self._save, settings.name, current)
        return current

    async def _refresh(self, settings: ProviderSettings, found: Credential) -> Credential:
        from pattern_acp.credentials.oauth import DevicePending, read_token, refresh_form

        advice = f"run `pattern-acp auth login {settings.name}`"
        if settings.oauth is None:
            raise SignInRevokedError(
                f"The sign-in at {settings.name} needs renewal and [providers.{settings.name}.oauth] is gone; put it "
                f"back, or {advice}."
            )
        if not found.refresh_token:
            raise SignInRevokedError(f"The sign-in at {settings.name} is over and cannot be renewed; {advice}.")
        form = refresh_form(settings.oauth, found.refresh_token)
        answer = await self._post(form.url, form.headers, form.body)
        try:
            return read_token(*answer, self._clock.now_ms(), found)
        except SignInRevokedError:
            raise SignInRevokedError(
                f"The sign-in at {settings.name} is over (it expired, or was taken back); {advice}."
            ) from None
        except DevicePending:
            raise SignInTransientError(f"{settings.name} answered a renewal with nothing; try again.") from None

    def _is_usable_still(self, found: Credential, refused: str) -> bool:
        """Return whether a token that is about to expire may serve once more, because its server is away."""
        expires = found.expires_at_ms
        return found.secret != refused and expires is not None and expires > self._clock.now_ms()

    def _save(self, provider: str, credential: Credential) -> None:
        entry = self._store.entries().get(provider)
        self._store.save(provider, credential, in_file=entry is not None and entry.place == "file")


@asynccontextmanager
async def renewal_lock(directory: Path, provider: str, file: str = "") -> AsyncGenerator[None]:
    """Keep other processes from renewing the tokens of `provider` meanwhile. `file`: part of the lock's name.

    Raises:
        SignInError: the lock cannot be obtained; the class says why.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(directory / f"renew-{file or provider}.lock", thread_local=False, mode=0o600)
    try:
        with anyio.fail_after(REFRESH_LOCK_SECONDS):
            while True:
                try:
                    # This system call does not block, so that a cancellation never leaves a lock behind.
                    lock.acquire(blocking=False)
                    break
                except Timeout:
                    await anyio.sleep(LOCK_POLL_SECONDS)
    except TimeoutError:
        raise SignInTransientError(
            f"Another process has been renewing the sign-in at {provider} for {REFRESH_LOCK_SECONDS:.0f} s; try again."
        ) from None
    except OSError as error:
        raise CredentialFileError(f"{directory} cannot be written ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()


def key_sources(settings: ProviderSettings, entry: StoredEntry | None) -> tuple[KeySource, ...]:
    """List every source of a key, in the order of preference.

    A variable that config.toml names comes first, then the key from `auth login`, then the provider's usual variable:
    that one is often set for another program, and would be billed without anybody having asked for it.
    """
    found: list[KeySource] = []
    if settings.api_key is not None and settings.api_key.value:
        tier = KeyTier.CONFIG if settings.key_variable_named else KeyTier.ENVIRONMENT
        found.append(KeySource(tier, settings.api_key.source or tier.value, last_four(settings.api_key.value)))
    if entry is not None:
        stored = KeySource(entry.tier, _NAMES[entry.tier], entry.last_four, entry.expires_at_ms)
        found.insert(1 if settings.key_variable_named and found else 0, stored)
    if settings.host and settings.configured:
        found.append(KeySource(KeyTier.CLOUD, _CLOUDS[settings.host], ""))
    return tuple(found)


def with_stored_key(settings: ProviderSettings, entries: Mapping[str, StoredEntry]) -> ProviderSettings:
    """Return `settings` marked as set up if a key is stored; the key itself comes from `StoredKeys.key`."""
    entry = entries.get(settings.name)
    if entry is None or (settings.api_key is not None and settings.key_variable_named):
        return settings
    return replace(settings, api_key=Secret("", _NAMES[entry.tier]), configured=True)
