"""Credentials of a provider, their form on screen, and the errors of getting them."""

from collections.abc import Awaitable, Mapping
from enum import StrEnum
from typing import Literal, Protocol

from msgspec import Struct

from pattern_acp.config.settings import repr_without
from pattern_acp.domain.errors import SignInError


class CredentialFileError(SignInError):
    """The file of credentials cannot be read or written; it is left unchanged."""

    failure_code = "auth.file-unusable"


class KeyringUnavailableError(SignInError):
    """The system has no keyring that can be used, or it does not answer."""

    failure_code = "auth.keyring-unavailable"


class SignInDeniedError(SignInError):
    """The user, or the provider, refused."""

    failure_code = "auth.denied"


class StateMismatchError(SignInError):
    """The browser came back with another sign-in's state (RFC 6749, section 10.12)."""

    failure_code = "auth.state-mismatch"


class SignInExpiredError(SignInError):
    """The code, or the time to enter it, ran out before the sign-in was finished."""

    failure_code = "auth.expired"


class SignInRevokedError(SignInError):
    """The refresh token is no longer accepted (expired, used twice, or withdrawn); the user has to sign in again."""

    failure_code = "auth.revoked"


class CloudCredentialsError(SignInError):
    """The credentials of a cloud are missing or refused, or the package that reads them is not installed."""

    failure_code = "auth.cloud-credentials"


class SignInTransientError(SignInError):
    """The authorization server could not be reached or has a fault; trying again may help, and nothing is lost."""

    failure_code = "auth.try-again"


class SignInRefusedError(SignInError):
    """The authorization server rejects the request: a wrong client id, scope or address."""

    failure_code = "auth.refused"


SHORTEST_SHOWN = 12
"""Length below which no part of a key is shown: four characters would be too much of it."""


class KeyTier(StrEnum):
    """Source of a key, in the order of preference: an explicit choice of the user beats what is merely present."""

    CONFIG = "config"
    """The variable that `api_key_env` in config.toml names."""
    OAUTH = "oauth"
    KEYRING = "keyring"
    FILE = "file"
    ENVIRONMENT = "environment"
    """The provider's usual variable."""
    CLOUD = "cloud"
    """The credentials that the models' cloud set up on this machine."""


Kind = Literal["api_key", "oauth"]
Storage = Literal["keyring", "file"]


class Credential(Struct, frozen=True):
    """A key, or the tokens of a sign-in. Secrets stay out of the repr."""

    secret: str
    """The API key or the access token."""
    kind: Kind = "api_key"
    refresh_token: str = ""
    expires_at_ms: int | None = None
    """Expiry of the access token, in milliseconds UTC; None when unknown."""
    client: str = ""
    """JSON: what renewing the tokens of an MCP server takes, a secret of the client included."""

    def __repr__(self) -> str:
        return repr_without(self, "secret", "refresh_token", "client")


class StoredEntry(Struct, frozen=True):
    """Facts about a stored credential that need no keyring."""

    kind: Kind
    place: Storage
    last_four: str
    expires_at_ms: int | None = None
    stamp: str = ""
    """A new value at each save."""

    @property
    def tier(self) -> KeyTier:
        """The tier of this credential's source."""
        return KeyTier.OAUTH if self.kind == "oauth" else KeyTier(self.place)


class KeySource(Struct, frozen=True):
    """A source that has a key of a provider. `where` names it for the user."""

    tier: KeyTier
    where: str
    last_four: str
    expires_at_ms: int | None = None

    @property
    def sentence(self) -> str:
        """Tier, source and last characters, as /status and doctor show it."""
        ending = f", …{self.last_four}" if self.last_four else ""
        return f"{self.where}{ending}"


class HttpPost(Protocol):
    """Sends one POST of a form or of JSON; returns status and body."""

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, /) -> Awaitable[tuple[int, bytes]]:
        """Send it. Raises SignInTransientError where the server cannot be reached, or did not answer in time."""
        ...


class TokenAnswer(Struct, frozen=True):
    """The answer to one `Exchange`; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return repr_without(self, "body")


class Exchange(Protocol):
    """Sends one request, for a library that calls from a worker thread. Blocking."""

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float, /
    ) -> TokenAnswer:
        """Send it. Raises SignInTransientError where the server cannot be reached, or did not answer in time."""
        ...


def last_four(secret: str) -> str:
    """Return the last four characters of a key, or nothing of a short one."""
    return secret[-4:] if len(secret) >= SHORTEST_SHOWN else ""
