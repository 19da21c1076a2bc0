"""The Anthropic wire: address, headers, encoder and decoder together.

Owns: where a request goes and how it says who asks. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable
from functools import partial

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.anthropic.decode import AnthropicDecoder
from pattern_acp.providers.anthropic.encode import encode_body
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts, cost_of
from pattern_acp.providers.endpoints import HttpRequest, anthropic_headers, endpoint


class AnthropicWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "messages"),
            {"content-type": "application/json", "accept": "text/event-stream", **anthropic_headers(self._settings)},
            encode_body(request, self._describe(request.model), self._settings.name),
        )

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        price = partial(cost_of, self._describe(request.model).info)
        return AnthropicDecoder(self._settings, request.model, price)
