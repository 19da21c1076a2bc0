"""`[providers.NAME.oauth]`: how to sign in at a provider.

Owns: the keys of that table, and the one flow that is public without a client id. Must not know: how a sign-in runs.
"""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace

from pattern_acp.config.settings import OAuthSettings
from pattern_acp.config.toml_file import is_table

BUILT_IN: Mapping[str, OAuthSettings] = {
    "openrouter": OAuthSettings(
        authorization_url="https://openrouter.ai/auth",
        token_url="https://openrouter.ai/api/v1/auth/keys",  # noqa: S106 - an address
        redirect_port=3000,
        gives_key=True,
    )
}
"""openrouter.ai/docs/guides/overview/auth/oauth: anyone may send people there; port 3000 is the one its guide names."""

ALLOWED = (
    "a table with token_url, client_id, and authorization_url or device_url (https://, or http:// to this machine), "
    "and at will scope and redirect_port"
)
_ADDRESS = "an https:// URL, or an http:// one to this machine, without a fragment"
_NEEDED: Mapping[str, str] = {
    "authorization_url": _ADDRESS,
    "token_url": _ADDRESS,
    "device_url": _ADDRESS,
    "redirect_port": "a whole number from 0 to 65535",
}
_ADDRESSES = ("authorization_url", "token_url", "device_url")
_HOSTS_HERE = {"localhost", "127.0.0.1", "::1"}


def read_oauth(raw: object, known: OAuthSettings | None) -> OAuthSettings | None:
    """The settings of a table laid over `known`; None when something in it cannot be used."""
    if not is_table(raw):
        return None
    found = known or OAuthSettings()
    for name, value in raw.items():
        changed = _with(found, name, value)
        if changed is None:
            return None
        found = changed
    has_way = bool(found.authorization_url or found.device_url)
    is_whole = bool(found.token_url) and has_way and (bool(found.client_id) or found.gives_key)
    return found if is_whole else None


def wrong_oauth(raw: object) -> str:
    """The problems of a table; empty when it is no table."""
    if not is_table(raw):
        return ""
    for name, value in raw.items():
        if name not in _SETTERS and name != "redirect_port":
            return f"there is no key {name} in it; allowed are {', '.join((*_SETTERS, 'redirect_port'))}"
        if _with(OAuthSettings(), name, value) is None:
            return f"{name} in it must be {_NEEDED.get(name, 'printable text')}"
    return f"it needs {', '.join(_missing(raw))}"


def _missing(raw: Mapping[str, object]) -> Iterator[str]:
    if not raw.get("token_url"):
        yield "token_url"
    if not raw.get("authorization_url") and not raw.get("device_url"):
        yield "authorization_url or device_url"
    if not raw.get("client_id"):
        yield "client_id"


def _with(found: OAuthSettings, name: str, value: object) -> OAuthSettings | None:
    if name == "redirect_port":
        is_port = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 65536
        return replace(found, redirect_port=value) if is_port and isinstance(value, int) else None
    if not isinstance(value, str) or not value.isprintable():
        return None
    if name in _ADDRESSES and not is_safe_address(value):
        return None
    setter = _SETTERS.get(name)
    return None if setter is None else setter(found, value)


_SETTERS: Mapping[str, Callable[[OAuthSettings, str], OAuthSettings]] = {
    "authorization_url": lambda found, value: replace(found, authorization_url=value),
    "token_url": lambda found, value: replace(found, token_url=value),
    "device_url": lambda found, value: replace(found, device_url=value),
    "client_id": lambda found, value: replace(found, client_id=value),
    "scope": lambda found, value: replace(found, scope=value),
}


def is_safe_address(url: str) -> bool:
    """Return whether `url` may get tokens: over TLS, or on this machine (RFC 6749, 3.2; RFC 8252, 8.3)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return (
        bool(host)
        and not parts.fragment
        and (parts.scheme == "https" or (parts.scheme == "http" and host in _HOSTS_HERE))
    )
