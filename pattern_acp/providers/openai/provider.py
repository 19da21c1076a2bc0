"""The OpenAI wire: address, headers, encoder and decoder together.

Owns: where a request goes and how it says who asks. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable
from functools import partial

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts, cost_of
from pattern_acp.providers.encoded_history import EncodedHistories
from pattern_acp.providers.endpoints import HttpRequest, endpoint, is_official, openai_headers
from pattern_acp.providers.openai.decode import OpenAIDecoder
from pattern_acp.providers.openai.encode import encode_body


class OpenAIWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()
        self._is_openai = is_official(settings)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        facts = self._describe(request.model)
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "chat/completions"),
            {"content-type": "application/json", "accept": "text/event-stream", **openai_headers(self._settings)},
            encode_body(
                request,
                facts,
                self._settings.name,
                is_openai=self._is_openai,
                quirks=self._settings.quirks,
                history=self._histories.of(request.cache_key),
            ),
        )

    def new_decoder(self, request: ProviderRequest) -> OpenAIDecoder:
        """See `Wire.new_decoder`."""
        price = partial(cost_of, self._describe(request.model).info)
        # The history only grows, so its length is a seed that no other request of the conversation has.
        return OpenAIDecoder(self._settings, request.model, price, f"call_{len(request.messages)}")
