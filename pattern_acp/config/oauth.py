"""`[providers.NAME.oauth]`: how to sign in at a provider.

Owns: the keys of that table, and the one flow that is public without a client id. Must not know: how a sign-in runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

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
    """Whether tokens may go to `url`: over TLS, or to this machine (RFC 6749, section 3.2; RFC 8252, section 8.3)."""
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
