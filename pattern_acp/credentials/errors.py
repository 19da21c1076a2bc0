"""Why a sign-in failed. Messages are sentences for the person and never hold a key, a code or a token."""

from pattern_acp.domain.errors import SignInError


class CredentialFileError(SignInError):
    """The file of credentials cannot be read or written; what it holds is left as it is."""

    failure_code = "auth.file-unusable"


class KeyringUnavailableError(SignInError):
    """The system has no keyring that can be used, or it does not answer."""

    failure_code = "auth.keyring-unavailable"


class SignInDeniedError(SignInError):
    """The person, or the provider, said no."""

    failure_code = "auth.denied"


class StateMismatchError(SignInError):
    """The browser came back with another sign-in's state (RFC 6749, section 10.12)."""

    failure_code = "auth.state-mismatch"


class SignInExpiredError(SignInError):
    """The code, or the time to enter it, ran out before the sign-in was finished."""

    failure_code = "auth.expired"


class SignInRevokedError(SignInError):
    """The refresh token is not taken any more (expired, used twice, or taken back); the person has to sign in again."""

    failure_code = "auth.revoked"


class CloudCredentialsError(SignInError):
    """The credentials of a cloud are not there or are refused, or what reads them is not installed."""

    failure_code = "auth.cloud-credentials"


class SignInTransientError(SignInError):
    """The authorization server could not be reached or has a fault; trying again may help, and nothing is lost."""

    failure_code = "auth.try-again"


class SignInRefusedError(SignInError):
    """The authorization server does not take the request: a wrong client id, scope or address."""

    failure_code = "auth.refused"
