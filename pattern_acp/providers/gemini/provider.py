"""The Gemini wire: address, headers, encoder and decoder together.

Owns: where a request goes and how it says who asks. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts, cost_of
from pattern_acp.providers.encoded_history import EncodedHistories
from pattern_acp.providers.endpoints import HttpRequest, endpoint, gemini_headers
from pattern_acp.providers.gemini.decode import GeminiDecoder
from pattern_acp.providers.gemini.encode import encode_body


class GeminiWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        model = quote(request.model.removeprefix("models/"), safe="")
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, f"models/{model}:streamGenerateContent?alt=sse"),
            {"content-type": "application/json", "accept": "text/event-stream", **gemini_headers(self._settings)},
            encode_body(
                request,
                self._describe(request.model),
                self._settings.name,
                self._histories.of(request.cache_key),
            ),
        )

    def new_decoder(self, request: ProviderRequest) -> GeminiDecoder:
        """See `Wire.new_decoder`."""
        price = partial(cost_of, self._describe(request.model).info)
        # The history only grows, so its length is a seed that no other request of the conversation has.
        return GeminiDecoder(self._settings, request.model, price, f"call_{len(request.messages)}")
