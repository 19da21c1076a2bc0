"""What a session cannot serve."""

from pattern_acp.domain.errors import SessionError


class UnknownSessionError(SessionError):
    """No such session. Becomes JSON-RPC -32002."""


class InvalidRequestError(SessionError):
    """The request itself is wrong (relative cwd, unknown option). Becomes JSON-RPC -32602."""


class CredentialsError(SessionError):
    """The provider's key is missing or was refused. Becomes JSON-RPC -32000."""
