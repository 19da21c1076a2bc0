"""Domain errors to JSON-RPC errors: one table, used once, at the dispatcher's boundary."""

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import ConfigError, DatabaseError, JournalError, PatternError
from pattern_acp.journal.errors import BadCursorError
from pattern_acp.journal.errors import UnknownSessionError as UnknownRowError
from pattern_acp.jsonrpc.errors import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from pattern_acp.providers.errors import ProviderAuthError
from pattern_acp.session.errors import CredentialsError, InvalidRequestError, UnknownSessionError

CODES: tuple[tuple[type[PatternError], int], ...] = (
    (UnknownSessionError, RESOURCE_NOT_FOUND),
    (UnknownRowError, RESOURCE_NOT_FOUND),
    (CredentialsError, AUTH_REQUIRED),
    (ProviderAuthError, AUTH_REQUIRED),
    (InvalidRequestError, INVALID_PARAMS),
    (BadCursorError, INVALID_PARAMS),
    (DatabaseError, INTERNAL_ERROR),
    (JournalError, INTERNAL_ERROR),
    (ConfigError, INTERNAL_ERROR),
    (PatternError, INTERNAL_ERROR),
)
"""First match wins."""


def to_rpc_error(error: Exception) -> RpcError | None:
    """The JSON-RPC error for a domain error; None for anything unforeseen.

    The sentence stands in `data.details` as well: Zed shows that for -32603, and avante looks there for
    "Session not found" (reference: interop rule 9).
    """
    for kind, code in CODES:
        if isinstance(error, kind):
            data: JsonObject = {"details": error.sentence}
            return RpcError(code, error.sentence, data, failure_code=error.failure_code)
    return None
