"""Why a model request failed. Messages are sentences for the person and never hold a key."""

from pattern_acp.domain.errors import ProviderError


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection broke before any content."""


class ProviderStalledError(ProviderError):
    """The first byte, or the next one, did not come within its limit."""


class ProviderTooSlowError(ProviderError):
    """The answer came steadily and took longer in all than one may."""


class ProviderOverloadedError(ProviderError):
    """Rate limited, overloaded or broken on the provider's side (408, 409, 429, 5xx), also after retries.

    `retry_after_ms` is how long the provider asks to wait; None when it does not say.
    """

    def __init__(self, sentence: str, retry_after_ms: int | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_ms = retry_after_ms


class NoModelLeftError(ProviderError):
    """The chosen model is out, and so is all that `fallback` names; the message has the reason of each."""


class ProviderAuthError(ProviderError):
    """The key is missing or was refused. Becomes JSON-RPC -32000."""


class ProviderRequestError(ProviderError):
    """The provider says that the request is wrong (unknown model, bad parameter)."""


class ToolsRefusedError(ProviderRequestError):
    """The model takes no tools; it may take the same request without them."""


class ContextTooLongError(ProviderError):
    """The request is longer than the model's window."""


class ProviderProtocolError(ProviderError):
    """The answer is not in the wire's format (HTML, broken JSON)."""


class EmptyAnswerError(ProviderError):
    """The model ended without text and without a call."""


class ContentFilteredError(ProviderError):
    """The provider's filter refused the request itself; a filtered answer is a `Stopped` event instead."""
