"""OAuth 2.0 as data: the requests, and the meaning of the answers. No I/O.

Owns: the authorization request with PKCE (RFC 7636), the answers of the redirect, of the token endpoint and of the
device endpoint (RFC 8628), and which failure is which. Written over the building blocks of Authlib (docs/adr). Must not
know: HTTP, browsers, and where tokens are stored.
"""

import math
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from authlib.oauth2.rfc6749.parameters import (
    prepare_grant_uri,  # pyright: ignore[reportUnknownVariableType] - the stubs leave results out
    prepare_token_request,
)
from authlib.oauth2.rfc7636 import (
    create_s256_code_challenge,  # pyright: ignore[reportUnknownVariableType] - same
)
from msgspec import Struct

from pattern_acp.config.settings import OAuthSettings, repr_without
from pattern_acp.credentials.model import (
    Credential,
    SignInDeniedError,
    SignInExpiredError,
    SignInRefusedError,
    SignInRevokedError,
    SignInTransientError,
    StateMismatchError,
)
from pattern_acp.domain.errors import SignInError

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE_INTERVAL_SECONDS = 5.0
"""RFC 8628, section 3.2: the interval when the server names none; section 3.5: what `slow_down` adds."""

OFFLINE = "offline_access"
"""The scope for which OpenID Connect servers issue a refresh token."""

MAX_LIFETIME_SECONDS = 10 * 365 * 24 * 3600
"""Longest plausible lifetime; a server that sends more does not send seconds."""

_CODE_ALONE = re.compile(r"[A-Za-z0-9._~+-][A-Za-z0-9._~+/=-]{7,2047}")
"""Codes as people paste them; an address has a colon, and the path of a redirect begins with a slash."""

_FORM = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_JSON = {"content-type": "application/json", "accept": "application/json"}


class FormPost(Struct, frozen=True):
    """One POST to an endpoint."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return repr_without(self, "body")


class AuthorizationRequest(Struct, frozen=True):
    """A browser sign-in under way."""

    url: str
    """The address for the browser."""
    redirect_uri: str
    state: str
    verifier: str

    def __repr__(self) -> str:
        return repr_without(self, "state", "verifier")


class DeviceCode(Struct, frozen=True):
    """The code that the user enters on another device, and the one to poll with."""

    user_code: str
    verification_url: str
    complete_url: str
    """The address including the code; empty when the server sends none."""
    device_code: str
    interval_seconds: float
    expires_at_ms: int

    def __repr__(self) -> str:
        return repr_without(self, "device_code")


class DevicePending(Exception):  # noqa: N818 - a state of the flow, not a fault
    """The user has not answered yet. `slower` asks for a longer interval."""

    def __init__(self, *, slower: bool) -> None:
        super().__init__("pending")
        self.slower = slower


class _Token(msgspec.Struct):
    access_token: str | None = None
    token_type: object = None
    refresh_token: str | None = None
    expires_in: float | str | None = None
    key: str | None = None
    error: str | dict[str, object] | None = None


class _Device(msgspec.Struct):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 900
    interval: float = DEVICE_INTERVAL_SECONDS


def challenge_of(verifier: str) -> str:
    """The S256 code challenge of a verifier (RFC 7636, section 4.2)."""
    return str(create_s256_code_challenge(verifier))  # pyright: ignore[reportUnknownArgumentType] - untyped result


def begin_authorization(oauth: OAuthSettings, redirect_uri: str) -> AuthorizationRequest:
    """Create an authorization request with a fresh state and verifier."""
    state = secrets.token_urlsafe(32)
    # 43 characters, the shortest that RFC 7636, section 4.1 allows, with 256 bits of entropy.
    verifier = secrets.token_urlsafe(32)
    challenge = challenge_of(verifier)
    if oauth.gives_key:
        # There is no parameter for the state; the redirect address carries it.
        redirect_uri = f"{redirect_uri}?{urlencode({'state': state})}"
        query = urlencode({"callback_url": redirect_uri, "code_challenge": challenge, "code_challenge_method": "S256"})
        joint = "&" if urlsplit(oauth.authorization_url).query else "?"
        return AuthorizationRequest(f"{oauth.authorization_url}{joint}{query}", redirect_uri, state, verifier)
    url = str(
        prepare_grant_uri(  # pyright: ignore[reportUnknownArgumentType] - untyped result
            oauth.authorization_url,
            oauth.client_id,
            "code",
            redirect_uri=redirect_uri,
            scope=oauth.scope or None,
            state=state,
            code_challenge=challenge,
            code_challenge_method="S256",
            # OpenID Connect Core, section 11: without it, servers drop this scope and issue no refresh token.
            prompt="consent" if OFFLINE in oauth.scope.split() else None,
        )
    )
    return AuthorizationRequest(url, redirect_uri, state, verifier)


def read_redirect(request: AuthorizationRequest, target: str) -> str:
    """Return the code of a redirect: the whole address, its path and query, or the code alone.

    A code alone, which only the user can have pasted, has no state; it is bound to this sign-in by its verifier.

    Raises:
        StateMismatchError: it belongs to another sign-in.
        SignInDeniedError, SignInTransientError, SignInRefusedError: the server says why there is no code.
    """
    if _CODE_ALONE.fullmatch(target):
        return target
    query = parse_qs(urlsplit(target).query)
    state = query.get("state", [""])[0]
    if not secrets.compare_digest(state.encode(), request.state.encode()):
        raise StateMismatchError(
            "The browser came back from another sign-in than this one; close its other tabs and start again."
        )
    if error := query.get("error", [""])[0]:
        raise error_named(error)
    code = query.get("code", [""])[0]
    if not code:
        raise SignInRefusedError("The browser came back without a code; check the provider's authorization_url.")
    return code


def exchange_form(oauth: OAuthSettings, request: AuthorizationRequest, code: str) -> FormPost:
    """The POST that turns a code into tokens, or into a key."""
    if oauth.gives_key:
        fields = {"code": code, "code_verifier": request.verifier, "code_challenge_method": "S256"}
        return FormPost(oauth.token_url, _JSON, msgspec.json.encode(fields))
    body = prepare_token_request(
        "authorization_code",
        redirect_uri=request.redirect_uri,
        code=code,
        client_id=oauth.client_id,
        code_verifier=request.verifier,
    )
    return FormPost(oauth.token_url, _FORM, body.encode())


def refresh_form(oauth: OAuthSettings, refresh_token: str) -> FormPost:
    """The POST that renews an access token (RFC 6749, section 6)."""
    body = prepare_token_request("refresh_token", refresh_token=refresh_token, client_id=oauth.client_id)
    return FormPost(oauth.token_url, _FORM, body.encode())


def device_form(oauth: OAuthSettings) -> FormPost:
    """The POST that asks for a device code (RFC 8628, section 3.1)."""
    fields = {"client_id": oauth.client_id, **({"scope": oauth.scope} if oauth.scope else {})}
    return FormPost(oauth.device_url, _FORM, urlencode(fields).encode())


def device_token_form(oauth: OAuthSettings, device: DeviceCode) -> FormPost:
    """The POST that asks whether the user has answered (RFC 8628, section 3.4)."""
    body = prepare_token_request(DEVICE_GRANT, device_code=device.device_code, client_id=oauth.client_id)
    return FormPost(oauth.token_url, _FORM, body.encode())


def read_device(status: int, body: bytes, now_ms: int) -> DeviceCode:
    """Read the device code of an answer.

    Raises:
        SignInError: there is none; the class says why.
    """
    if status != 200:
        raise _failure(status, body, "device code; check device_url")
    try:
        read = msgspec.json.decode(body, type=_Device)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise SignInRefusedError("The answer of device_url is not a device code; check the address.") from None
    lifetime = min(max(read.expires_in, 0), MAX_LIFETIME_SECONDS)
    return DeviceCode(
        read.user_code,
        read.verification_uri,
        read.verification_uri_complete,
        read.device_code,
        max(read.interval, 0),
        now_ms + int(lifetime * 1000),
    )


def read_token(status: int, body: bytes, now_ms: int, old: Credential | None = None) -> Credential:
    """Read the credential of a token answer. `old` is the one to renew: a server may keep its refresh token.

    Raises:
        DevicePending: the user has not answered yet.
        SignInError: there is none; the class says why.
    """
    read = _parse(body)
    if read is not None and status == 200:
        _check_usable(read)
        if read.key:
            return Credential(read.key)
    if status != 200 or read is None or not read.access_token:
        failure = _failure(status, body)
        if old is not None and isinstance(failure, SignInExpiredError):
            # Servers use the same word, `invalid_grant`, for an expired code and for an expired refresh token.
            raise SignInRevokedError("The sign-in is over (it expired, or was taken back); sign in again.")
        raise failure
    expires_at_ms = _expiry(read.expires_in, now_ms)
    if expires_at_ms is not None and expires_at_ms < now_ms:
        raise SignInRefusedError(
            "The authorization server's token is over already (its expires_in is negative); none was stored."
        )
    return Credential(
        read.access_token,
        "oauth",
        read.refresh_token or (old.refresh_token if old is not None else ""),
        expires_at_ms,
    )


def _check_usable(read: _Token) -> None:
    """Refuse a token that no request can carry as a bearer token (RFC 6749, section 7.1; RFC 6750, section 2.1)."""
    if isinstance(read.token_type, str) and read.token_type.lower() not in {"", "bearer"}:
        raise SignInRefusedError("The authorization server gives tokens of another type than Bearer; none was stored.")
    token = read.key or read.access_token or ""
    if not all("!" <= character <= "~" for character in token):
        raise SignInRefusedError(
            "The authorization server's token has characters that cannot be sent; none was stored."
        )


def error_named(name: str) -> SignInError | DevicePending:
    """Map an error's name to its class (RFC 6749, sections 4.1.2.1 and 5.2; RFC 8628, section 3.5)."""
    match name:
        case "access_denied":
            return SignInDeniedError("The sign-in was refused; nothing was changed.")
        case "authorization_pending":
            return DevicePending(slower=False)
        case "slow_down":
            return DevicePending(slower=True)
        case "expired_token" | "invalid_grant":
            return SignInExpiredError("The code has expired or was used already; start the sign-in again.")
        case "temporarily_unavailable" | "server_error":
            return SignInTransientError("The authorization server has a fault; try again in a moment.")
        case "invalid_client" | "unauthorized_client":
            return SignInRefusedError("The authorization server does not know this client; check client_id.")
        case "invalid_scope":
            return SignInRefusedError("The authorization server does not know these scopes; check scope.")
        case _:
            shown = name if name.isascii() and name.isprintable() and len(name) < 60 else "an unknown error"
            return SignInRefusedError(f"The authorization server refused ({shown}); check [providers.NAME.oauth].")


def _failure(status: int, body: bytes, lacks: str = "token; check token_url") -> SignInError | DevicePending:
    read = _parse(body)
    if status == 429:
        return SignInTransientError("The authorization server is asked too often; wait a minute and try again.")
    if status >= 500:
        return SignInTransientError(f"The authorization server has a fault (status {status}); try again in a moment.")
    if read is not None and isinstance(read.error, str):
        return error_named(read.error)
    if status in {400, 403} and read is not None and read.error is not None:
        # OpenRouter answers an expired code, or one of another verifier, with an object that holds a sentence.
        return SignInExpiredError("The code was refused; start the sign-in again.")
    return SignInRefusedError(f"The authorization server's answer (status {status}) has no {lacks}.")


def _parse(body: bytes) -> _Token | None:
    try:
        return msgspec.json.decode(body, type=_Token)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _expiry(expires_in: float | str | None, now_ms: int) -> int | None:
    """Return when a token expires, if known. Servers whose tokens last until they are withdrawn say 0."""
    try:
        seconds = float(expires_in) if expires_in is not None else math.nan
    except ValueError:
        return None
    if math.isnan(seconds) or seconds == 0:
        return None
    return now_ms + int(min(max(seconds, -MAX_LIFETIME_SECONDS), MAX_LIFETIME_SECONDS) * 1000)
