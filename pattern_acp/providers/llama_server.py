"""What llama-server says of its model in an answer of its own, beside the list.

Owns: that answer (`/props`). A model whose chat template has no place for tools gets none: llama-server leaves them out
of the prompt without a word, so that the model could never call one. Must not know: the list's format.
"""

from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.endpoints import base_url, headers_of
from pattern_acp.providers.http import HttpClient

OWNER = "llamacpp"
"""Who owns a model, by llama-server's list."""

PROPS_SECONDS = 2.0

PROPS_BYTES = 1024 * 1024
"""It holds the chat template, which is some kilobytes."""


class _TemplateCapabilities(msgspec.Struct):
    supports_tools: bool | None = None


class _Props(msgspec.Struct):
    chat_template_caps: _TemplateCapabilities | None = None


async def template_takes_tools(http: HttpClient, settings: ProviderSettings) -> bool | None:
    """Whether tools reach the model; None where the server does not say (older ones, and those of several models)."""
    with anyio.move_on_after(PROPS_SECONDS):
        try:
            status, body = await http.get(settings.name, props_url(settings), headers_of(settings), PROPS_BYTES)
            capabilities = msgspec.json.decode(body, type=_Props).chat_template_caps if status == 200 else None
        except (ProviderError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return None if capabilities is None else capabilities.supports_tools
    return None


def props_url(settings: ProviderSettings) -> str:
    """Where it says so: beside `/v1`, not under it."""
    parts = urlsplit(base_url(settings))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/v1") + "/props", "", ""))
