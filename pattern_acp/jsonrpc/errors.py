"""Errors between two JSON-RPC peers, and their codes.

Owns: the error codes and the errors of this package. Must not know: what the methods mean.

    ProtocolError
    ├── RpcError               we answer a request with an error
    ├── RemoteError            the peer answered our request with an error
    ├── InvalidResultError     the peer's result is not what the method promises
    └── ConnectionClosedError  the peer is gone
"""

from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import PatternError

PARSE_ERROR = -32700
"""The line is not JSON (JSON-RPC 2.0, section 5.1)."""
INVALID_REQUEST = -32600
"""The JSON is not a JSON-RPC message (JSON-RPC 2.0, section 5.1)."""
METHOD_NOT_FOUND = -32601
"""There is no such method (JSON-RPC 2.0, section 5.1)."""
INVALID_PARAMS = -32602
"""The parameters do not fit the method (JSON-RPC 2.0, section 5.1)."""
INTERNAL_ERROR = -32603
"""The answering side failed (JSON-RPC 2.0, section 5.1)."""
REQUEST_CANCELLED = -32800
"""The asking side withdrew the request (ACP v1, cancellation)."""
AUTH_REQUIRED = -32000
"""Credentials are missing or refused (ACP v1, errors)."""
RESOURCE_NOT_FOUND = -32002
"""A session or file is not there (ACP v1, errors)."""
UNSUPPORTED_VERSION = -32022
"""No version at or below the one that the client asks for is served (ACP v2, initialization)."""

_FAILURES = {
    PARSE_ERROR: "protocol.not-json",
    INVALID_REQUEST: "protocol.message-invalid",
    METHOD_NOT_FOUND: "protocol.method-unknown",
    INVALID_PARAMS: "protocol.params-invalid",
    REQUEST_CANCELLED: "protocol.request-cancelled",
    AUTH_REQUIRED: "auth.required",
    UNSUPPORTED_VERSION: "protocol.params-invalid",
}
"""The failure that a JSON-RPC code stands for when nothing more exact is known; others are faults of ours."""


class ProtocolError(PatternError):
    """Root of everything that can go wrong between two peers."""


class RpcError(ProtocolError):
    """A request that is answered with this error: code, sentence, and data for programs."""

    def __init__(self, code: int, message: str, data: Json = None, *, failure_code: str = "") -> None:
        super().__init__(message, failure_code=failure_code or _FAILURES.get(code, ""))
        self.code = code
        self.message = message
        self.data = data


class RemoteError(ProtocolError):
    """The error that the peer answered one of our requests with."""

    failure_code = "editor.refused"

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class InvalidResultError(ProtocolError):
    """The peer answered our request with a result that the method does not allow."""

    failure_code = "editor.answer-invalid"


class ConnectionClosedError(ProtocolError):
    """The peer is gone: nothing can be sent to it and no answer will come."""

    failure_code = "editor.gone"
