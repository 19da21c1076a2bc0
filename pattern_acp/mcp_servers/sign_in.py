"""Signing in at a server over HTTP, and requests that carry the login: OAuth 2.1 through the `mcp` package.

The package finds the authorization server, registers us there, builds and checks the authorization request (PKCE,
state, issuer) and the requests for tokens. Owns: the browser's way back, deadlines, and renewing tokens once for
everybody who asks, also across processes. Must not know: where logins are stored.
"""

import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import cast
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from pattern_acp import __version__
from pattern_acp.config.oauth import is_safe_address
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.errors import SignInError
from pattern_acp.mcp_servers.catalogue import Login, Logins, Redirects, login_key

logger = logging.getLogger(__name__)
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
"""The package logs what it also raises, with the answers of authorization servers in it."""

SIGN_IN_SECONDS = 300.0
"""As long as a user may take, with a second factor and a password that has to be looked up."""

REQUEST_SECONDS = 30.0

SIGNED_IN = "You are signed in. You can close this page and go back."

_CODE_ALONE = re.compile(r"[A-Za-z0-9._~+-][A-Za-z0-9._~+/=-]{7,2047}")
"""The form of codes; an address has a colon, and the path of a redirect begins with a slash."""

Show = Callable[[str], Awaitable[None]]
"""Shows the user the address to sign in at."""

Hooks = dict[str, list[Callable[..., Awaitable[None]]]]

Pasted = Callable[[], Awaitable[str]]
"""The next line that the user pastes; waits until there is one."""


class _Nowhere:
    """The package's store of tokens; ours is asked by us, since it has to be locked."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        del client_info


class _Provider(OAuthClientProvider):
    """The package's client, with what it learned as a `Login`, and renewal as a step of its own."""

    def login(self, now_ms: int) -> Login:
        """Return the login to store."""
        tokens, client = self.context.current_tokens, self.context.client_info
        if tokens is None or client is None:
            raise OAuthTokenError("no token")
        learned = {
            "client": client,
            "server": self.context.oauth_metadata,
            "resource": self.context.protected_resource_metadata,
        }
        whole = {name: each.model_dump(mode="json", exclude_none=True) for name, each in learned.items() if each}
        # Servers whose tokens last until they are taken back say 0.
        expires = now_ms + tokens.expires_in * 1000 if tokens.expires_in else None
        return Login(tokens.access_token, tokens.refresh_token or "", expires, json.dumps(whole))

    async def renewed(self, login: Login, now_ms: int) -> Login:
        """The login with a new access token.

        Raises:
            SignInError: the authorization server does not renew it, or cannot now.
            TimeoutError, httpx2.HTTPError: it cannot be reached.
            ValueError, KeyError: what is stored is not ours.
        """
        whole = cast("dict[str, object]", json.loads(login.client))
        server, resource, context = whole.get("server"), whole.get("resource"), self.context
        context.client_info = OAuthClientInformationFull.model_validate(whole["client"])
        context.oauth_metadata = OAuthMetadata.model_validate(server) if server else None
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource) if resource else None
        context.protocol_version = types.LATEST_PROTOCOL_VERSION
        context.current_tokens = OAuthToken(access_token=login.access_token, refresh_token=login.refresh_token)
        request = await self._refresh_token()
        with anyio.fail_after(REQUEST_SECONDS):
            async with httpx2.AsyncClient(timeout=REQUEST_SECONDS, event_hooks=_guarded(context.server_url)) as client:
                response = await client.send(request)
        if response.status_code == 429 or response.status_code >= 500:
            raise SignInError("its authorization server cannot renew the login now", failure_code="auth.try-again")
        if not await self._handle_refresh_response(response):
            raise SignInError("the login is over and cannot be renewed", failure_code="auth.revoked")
        return self.login(now_ms)


def _provider(
    settings: McpServerSettings,
    redirect_uri: str,
    redirect: Callable[[str], Awaitable[None]] | None = None,
    come_back: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> _Provider:
    oauth = settings.oauth
    method = "client_secret_post" if oauth.client_secret else "none"
    shared = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": method}
    program = {"client_name": "pattern-acp", "software_id": "pattern-acp", "software_version": __version__}
    about = OAuthClientMetadata.model_validate({**shared, **program})
    known = None
    if oauth.client_id:
        own = {"client_id": oauth.client_id, "client_secret": oauth.client_secret}
        known = OAuthClientInformationFull.model_validate({**shared, **own})
    return _Provider(settings.url, about, _Nowhere(known), redirect, come_back)


class StoredLogin(httpx2.Auth):
    """Lets requests carry the login that is stored for their server, renewed where it is over.

    A login that is made while the server is in use serves from the next request on.
    """

    def __init__(self, settings: McpServerSettings, logins: Logins) -> None:
        self._settings = settings
        self._logins = logins
        self._key = login_key(settings.url)
        self._login: Login | None = None
        self._is_loaded = False
        self._dead = ""
        """A refresh token that the authorization server takes no more."""
        self._lock = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`."""
        sent = await self._token()
        if sent:
            request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == 401 and (token := await self._token(refused=sent)) and token != sent:
            request.headers["Authorization"] = f"Bearer {token}"
            yield request

    async def _token(self, refused: str | None = None) -> str:
        """The token to send, empty where there is none. `refused`: the one that the server has just not taken."""
        async with self._lock:
            try:
                if not self._is_loaded or refused is not None:
                    self._login, self._is_loaded = await self._logins.load(self._key), True
                if self._login is not None and self._is_over(self._login, refused or ""):
                    self._login = await self._renewed(self._login, refused or "")
            except (SignInError, ValueError, KeyError, httpx2.HTTPError, OAuthTokenError, TimeoutError) as error:
                # Without a token the server says itself that it wants a login.
                logger.warning("The login at the MCP server %r is not renewed: %s", self._settings.name, _words(error))
            return self._login.access_token if self._login is not None else ""

    def _is_over(self, login: Login, refused: str) -> bool:
        has_way = bool(login.refresh_token) and login.refresh_token != self._dead
        return has_way and login.is_over(self._logins.now_ms(), refused)

    async def _renewed(self, seen: Login, refused: str) -> Login:
        async with self._logins.locked(self._key):
            # The one who held the lock may have renewed it; a server that rotates tokens takes the old one no more.
            found = await self._logins.load(self._key)
            if found is None or found.access_token != seen.access_token or not self._is_over(found, refused):
                return found or seen
            # Such a server voids the old token when it answers: a cancellation must not lose the new one.
            with anyio.CancelScope(shield=True):
                provider = _provider(self._settings, "http://127.0.0.1/callback")
                try:
                    found = await provider.renewed(found, self._logins.now_ms())
                except SignInError as error:
                    if error.failure_code == "auth.revoked":
                        self._dead = found.refresh_token
                    raise
                await self._logins.save(self._key, found)
            return found


async def sign_in(
    settings: McpServerSettings,
    logins: Logins,
    show: Show,
    *,
    pasted: Pasted | None = None,
    wait_seconds: float = SIGN_IN_SECONDS,
) -> Login:
    """Sign in at a server through the user's browser; the login is stored. `show` gets the address before.

    Raises:
        SignInError: it did not come to an end; the code says why.
    """
    try:
        async with logins.listen(settings.oauth.redirect_port) as back:
            # Raised outside: the listener's task group would wrap it.
            outcome = await _attempt(settings, logins, back, show, pasted, wait_seconds)
    except OSError as error:
        raise SignInError(
            f"this machine lets nobody listen for the browser ({error.strerror})", failure_code="auth.refused"
        ) from error
    if isinstance(outcome, SignInError):
        raise SignInError(
            f"The sign-in at the MCP server {settings.name} failed: {outcome.sentence}.",
            failure_code=outcome.failure_code,
        )
    return outcome


async def _attempt(
    settings: McpServerSettings,
    logins: Logins,
    back: Redirects,
    show: Show,
    pasted: Pasted | None,
    wait_seconds: float,
) -> Login | SignInError:
    flow = _Flow(settings.url, logins, back, show, pasted)
    provider = _provider(settings, back.url, flow.open, flow.come_back)
    try:
        with anyio.fail_after(wait_seconds):
            status = await _knock(settings, provider)
        if provider.context.current_tokens is None:
            return await _ended(back, _unneeded(status))
        login = provider.login(logins.now_ms())
        if status == 401:
            return await _ended(
                back, SignInError("the server refuses the login that it just gave", failure_code="auth.refused")
            )
        await logins.save(login_key(settings.url), login)
    except TimeoutError:
        return await _ended(
            back, SignInError(f"nobody signed in within {wait_seconds / 60:.0f} minutes", failure_code="auth.expired")
        )
    except SignInError as error:
        return await _ended(back, error)
    except (OAuthFlowError, OAuthTokenError, OAuthRegistrationError, ValueError, httpx2.HTTPError) as error:
        return await _ended(back, _explained(error, has_client=bool(settings.oauth.client_id)))
    await back.show(SIGNED_IN)
    return login


async def _ended(back: Redirects, error: SignInError) -> SignInError:
    await back.show(f"The sign-in failed: {error.sentence}.")
    return error


async def _knock(settings: McpServerSettings, provider: _Provider) -> int:
    """Ask the server for something, which begins the sign-in where it wants one; the status in the end."""
    timeout = httpx2.Timeout(REQUEST_SECONDS)
    about = {"name": "pattern-acp", "version": __version__}
    params = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": about}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    headers = {**settings.headers, "accept": "application/json, text/event-stream"}
    hooks = _guarded(settings.url)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, auth=provider, event_hooks=hooks) as client:
        if settings.transport == "sse":
            async with client.stream("GET", settings.url) as response:
                return response.status_code
        async with client.stream("POST", settings.url, json=message) as response:
            session = response.headers.get("mcp-session-id", "")
        if session:
            # Nobody will use the session that was begun on the way.
            await client.delete(settings.url, headers={"mcp-session-id": session})
        return response.status_code


def _guarded(server_url: str) -> Hooks:
    """Hooks of a client that asks only what a server may send it to: it names these addresses itself."""

    async def check(request: httpx2.Request) -> None:
        url = str(request.url)
        if url != server_url and not may_be_asked(url, server_url):
            raise SignInError("its authorization server has no https:// address", failure_code="auth.refused")

    return {"request": [check]}


def may_be_asked(url: str, server_url: str) -> bool:
    """Return whether tokens and codes may go to an address: over TLS, or here if the server is here, too."""
    is_here = is_safe_address(f"http://{urlsplit(server_url).netloc}")
    return is_safe_address(url) and (url.startswith("https:") or is_here)


class _Flow:
    """The browser's part: it is sent away with a state, and comes back with the same."""

    def __init__(self, server_url: str, logins: Logins, back: Redirects, show: Show, pasted: Pasted | None) -> None:
        self._server_url = server_url
        self._logins = logins
        self._back = back
        self._show = show
        self._pasted = pasted
        self._state = ""

    async def open(self, url: str) -> None:
        """Send the user to the authorization server."""
        if not may_be_asked(url, self._server_url):
            raise SignInError("its authorization server has no https:// address", failure_code="auth.refused")
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        await self._show(url)
        await self._logins.open_browser(url)

    async def come_back(self) -> AuthorizationCodeResult:
        """The code of the address that the browser came back to, or that was pasted."""
        came = await self._first()
        if _CODE_ALONE.fullmatch(came):
            # Only the user can have pasted it; it is bound to this sign-in by its verifier.
            return AuthorizationCodeResult(code=came, state=self._state)
        query = parse_qs(urlsplit(came).query)

        def value(name: str) -> str:
            return query.get(name, [""])[0]

        if value("state") != self._state:
            raise SignInError(
                "the browser came back from another sign-in; close its other tabs", failure_code="auth.state-mismatch"
            )
        if value("error") == "access_denied":
            raise SignInError("it was refused in the browser", failure_code="auth.denied")
        if value("error") or not value("code"):
            raise SignInError(
                f"the authorization server gives no code ({_shown(value('error'))})", failure_code="auth.refused"
            )
        return AuthorizationCodeResult(code=value("code"), state=value("state"), iss=value("iss") or None)

    async def _first(self) -> str:
        found = ""

        async def take(wait: Callable[[], Awaitable[str]]) -> None:
            nonlocal found
            came = await wait()
            found = found or came
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, self._back.redirect)
            if self._pasted is not None:
                tasks.start_soon(take, self._pasted)
        return found


def _unneeded(status: int) -> SignInError:
    what = "it wants no login" if status < 400 else f"it answers with HTTP status {status} and wants no login"
    return SignInError(what, failure_code="auth.refused")


def _explained(error: Exception, *, has_client: bool) -> SignInError:
    """Say why the package gave up, without what authorization servers wrote, which may hold anything."""
    if isinstance(error, httpx2.HTTPError):
        return SignInError("the server or its authorization server cannot be reached", failure_code="auth.try-again")
    if isinstance(error, OAuthRegistrationError):
        why = "its authorization server does not register programs; put a `client_id` into `oauth` (docs/how-to/mcp.md)"
        return SignInError(why, failure_code="auth.refused")
    if isinstance(error, OAuthTokenError):
        about = "; look at `client_id` in `oauth`" if has_client else ""
        return SignInError(f"its authorization server does not take the code{about}", failure_code="auth.refused")
    return SignInError("its authorization server does not answer as the protocol wants", failure_code="auth.refused")


def _words(error: Exception) -> str:
    return error.sentence if isinstance(error, SignInError) else type(error).__name__


def _shown(name: str) -> str:
    return name if name and name.isascii() and name.isprintable() and len(name) < 60 else "without a reason"
