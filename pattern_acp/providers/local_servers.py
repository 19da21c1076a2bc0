"""The model servers that people run on their own machine.

Owns: their names and usual addresses. Must not know: HTTP.
"""

from msgspec import Struct

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.catalogue import ListedModel

LOCAL_SERVERS: tuple[ProviderSettings, ...] = (
    ProviderSettings("ollama", "openai", "http://127.0.0.1:11434/v1"),
    ProviderSettings("lmstudio", "openai", "http://127.0.0.1:1234/v1"),
    ProviderSettings("llama-server", "openai", "http://127.0.0.1:8080/v1"),
)
"""In the order in which they are preferred. The person's own settings of the same name come before these."""


LOCAL_SECONDS = 0.3
"""Longest that looking for all of them together may take (issue 2, section 6)."""


class LocalServer(Struct, frozen=True):
    """A server that answered, with its models."""

    settings: ProviderSettings
    models: tuple[ListedModel, ...]
