"""Addresses and headers of the wires.

Owns: what a `base_url` means, and a request as plain data. Must not know: HTTP's carrying out and bodies.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.lazy_dataclass import dataclass

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A POST. `who` is the provider's name, for sentences."""

    who: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def base_url(settings: ProviderSettings) -> str:
    """The address before the wire's own path, ending in `/v1` or whatever path the person gave.

    People write it with and without `/v1` and a final slash; an address without any path gets `/v1`, and so does every
    one of the Anthropic wire, as its SDKs do it.
    """
    default = ANTHROPIC_URL if settings.wire == "anthropic" else OPENAI_URL
    url = (settings.base_url or default).rstrip("/")
    if url.endswith("/v1") or (settings.wire != "anthropic" and urlsplit(url).path):
        return url
    return f"{url}/v1"


def endpoint(settings: ProviderSettings, path: str) -> str:
    """The full address of `path`, such as `messages` or `chat/completions`."""
    return f"{base_url(settings)}/{path}"


def is_official(settings: ProviderSettings) -> bool:
    """Whether requests go to the vendor itself rather than to a compatible server."""
    host = urlsplit(base_url(settings)).hostname
    return host == urlsplit(ANTHROPIC_URL if settings.wire == "anthropic" else OPENAI_URL).hostname


def anthropic_headers(settings: ProviderSettings) -> Mapping[str, str]:
    """Who asks, in which version. The person's own headers come last and win."""
    key = {"x-api-key": settings.api_key.value} if settings.api_key else {}
    return {"anthropic-version": ANTHROPIC_VERSION, **key, **settings.headers}


def openai_headers(settings: ProviderSettings) -> Mapping[str, str]:
    """Who asks. The person's own headers come last and win."""
    key = {"authorization": f"Bearer {settings.api_key.value}"} if settings.api_key else {}
    return {**key, **settings.headers}
