"""Access tokens of Google's clouds, from the application default credentials of this machine.

Owns: finding the credentials with google-auth (`pattern-acp[vertex]`), and a token that is valid for another minute. It
is imported at the first request, in a worker thread. Must not know: models and HTTP, which the caller passes in.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.config.settings import Secret
from pattern_acp.credentials.keys import REFRESH_BEFORE_MS
from pattern_acp.credentials.model import CloudCredentialsError, Exchange, SignInTransientError, TokenAnswer
from pattern_acp.domain.clock import Clock

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
SOURCE = "Google's application default credentials"

TOKEN_SECONDS = 45.0
"""Longest wait for the credentials and their token: google-auth checks three times for one of Google's machines."""

EXCHANGE_SECONDS = 30.0
"""Longest wait for one answer, unless google-auth sets its own."""

ADVICE = "run `gcloud auth application-default login`, or name a key file in GOOGLE_APPLICATION_CREDENTIALS"


class GoogleToken(Struct, frozen=True):
    """An access token, and the project that the credentials name, if they name one."""

    secret: Secret
    project: str


class GoogleCredentials(Protocol):
    """The part of a google-auth credentials object that we use."""

    token: str | None
    expiry: datetime | None
    """A time in UTC, without a zone."""

    def refresh(self, request: object) -> None:
        """Get a new token."""
        ...


Load = Callable[[object], tuple[GoogleCredentials, str]]
"""Loads the credentials of this machine and their project, with a transport."""


class GoogleTokens:
    """One token for all providers at Google, renewed when it expires within a minute or was refused."""

    def __init__(self, exchange: Exchange, clock: Clock, load: Load | None = None) -> None:
        self._exchange = exchange
        self._clock = clock
        self._load = load or load_default
        self._lock = anyio.Lock()
        self._found: tuple[GoogleCredentials, str] | None = None

    async def token(self, name: str, refused: str = "") -> GoogleToken:
        """Return the current token for the provider `name`.

        Raises:
            CloudCredentialsError: google-auth is not installed, there are no credentials, or Google refuses them.
            SignInTransientError: Google cannot be reached.
        """
        try:
            with anyio.fail_after(TOKEN_SECONDS):
                async with self._lock:
                    if self._found is None or self._is_over(self._found[0], refused):
                        self._found = await anyio.to_thread.run_sync(self._renew, name, abandon_on_cancel=True)
                    credentials, project = self._found
        except TimeoutError:
            raise SignInTransientError(
                f"Google gave {name} no token within {TOKEN_SECONDS:.0f} s; try again."
            ) from None
        return GoogleToken(Secret(credentials.token or "", SOURCE), project)

    def _is_over(self, credentials: GoogleCredentials, refused: str) -> bool:
        if not credentials.token or (refused and credentials.token == refused):
            return True
        if credentials.expiry is None:
            return False
        ends = int(credentials.expiry.replace(tzinfo=UTC).timestamp() * 1000)
        return ends - self._clock.now_ms() <= REFRESH_BEFORE_MS

    def _renew(self, name: str) -> tuple[GoogleCredentials, str]:
        try:
            from google.auth import exceptions
        except ImportError:
            raise CloudCredentialsError(
                f'{name} needs google-auth, which is not installed; run: pip install "pattern-acp[vertex]".'
            ) from None
        transport = _Transport(self._exchange)
        try:
            found = self._found or self._load(transport)
            found[0].refresh(transport)
        except exceptions.DefaultCredentialsError as error:
            raise CloudCredentialsError(f"{name} finds no usable credentials of Google; {ADVICE}.") from error
        except exceptions.TransportError as error:
            raise SignInTransientError(f"Google cannot be reached for a token of {name}; try again.") from error
        except exceptions.GoogleAuthError as error:
            if error.retryable:  # pyright: ignore[reportUnknownMemberType] - has no types
                raise SignInTransientError(f"Google gives {name} no token at the moment; try again.") from error
            raise CloudCredentialsError(f"Google refuses the credentials that {name} uses; {ADVICE}.") from error
        return found


def load_default(transport: object) -> tuple[GoogleCredentials, str]:
    """Load the application default credentials: a key file, gcloud's, or those of the machine at Google.

    Raises:
        google.auth.exceptions.GoogleAuthError: there are none.
    """
    import google.auth

    default = cast("Callable[..., tuple[GoogleCredentials, str | None]]", google.auth.default)  # pyright: ignore[reportUnknownMemberType] - has no types
    credentials, project = default(scopes=[SCOPE], request=transport)
    return credentials, project or ""


class _Transport:
    """An adapter of our HTTP to `google.auth.transport.Request`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> "_Response":
        from google.auth import exceptions

        data = body.encode() if isinstance(body, str) else body
        try:
            return _Response(self._exchange(method, url, headers or {}, data, timeout or EXCHANGE_SECONDS))
        except SignInTransientError as error:
            raise exceptions.TransportError(error.sentence) from error


class _Response:
    """An adapter of an answer to `google.auth.transport.Response`."""

    def __init__(self, answer: TokenAnswer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.data = answer.body
