"""Signatures of Amazon's cloud, with the credentials that its own programs use on this machine.

Owns: finding the credentials with botocore (`pattern-acp[bedrock]`) and signing a request (Signature Version 4). It is
imported at the first request, in a worker thread, and renews on its own what can be renewed. Must not know: models, and
how a request is sent.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar, cast

import anyio
import anyio.to_thread

from pattern_acp.config.settings import Secret
from pattern_acp.credentials.model import CloudCredentialsError, SignInTransientError

SERVICE = "bedrock"
SOURCE = "the AWS credential chain"

CHAIN_SECONDS = 45.0
"""Longest wait for credentials: some come from a server, or from a program of the user's."""

ADVICE = (
    "run `aws sso login` or `aws configure`, set AWS_PROFILE or AWS_ACCESS_KEY_ID, or put a Bedrock key into "
    "AWS_BEARER_TOKEN_BEDROCK"
)

Found = TypeVar("Found")


class FrozenCredentials(Protocol):
    """Credentials at one moment."""

    access_key: str


class AwsCredentials(Protocol):
    """The part of a botocore credentials object that we use; it renews itself before it expires."""

    def get_frozen_credentials(self) -> FrozenCredentials:
        """Return the current credentials."""
        ...


class _Signable(Protocol):
    headers: Mapping[str, str]


class _Signer(Protocol):
    def add_auth(self, request: object) -> None: ...


Load = Callable[[], AwsCredentials | None]
"""Loads the credentials of this machine; None where there are none."""


class AwsKeys:
    """The credentials of this machine, for all providers at Amazon."""

    def __init__(self, load: Load | None = None) -> None:
        self._load = load or load_default
        self._lock = anyio.Lock()
        self._found: AwsCredentials | None = None

    async def key(self, name: str, refused: str = "") -> Secret:
        """Return the id of the access key that signs now for the provider `name`; it is no secret on its own.

        Raises:
            CloudCredentialsError: botocore is not installed, or there are no usable credentials.
            SignInTransientError: the one who gives them out cannot be reached.
        """
        frozen = await self._in_thread(name, partial(self._current, name, refused))
        return Secret(frozen.access_key, SOURCE)

    async def sign(self, name: str, region: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers of a POST, signed now; the signature is valid for five minutes. Raises like `key`."""

        def signed() -> dict[str, str]:
            return _signed(self._current(name, ""), region, url, headers, body)

        return await self._in_thread(name, signed)

    async def _in_thread(self, name: str, call: Callable[[], Found]) -> Found:
        try:
            with anyio.fail_after(CHAIN_SECONDS):
                async with self._lock:
                    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        except TimeoutError:
            raise SignInTransientError(
                f"The AWS credentials of {name} did not come within {CHAIN_SECONDS:.0f} s; try again."
            ) from None

    def _current(self, name: str, refused: str) -> FrozenCredentials:
        try:
            from botocore import exceptions
        except ImportError:
            raise CloudCredentialsError(
                f'{name} needs botocore to sign, which is not installed; run: pip install "pattern-acp[bedrock]", or '
                "put a Bedrock key into AWS_BEARER_TOKEN_BEDROCK."
            ) from None
        try:
            found = self._found or self._load()
            frozen = found.get_frozen_credentials() if found is not None else None
            if frozen is not None and refused and frozen.access_key == refused:
                # Another program may have updated the file since.
                found = self._load()
                frozen = found.get_frozen_credentials() if found is not None else None
        except (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.MetadataRetrievalError) as error:
            raise SignInTransientError(f"The AWS credentials of {name} cannot be reached; try again.") from error
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise CloudCredentialsError(
                f"The AWS credentials of {name} cannot be used ({type(error).__name__}); {ADVICE}."
            ) from error
        if frozen is None:
            raise CloudCredentialsError(f"{name} finds no AWS credentials; {ADVICE}.")
        self._found = found
        return frozen


def load_default() -> AwsCredentials | None:
    """Load the credentials that AWS programs use: variables, files and profiles, sign-in, roles, the machine's own.

    Raises:
        botocore.exceptions.BotoCoreError: a file or a profile is wrong.
    """
    import botocore.session

    session = botocore.session.Session()
    return cast("Load", session.get_credentials)()


def _signed(
    credentials: FrozenCredentials, region: str, url: str, headers: Mapping[str, str], body: bytes
) -> dict[str, str]:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    make = cast("Callable[..., _Signable]", AWSRequest)
    request = make(method="POST", url=url, data=body, headers=dict(headers))
    cast("Callable[..., _Signer]", SigV4Auth)(credentials, SERVICE, region).add_auth(request)
    return dict(cast("Iterable[tuple[str, str]]", request.headers.items()))
