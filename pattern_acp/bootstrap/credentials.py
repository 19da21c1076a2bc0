"""Connects stored keys with providers: the keyring and the file of this person, and HTTP for renewals.

Owns: the translation of sign-in errors into those of providers, and telling the log what to mask.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.config.logs import mask_also
from pattern_acp.config.settings import ProviderSettings, Secret
from pattern_acp.credentials.keys import StoredKeys, renewal_lock, with_stored_key
from pattern_acp.credentials.model import Credential, SignInTransientError, TokenAnswer
from pattern_acp.credentials.store import SERVER_PREFIX, SYNC_KEY, CredentialStore, SystemKeyring
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import ProviderError, SignInError
from pattern_acp.mcp_servers.catalogue import LOGIN_PREFIX, Login, Redirects
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http_errors import ProviderAuthError, ProviderConnectionError

if TYPE_CHECKING:
    # At run time when a provider at that cloud is asked for the first time.
    from pattern_acp.credentials.aws_keys import AwsKeys
    from pattern_acp.credentials.google_tokens import GoogleTokens
    from pattern_acp.providers.http import HttpClient

POST_SECONDS = 30.0
"""Longest wait for an authorization server; a user is waiting for it."""

CLOSE_SECONDS = 0.3


class KeysOfPerson:
    """`providers.keys.ProviderKeys` over the stored keys of this user."""

    def __init__(self, process: Process) -> None:
        directory = process.loaded.paths.data
        self.store = CredentialStore(directory, SystemKeyring())
        self.stored = StoredKeys(self.store, directory, post_once, SystemClock())
        self._google_tokens: GoogleTokens | None = None
        self._aws_keys: AwsKeys | None = None

    def with_stored_keys(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        """See `ProviderKeys.with_stored_keys`."""
        entries = self.store.entries()
        return {name: each if each.is_routed else with_stored_key(each, entries) for name, each in providers.items()}

    def used(self, settings: ProviderSettings) -> str:
        """See `ProviderKeys.used`."""
        sources = self.stored.sources(settings)
        return sources[0].sentence if sources else ""

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        """See `ProviderKeys.signed`."""
        value = refused.value if refused is not None else ""
        with _translated():
            key = await self.stored.key(settings, value)
            if key is None and settings.host and not _names_its_own(settings):
                return await self._signed_by_cloud(settings, value)
        if key is not None:
            mask_also(key.value)
        return _with_key(settings, key)

    async def search_key(self, owner: ProviderSettings | None) -> str:
        """Return the key of a vendor of web search, as `web.pages.key_owner` names it.

        Raises:
            PageFailedError: the stored one cannot be obtained.
        """
        try:
            key = await self.stored.key(owner) if owner is not None else None
        except SignInError as error:
            from pattern_acp.web import PageFailedError

            raise PageFailedError(error.sentence) from error
        if key is not None:
            mask_also(key.value)
        return key.value if key is not None else ""

    async def sign(self, settings: ProviderSettings, request: HttpRequest) -> HttpRequest:
        """See `ProviderKeys.sign`."""
        with _translated():
            headers = await self._aws().sign(settings.name, settings.region, request.url, request.headers, request.body)
        return replace(request, headers=headers)

    async def _signed_by_cloud(self, settings: ProviderSettings, refused: str) -> ProviderSettings:
        if settings.host == "bedrock":
            return replace(settings, api_key=await self._aws().key(settings.name, refused), signs=True)
        token = await self._google().token(settings.name, refused)
        mask_also(token.secret.value)
        return replace(settings, api_key=token.secret, project=settings.project or token.project)

    def _google(self) -> "GoogleTokens":
        from pattern_acp.credentials.google_tokens import GoogleTokens

        if self._google_tokens is None:
            self._google_tokens = GoogleTokens(exchange_once, SystemClock())
        return self._google_tokens

    def _aws(self) -> "AwsKeys":
        from pattern_acp.credentials.aws_keys import AwsKeys

        if self._aws_keys is None:
            self._aws_keys = AwsKeys()
        return self._aws_keys

    def kept(self) -> list[str]:
        """Return the names of the keys that are stored. Logins, tokens of servers and the key of sync are none."""
        others = (LOGIN_PREFIX, SERVER_PREFIX)
        return [name for name in self.store.entries() if name != SYNC_KEY and not name.startswith(others)]

    async def forget_all(self) -> None:
        """Forget every key that is stored. Logins at MCP servers stay: `pattern-acp mcp logout` forgets those.

        Raises:
            SignInError: one of them cannot be forgotten.
        """
        for provider in self.kept():
            await anyio.to_thread.run_sync(self.store.delete, provider)


class StoredLogins:
    """`mcp_servers.catalogue.Logins` in the user's store of credentials."""

    def __init__(self, process: Process, *, in_file: bool = False, browser: bool = True) -> None:
        self._directory = process.loaded.paths.data
        self._in_file = in_file
        self.store = CredentialStore(self._directory, SystemKeyring())
        self.shows_browser = browser and can_show_browser(process.environ, sys.platform)

    def now_ms(self) -> int:
        """See `Logins.now_ms`."""
        return SystemClock().now_ms()

    async def load(self, key: str) -> Login | None:
        """See `Logins.load`."""
        if key not in self.store.entries():
            return None
        found = await anyio.to_thread.run_sync(self.store.load, key)
        if found is None:
            return None
        login = Login(found.secret, found.refresh_token, found.expires_at_ms, found.client)
        _mask(login)
        return login

    async def save(self, key: str, login: Login) -> None:
        """See `Logins.save`."""
        _mask(login)
        entry = self.store.entries().get(key)
        in_file = self._in_file or (entry is not None and entry.place == "file")
        credential = Credential(login.access_token, "oauth", login.refresh_token, login.expires_at_ms, login.client)
        await anyio.to_thread.run_sync(lambda: self.store.save(key, credential, in_file=in_file))

    def locked(self, key: str) -> AbstractAsyncContextManager[None]:
        """See `Logins.locked`."""
        return renewal_lock(self._directory, key.removeprefix(LOGIN_PREFIX), f"mcp-{sha256_hex(key.encode())[:16]}")

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[Redirects]:
        """See `Logins.listen`."""
        listen_for_redirect = await anyio.to_thread.run_sync(_load_listener)
        async with listen_for_redirect(port) as redirects:
            yield redirects

    async def open_browser(self, url: str) -> None:
        """See `Logins.open_browser`."""
        if self.shows_browser:
            import webbrowser

            await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)


def _load_listener() -> Callable[[int], AbstractAsyncContextManager[Redirects]]:
    from pattern_acp.credentials.signing_in import listen_for_redirect

    return listen_for_redirect


def can_show_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Tell whether the user sees a browser that is opened here.

    Over SSH it is not, and where there is no display, a browser in text mode would take over this terminal.
    """
    if environ.get("BROWSER"):
        return True
    if any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY")):
        return False
    return platform in {"win32", "darwin"} or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _mask(login: Login) -> None:
    mask_also(login.access_token)
    mask_also(login.refresh_token)


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except SignInTransientError as error:
        raise ProviderConnectionError(error.sentence) from error
    except SignInError as error:
        raise ProviderAuthError(error.sentence, failure_code=error.failure_code) from error


def _with_key(settings: ProviderSettings, key: Secret | None) -> ProviderSettings:
    return settings if key is settings.api_key else replace(settings, api_key=key, configured=True)


def _names_its_own(settings: ProviderSettings) -> bool:
    return any(name.lower() == "authorization" for name in settings.headers)


def exchange_once(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float, /
) -> TokenAnswer:
    """See `credentials.model.Exchange`."""
    from pattern_acp.providers.http_proxies import exchange

    try:
        return TokenAnswer(*exchange(method, url, headers, body, seconds, "The cloud's sign-in"))
    except ProviderError as error:
        raise SignInTransientError(error.sentence) from error


async def post_once(url: str, headers: Mapping[str, str], body: bytes, /) -> tuple[int, bytes]:
    """See `credentials.model.Post`. A connection of its own: sign-ins and renewals are rare."""
    try:
        # In a worker thread, as everywhere: reading certificates takes 0.1 s.
        http = await anyio.to_thread.run_sync(_new_client, url)
    except ProviderError as error:
        raise SignInTransientError(error.sentence) from error
    try:
        with anyio.fail_after(POST_SECONDS):
            async with http.post(HttpRequest("The authorization server", url, headers, body)) as response:
                return response.status, await response.read()
    except TimeoutError:
        raise SignInTransientError(f"The authorization server did not answer within {POST_SECONDS:.0f} s.") from None
    except ProviderError as error:
        raise SignInTransientError(error.sentence) from error
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            await http.aclose()


def _new_client(url: str) -> "HttpClient":
    from pattern_acp.providers.http import Deadlines, HttpClient

    http = HttpClient(Deadlines(), SystemClock())
    http.warm(url)
    return http
