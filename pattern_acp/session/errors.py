"""Errors of requests that a session cannot serve."""

from pattern_acp.domain.errors import InvalidRequestError, SessionError


class UnknownSessionError(SessionError):
    """No such session. Becomes JSON-RPC -32002."""

    failure_code = "session.unknown"


class DefinitionsDamagedError(SessionError):
    """The recorded instructions of a session are gone, or were changed outside of it."""

    failure_code = "session.instructions-changed"


class CredentialsError(SessionError):
    """The provider's key is missing or was refused. Becomes JSON-RPC -32000."""

    failure_code = "provider.key-refused"
    is_shown = False
    """True once the conversation shows the sentence."""


class FolderUnusableError(InvalidRequestError):
    """The folder of a session is not there, or not absolute."""

    failure_code = "session.folder-unusable"


class OptionUnusableError(InvalidRequestError):
    """There is no such option, or it has no such value."""

    failure_code = "session.option-unusable"


class SessionBusyError(InvalidRequestError):
    """A turn runs in the session."""

    failure_code = "session.busy"
