"""Which wire a provider and a model are spoken to in.

Owns: the choice. Each wire is imported when a provider of it is built. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.endpoints import HttpRequest, is_official
from pattern_acp.providers.streaming import Decoder, Wire

Describe = Callable[[str], ModelFacts]


class WireByModel:
    """OpenAI's own two wires: Responses for the models that the catalogue says it of, Chat Completions for others."""

    def __init__(self, chat: Wire, responses: Wire, describe: Describe) -> None:
        self._chat = chat
        self._responses = responses
        self._describe = describe

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return self._wire(request.model).encode(request)

    def new_decoder(self, request: ProviderRequest) -> Decoder:
        """See `Wire.new_decoder`."""
        return self._wire(request.model).new_decoder(request)

    def _wire(self, model: str) -> Wire:
        return self._responses if self._describe(model).traits.speaks_responses else self._chat


def build_wire(settings: ProviderSettings, describe: Describe) -> Wire:
    """The wire of a provider that is behind HTTP. `describe` says what is known of a model."""
    if settings.host == "vertex":
        from pattern_acp.providers.anthropic.vertex import VertexWire

        return VertexWire(settings, describe)
    if settings.host == "bedrock":
        from pattern_acp.providers.anthropic.bedrock import BedrockWire

        return BedrockWire(settings, describe)
    if settings.wire == "anthropic":
        from pattern_acp.providers.anthropic.provider import AnthropicWire

        return AnthropicWire(settings, describe)
    if settings.wire == "gemini":
        from pattern_acp.providers.gemini.provider import GeminiWire

        return GeminiWire(settings, describe)
    if settings.wire == "responses":
        return _responses(settings, describe)
    from pattern_acp.providers.openai.provider import OpenAIWire

    chat = OpenAIWire(settings, describe)
    return WireByModel(chat, _responses(settings, describe), describe) if is_official(settings) else chat


def _responses(settings: ProviderSettings, describe: Describe) -> Wire:
    from pattern_acp.providers.openai_responses.provider import ResponsesWire

    return ResponsesWire(settings, describe)
