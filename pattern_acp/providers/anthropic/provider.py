"""The Anthropic wire: address, headers, encoder and decoder together.

Owns: where a request goes and how it says who asks. Must not know: how HTTP is carried out.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.anthropic.decode import AnthropicDecoder
from pattern_acp.providers.anthropic.encode import OWN, Envelope, encode_body, encode_count_body
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts, cost_of
from pattern_acp.providers.encoded_history import EncodedHistories
from pattern_acp.providers.endpoints import HttpRequest, anthropic_headers, endpoint
from pattern_acp.providers.errors import ProviderProtocolError
from pattern_acp.providers.model_figures import CONFIGURED_PRICES
from pattern_acp.providers.token_counts import token_count


class AnthropicWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._describe = describe
        self._histories = EncodedHistories()

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "messages"),
            {"content-type": "application/json", "accept": "text/event-stream", **anthropic_headers(self._settings)},
            self.body(request),
        )

    def encode_count(self, request: ProviderRequest) -> HttpRequest:
        """See `CountingWire.encode_count`."""
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, "messages/count_tokens"),
            {"content-type": "application/json", **anthropic_headers(self._settings)},
            self.count_body(request),
        )

    def body(self, request: ProviderRequest, envelope: Envelope = OWN) -> bytes:
        """The body of a request, in the envelope of whoever serves the models."""
        history = self._histories.of(request.cache_key)
        return encode_body(request, self._describe(request.model), self._settings.name, history, envelope)

    def count_body(self, request: ProviderRequest, envelope: Envelope = OWN) -> bytes:
        """The body of a question for the tokens of a request."""
        history = self._histories.of(request.cache_key)
        return encode_count_body(request, self._describe(request.model), self._settings.name, history, envelope)

    def read_count(self, body: bytes) -> int:
        """See `CountingWire.read_count`."""
        try:
            count = token_count(msgspec.json.decode(body), "input_tokens")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            count = None
        if count is None:
            raise ProviderProtocolError(f"{self._settings.name} gave no count of tokens.")
        return count

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        info = self._describe(request.model).info
        if request.cache_ttl == "1h" and info.prices != CONFIGURED_PRICES:
            # Writing for an hour costs twice the input, and five quarters of it otherwise (Anthropic's price page).
            info = replace(info, cache_write_price=2 * info.input_price)
        price = partial(cost_of, info)
        return AnthropicDecoder(self._settings, request.model, price)
