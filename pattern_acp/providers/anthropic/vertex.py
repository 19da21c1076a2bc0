"""The Anthropic wire at Google's Vertex AI: the same body and the same stream, at another address.

Owns: in what the request differs. The model stands in the address and the version in the body. Must not know: where the
access token comes from (`providers.keys`), and how HTTP is carried out.
"""

from collections.abc import Callable, Mapping
from urllib.parse import quote

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.anthropic.decode import AnthropicDecoder
from pattern_acp.providers.anthropic.encode import Envelope
from pattern_acp.providers.anthropic.provider import AnthropicWire
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import ModelFacts
from pattern_acp.providers.endpoints import HttpRequest, endpoint, openai_headers
from pattern_acp.providers.errors import ProviderRequestError

ENVELOPE = Envelope("vertex-2023-10-16", frozenset({"model"}))
"""The one version that Vertex takes."""


class VertexWire:
    """See `streaming.Wire`. `describe` says what is known of a model."""

    def __init__(self, settings: ProviderSettings, describe: Callable[[str], ModelFacts]) -> None:
        self._settings = settings
        self._own = AnthropicWire(settings, describe)

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """See `Wire.encode`.

        Raises:
            ProviderRequestError: no project is known.
        """
        return HttpRequest(
            self._settings.name,
            self._address(f"{quote(request.model, safe='@')}:streamRawPredict"),
            {**self._headers(), "accept": "text/event-stream"},
            self._own.body(request, ENVELOPE),
        )

    def encode_count(self, request: ProviderRequest) -> HttpRequest:
        """See `CountingWire.encode_count`. It names the model in its body. Raises like `encode`."""
        return HttpRequest(
            self._settings.name,
            self._address("count-tokens:rawPredict"),
            self._headers(),
            self._own.count_body(request, ENVELOPE),
        )

    def read_count(self, body: bytes) -> int:
        """See `CountingWire.read_count`."""
        return self._own.read_count(body)

    def new_decoder(self, request: ProviderRequest) -> AnthropicDecoder:
        """See `Wire.new_decoder`."""
        return self._own.new_decoder(request)

    def _address(self, what: str) -> str:
        place = self._settings
        if not place.project:
            raise ProviderRequestError(
                f"{place.name} needs a project at Google and its credentials name none; set project in "
                f"[providers.{place.name}] of config.toml, or GOOGLE_CLOUD_PROJECT."
            )
        path = f"projects/{quote(place.project, safe=':')}/locations/{place.region}/publishers/anthropic/models"
        return endpoint(place, f"{path}/{what}")

    def _headers(self) -> Mapping[str, str]:
        # Google takes its access tokens as OpenAI takes its keys (RFC 6750).
        return {"content-type": "application/json", **openai_headers(self._settings)}
