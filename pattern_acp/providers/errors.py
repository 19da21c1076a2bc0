"""Why a model request failed. Messages are sentences for the person and never hold a key."""

from pattern_acp.domain.errors import ProviderError


class ProviderConnectionError(ProviderError):
    """The provider could not be reached, or the connection broke before any content."""


class ProviderStalledError(ProviderError):
    """Nothing came for longer than the idle limit."""


class ProviderOverloadedError(ProviderError):
    """Rate limited or overloaded, also after retries."""


class ProviderAuthError(ProviderError):
    """The key is missing or was refused. Becomes JSON-RPC -32000."""


class ProviderRequestError(ProviderError):
    """The provider says that the request is wrong (unknown model, bad parameter)."""


class ContextTooLongError(ProviderError):
    """The request is longer than the model's window."""


class ProviderProtocolError(ProviderError):
    """The answer is not in the wire's format (HTML, broken JSON)."""


class EmptyAnswerError(ProviderError):
    """The model ended without text and without a call."""
