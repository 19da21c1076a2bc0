"""Errors of model requests. Messages are sentences for the user and never contain a key."""

from pattern_acp.domain.errors import ProviderError


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection broke before any content."""

    failure_code = "provider.unreachable"


class ProviderStalledError(ProviderError):
    """The first byte, or the next one, did not come within its limit."""

    failure_code = "provider.stalled"


class ProviderTooSlowError(ProviderError):
    """The answer came steadily and took longer in all than one may."""

    failure_code = "provider.too-slow"


class ProviderOverloadedError(ProviderError):
    """Rate limited, overloaded or broken on the provider's side (408, 409, 429, 5xx), also after retries.

    `retry_after_ms` is the wait that the provider asks for; None when it does not say. `attempts` are the most that
    it is worth, first one included; None for the usual number.
    """

    failure_code = "provider.overloaded"

    def __init__(self, sentence: str, retry_after_ms: int | None = None, *, attempts: int | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_ms = retry_after_ms
        self.attempts = attempts


class NoModelLeftError(ProviderError):
    """The chosen model is out, and so is all that `fallback` names; the message has the reason of each."""

    failure_code = "provider.no-model-left"


class ProviderAuthError(ProviderError):
    """The key is missing or was refused. Becomes JSON-RPC -32000."""

    failure_code = "provider.key-refused"


class ProviderRequestError(ProviderError):
    """The provider rejects the request as wrong (unknown model, bad parameter). `status` is that of HTTP, if any."""

    failure_code = "provider.request-refused"

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class UnusableModelError(ProviderRequestError):
    """The settings name no such provider, or no model; nothing was sent."""

    failure_code = "config.unusable"


class ModelMismatchError(ProviderRequestError):
    """The model is another vendor's than the one that would be asked; nothing was sent."""

    failure_code = "provider.model-mismatch"


class ToolsRefusedError(ProviderRequestError):
    """The model takes no tools; it may take the same request without them."""

    failure_code = "provider.tools-refused"


class ImagesRefusedError(ProviderRequestError):
    """The model takes no images; it may take the same request with words in their place."""

    failure_code = "provider.images-refused"


class ContextTooLongError(ProviderError):
    """The request is longer than the model's window."""

    failure_code = "provider.context-too-long"


class ProviderProtocolError(ProviderError):
    """The answer is not in the wire's format (HTML, broken JSON). `status` is that of HTTP, if it is a fault."""

    failure_code = "provider.answer-garbled"

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


EMPTY = "ended without an answer"
"""Words of every sentence about an empty answer, by which a replay knows it too."""


class EmptyAnswerError(ProviderError):
    """The model ended without text and without a call."""

    failure_code = "provider.answer-empty"


class ContentFilteredError(ProviderError):
    """The provider's filter refused the request itself; a filtered answer is a `Stopped` event instead."""

    failure_code = "provider.prompt-filtered"
