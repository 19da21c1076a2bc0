"""The Anthropic wire at Amazon Bedrock: the same events in another framing, at another address.

Owns: in what the request differs. Model and streaming are said by the address and the version by the body. Must not
know: how a request is signed (`providers.keys`), and how HTTP is carried out.
"""

from collections.abc import Callable
from urllib.parse import quote

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.anthropic.decode import AnthropicDecoder
from pattern_acp.providers.anthropic.encode import Envelope
from pattern_acp.providers.anthropic.provider import AnthropicWire
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.endpoints import HttpRequest, endpoint, openai_headers
from pattern_acp.providers.event_stream import EventStreamParser

ENVELOPE = Envelope("bedrock-2023-05-31", frozenset({"model", "stream"}))
"""The one version that Bedrock takes."""


class BedrockWire:
    """See `streaming.Wire` and `streaming.FramedWire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._own = AnthropicWire(settings, describe)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`."""
        # The id of an access key is no key to send: it only says whose signature is put under the request.
        who = self._settings.headers if self._settings.signs else openai_headers(self._settings)
        return HttpRequest(
            self._settings.name,
            endpoint(self._settings, f"model/{quote(request.model, safe=':')}/invoke-with-response-stream"),
            {
                "content-type": "application/json",
                "accept": "application/vnd.amazon.eventstream",
                **who,
            },
            self._own.body(request, ENVELOPE),
        )

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        return self._own.new_decoder(request)

    def new_parser(self) -> EventStreamParser:
        """See `FramedWire.new_parser`."""
        return EventStreamParser()
