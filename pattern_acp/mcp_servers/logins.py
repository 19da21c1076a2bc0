"""Logins at servers over HTTP, as they are stored, and the port to what stores them and shows a browser.

Owns: the value, its name in the store, when a token is renewed, and what a start gets. Must not know: the `mcp`
package, keyrings.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from pattern_acp.config.settings import McpServerSettings, repr_without
from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.processes.groups import ChildProgramPorts

RENEW_BEFORE_MS = 60_000
"""A token is renewed this long before its end, so that a call that takes a while still has a valid one."""

LOGIN_PREFIX = "mcp:"
"""Beginning of the names of logins in the store, which holds the keys of providers, too."""

_KEY_DIGITS = 12


class Login(Struct, frozen=True):
    """Tokens of a login, and what renewing them takes. Secrets stay out of the repr."""

    access_token: str
    refresh_token: str = ""
    expires_at_ms: int | None = None
    """Expiry of the access token, in milliseconds UTC; None when unknown."""
    client: str = ""
    """JSON: what the authorization server knows us by, and where it is."""

    def __repr__(self) -> str:
        return repr_without(self, "access_token", "refresh_token", "client")

    def is_over(self, now_ms: int, refused: str = "") -> bool:
        """Return whether it has to be renewed: it ends soon, or the server `refused` it."""
        if refused and self.access_token == refused:
            return True
        return self.expires_at_ms is not None and self.expires_at_ms - now_ms <= RENEW_BEFORE_MS


class Redirects(Protocol):
    """The end of a sign-in on this machine, to which the browser comes back."""

    url: str
    """The redirect URI."""

    async def redirect(self) -> str:
        """Path and query of the address that the browser came back to. Waits as long as it takes."""
        ...

    async def show(self, sentence: str) -> None:
        """Show the browser how it ended."""
        ...


class Logins(Protocol):
    """The user's logins. The methods raise SignInError when what is stored cannot be read or written."""

    shows_browser: bool
    """True when the user sees a browser that is opened here."""

    def now_ms(self) -> int:
        """The time, milliseconds UTC."""
        ...

    async def load(self, key: str) -> Login | None:
        """The login of this name."""
        ...

    async def save(self, key: str, login: Login) -> None:
        """Store a login instead of the one that there was."""
        ...

    def locked(self, key: str) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the same login meanwhile."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[Redirects]:
        """Listen for the browser on 127.0.0.1; on any port where this one is taken."""
        ...

    async def open_browser(self, url: str) -> None:
        """Open the user's browser, if it would be seen."""
        ...


def login_key(url: str) -> str:
    """Return the name under which the login at a server is stored.

    It depends on the address alone, and on all of it: a server by the same name elsewhere gets no token. What follows
    the path may hold a key and is shown as a hash.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    shown = f"{LOGIN_PREFIX}{parts.scheme.lower()}://{host}{parts.path}"
    is_whole = not parts.query and "@" not in parts.netloc
    return shown if is_whole else f"{shown}#{sha256_hex(url.encode())[:_KEY_DIGITS]}"


def can_login(settings: McpServerSettings) -> bool:
    """Return whether a login is of use: the server is reached over HTTP and has no `Authorization` of its own."""
    has_own = any(name.lower() == "authorization" for name in settings.headers)
    return settings.transport in {"http", "sse"} and not has_own


Heard: TypeAlias = Callable[[str, JsonObject], None]
"""Takes a notification that belongs to a request: its method and parameters."""

AskClient: TypeAlias = Callable[[str, str, JsonObject, Heard], Awaitable[JsonObject]]
"""Asks a server of the client, by its id: method, parameters, and what takes notifications meanwhile.

It returns the answer as the server gave it, `{"result": …}` or `{"error": …}`, and raises ServerError without one."""


class LaunchContext(Struct, frozen=True):
    """Folder and environment in which a server is started."""

    cwd: str
    ports: ChildProgramPorts
    logins: Logins | None = None
    """The logins at servers over HTTP; None: none are stored."""
    ask_client: AskClient | None = None
    """Asks servers that the client offers over its own connection; None: it offers none."""
