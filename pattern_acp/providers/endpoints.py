"""Addresses and headers of the wires.

Owns: the meaning of a `base_url`, and a request as plain data. Must not know: the execution of HTTP, and bodies.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from pattern_acp.config.settings import HTTP_WIRES, ProviderSettings
from pattern_acp.domain.late_pattern import late_pattern

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
_PRIVATE_DOMAINS = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
_NAMES = {
    "anthropic": late_pattern(r"claude-"),
    "openai": late_pattern(r"gpt-\d|chatgpt-|o[1-9](-|$)"),
    "gemini": late_pattern(r"gemini-"),
}
"""Beginnings of each vendor's model names."""

_STRICT_DOMAINS = ("groq.com", "cerebras.ai", "openai.com", "azure.com", "models.github.ai")
"""Servers that answer 400 to fields of messages that they do not know."""

ANTHROPIC_VERSION = "2023-06-01"


class HttpRequest(Struct, frozen=True):
    """A POST. `who` is the provider's name, for sentences."""

    who: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    begun: str = ""
    """The text of an answer that broke off, if the server is to continue with it."""
    instead: "HttpRequest | None" = None
    """The same request for a server that refuses to: the model is asked to continue in words."""


def base_url(settings: ProviderSettings) -> str:
    """The address before the wire's own path, ending in `/v1` or whatever path the user wrote.

    People write it with and without `/v1` and a final slash; an address without any path gets the vendor's own, and so
    does every one of the Anthropic wire, as in its SDKs.
    """
    vendor = _vendor_url(settings)
    url = (settings.base_url or vendor).rstrip("/")
    if settings.host == "bedrock" or url.endswith("/v1") or (settings.wire != "anthropic" and urlsplit(url).path):
        return url
    return f"{url}{urlsplit(vendor).path or '/v1'}"


def _vendor_url(settings: ProviderSettings) -> str:
    match settings.wire:
        case "anthropic":
            return ANTHROPIC_URL
        case "gemini":
            return GEMINI_URL
        case _:
            return OPENAI_URL


def endpoint(settings: ProviderSettings, path: str) -> str:
    """The full address of `path`, such as `messages` or `chat/completions`."""
    return f"{base_url(settings)}/{path}"


def is_official(settings: ProviderSettings) -> bool:
    """Return whether requests go to the vendor itself rather than to a compatible server."""
    return urlsplit(base_url(settings)).hostname == urlsplit(_vendor_url(settings)).hostname


def takes_reasoning(settings: ProviderSettings) -> bool:
    """Return whether a server of the OpenAI wire accepts `reasoning_content` in messages; strict ones refuse it."""
    host = urlsplit(base_url(settings)).hostname or ""
    return not host.endswith(_STRICT_DOMAINS)


def has_vendor_names(settings: ProviderSettings) -> bool:
    """Return whether the models have their vendor's names; at Google those from 4.6 on do."""
    return is_official(settings) or settings.host == "vertex"


def is_openai(settings: ProviderSettings) -> bool:
    """Return whether requests go to OpenAI itself."""
    return settings.wire in {"openai", "responses"} and is_official(settings)


def model_mismatch(settings: ProviderSettings, model: str) -> str:
    """Return a sentence if a vendor itself is to be asked for a model that only another vendor has; else empty.

    Judged by the beginnings of names that vendors have used for years. A server that is not the vendor's may serve
    anything.
    """
    if settings.wire not in HTTP_WIRES or not is_official(settings):
        return ""
    own = "openai" if is_openai(settings) else settings.wire
    other = next((vendor for vendor, names in _NAMES.items() if names.match(model.lower())), own)
    if other == own:
        return ""
    return f"{model} is a model of {other}, which {settings.name} does not have; name {other}/{model}."


def sent_openly(settings: ProviderSettings) -> str:
    """A sentence when what is sent to the provider, its key with it, crosses the internet unencrypted; else empty.

    This machine and private networks are left out: servers there have no certificates, and the one who listens there
    sees more than a key. A name without a dot, or below a domain that is reserved for such networks (RFC 6761, RFC
    6762, RFC 8375), is one of them.
    """
    parts = urlsplit(base_url(settings))
    host = parts.hostname or ""
    if settings.wire not in HTTP_WIRES or parts.scheme != "http" or _is_private(host):
        return ""
    return (
        f"What is sent to {settings.name}, its key included, can be read on the way, since its base_url begins with "
        f"http://; use https:// for {host}, or a tunnel to this machine."
    )


def _is_private(host: str) -> bool:
    try:
        return not ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." not in host.strip(".") or host.rstrip(".").endswith(_PRIVATE_DOMAINS)


def anthropic_headers(settings: ProviderSettings) -> Mapping[str, str]:
    """Headers with the key and the version. The user's own headers come last and win."""
    key = {"x-api-key": settings.api_key.value} if settings.api_key else {}
    return {"anthropic-version": ANTHROPIC_VERSION, **key, **settings.headers}


def openai_headers(settings: ProviderSettings) -> Mapping[str, str]:
    """Headers with the key. The user's own headers come last and win."""
    key = {"authorization": f"Bearer {settings.api_key.value}"} if settings.api_key else {}
    return {**key, **settings.headers}


def gemini_headers(settings: ProviderSettings) -> Mapping[str, str]:
    """Headers with the key, not the address, since addresses end up in logs. The user's own headers win."""
    key = {"x-goog-api-key": settings.api_key.value} if settings.api_key else {}
    return {**key, **settings.headers}


def headers_of(settings: ProviderSettings) -> Mapping[str, str]:
    """Headers for the provider's wire."""
    match settings.wire:
        case "anthropic":
            return anthropic_headers(settings)
        case "gemini":
            return gemini_headers(settings)
        case _:
            return openai_headers(settings)
