"""The Responses wire: address, headers, encoder and decoder together.

Owns: where a request goes and how it says who asks. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable
from functools import partial

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts, cost_of
from pattern_acp.providers.encoded_history import EncodedHistories
from pattern_acp.providers.endpoints import HttpRequest, endpoint, openai_headers
from pattern_acp.providers.openai_responses.decode import ResponsesDecoder
from pattern_acp.providers.openai_responses.encode import encode_body, free_form_arguments


class ResponsesWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "responses"),
            {"content-type": "application/json", "accept": "text/event-stream", **openai_headers(self._settings)},
            encode_body(
                request,
                self._describe(request.model),
                self._settings.name,
                self._histories.of(request.cache_key),
            ),
        )

    def new_decoder(self, request: ProviderRequest) -> ResponsesDecoder:
        """See `Wire.new_decoder`."""
        facts = self._describe(request.model)
        return ResponsesDecoder(
            self._settings,
            request.model,
            partial(cost_of, facts.info),
            # The history only grows, so its length is a seed that no other request of the conversation has.
            f"call_{len(request.messages)}",
            free_form_arguments(request.tools, facts),
        )
