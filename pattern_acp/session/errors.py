"""What a session cannot serve."""

from pattern_acp.domain.errors import SessionError


class UnknownSessionError(SessionError):
    """No such session. Becomes JSON-RPC -32002."""

    failure_code = "session.unknown"


class InvalidRequestError(SessionError):
    """The request itself is wrong (relative cwd, unknown option). Becomes JSON-RPC -32602."""

    failure_code = "session.request-invalid"


class CredentialsError(SessionError):
    """The provider's key is missing or was refused. Becomes JSON-RPC -32000."""

    failure_code = "provider.key-refused"


class FolderUnusableError(InvalidRequestError):
    """The folder of a session is not there, or not absolute."""

    failure_code = "session.folder-unusable"


class OptionUnusableError(InvalidRequestError):
    """There is no such option, or it has no such value."""

    failure_code = "session.option-unusable"


class TurnUnknownError(InvalidRequestError):
    """The turn that was named is not one of the session that has ended."""

    failure_code = "session.turn-unknown"


class SessionBusyError(InvalidRequestError):
    """A turn runs in the session."""

    failure_code = "session.busy"
