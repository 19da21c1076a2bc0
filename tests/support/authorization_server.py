"""A real authorization server on loopback, from Authlib's server half over Flask.

It does codes with PKCE, device codes, and refresh tokens that are rotated. Beside it stands what OpenRouter does in its
own way (openrouter.ai/docs/guides/overview/auth/oauth): a code from /auth, exchanged at /api/v1/auth/keys for a key.
"""

# Authlib's server classes have stubs that leave most results out.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportIncompatibleMethodOverride=false, reportReturnType=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, RUF012 - the methods are Authlib's, and so are their types

import base64
import hashlib
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6749.errors import AccessDeniedError
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from flask import Flask, redirect, request
from flask.typing import ResponseReturnValue
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.support.threaded_server import in_thread

CLIENT_ID = "pattern-tests"


class _Client(ClientMixin):
    def get_client_id(self):
        return CLIENT_ID

    def get_default_redirect_uri(self):
        return ""

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri.startswith("http://127.0.0.1:")

    def check_client_secret(self, client_secret):
        return not client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        del endpoint
        return method == "none"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        del grant_type
        return True


@dataclass
class _Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    scope: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope


@dataclass
class _Token(TokenMixin):
    access_token: str
    refresh_token: str
    ends_at: float

    def check_client(self, client):
        del client
        return True

    def get_scope(self):
        return ""

    def get_expires_in(self):
        return int(self.ends_at - time.time())  # noqa: TID251 - a server's own clock

    def is_expired(self):
        return False

    def is_revoked(self):
        return False


@dataclass
class Authorization:
    """The server's state, and what its person and its operator do."""

    url: str = ""
    allows: bool | None = True
    """The person's answer; None: none yet."""
    lifetime_seconds: int = 3600
    """Of tokens and device codes."""
    failing: int = 0
    """A status that the token endpoint answers everything with; 0: none."""
    slow_downs: int = 0
    """How many polls of a device code are answered with slow_down."""
    token_requests: list[str] = field(default_factory=list[str])
    """The grant types that the token endpoint was asked for."""
    codes: dict[str, _Code] = field(default_factory=dict[str, _Code])
    tokens: list[_Token] = field(default_factory=list[_Token])
    keys: list[str] = field(default_factory=list[str])
    """The keys that were given out, as OpenRouter does."""
    devices: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def revoke_all(self) -> None:
        """Take every token back."""
        self.tokens.clear()


@contextmanager
def authorization_server() -> Generator[Authorization]:
    """A server that runs in a thread until the context ends."""
    state = Authorization()
    app = _app(state)
    # "localhost" is the one name that Authlib's server takes without TLS.
    server = make_server("localhost", 0, app, threaded=True, request_handler=_Quiet)
    state.url = f"http://localhost:{server.server_port}"
    with in_thread(server):
        yield state


def _app(state: Authorization) -> Flask:
    app = Flask(__name__)
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {}
    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    server = _Server(app, state)

    def authorize() -> ResponseReturnValue:
        user = "somebody" if state.allows else None
        try:
            grant = server.get_consent_grant(end_user=user)
        except AccessDeniedError as error:
            return server.handle_error_response(request, error)
        return server.create_authorization_response(request, grant_user=user, grant=grant)

    def token() -> ResponseReturnValue:
        state.token_requests.append(request.form.get("grant_type", ""))
        if state.failing:
            return "out of order", state.failing
        return server.create_token_response(request)

    def device() -> ResponseReturnValue:
        return server.create_endpoint_response("device_authorization", request)

    app.add_url_rule("/authorize", view_func=authorize, methods=["GET"])
    app.add_url_rule("/token", view_func=token, methods=["POST"])
    app.add_url_rule("/device", view_func=device, methods=["POST"])
    _add_key_flow(app, state)
    return app


def _add_key_flow(app: Flask, state: Authorization) -> None:
    def auth() -> ResponseReturnValue:
        back, sent = request.args["callback_url"], request.args
        code = f"code-{secrets.token_hex(16)}"
        state.codes[code] = _Code(code, back, "", sent["code_challenge"], sent["code_challenge_method"])
        given = {"code": code} if state.allows else {"error": "access_denied"}
        return redirect(f"{back}{'&' if '?' in back else '?'}{urlencode(given)}")

    def keys() -> ResponseReturnValue:
        sent: dict[str, str] = request.get_json()
        if state.failing:
            return "out of order", state.failing
        code = state.codes.pop(sent["code"], None)
        if code is None or not _proves(code.code_challenge, sent["code_verifier"]):
            return {"error": {"code": 403, "message": "Invalid code or code_verifier"}}, 403
        state.keys.append(f"sk-or-{secrets.token_hex(16)}")
        return {"key": state.keys[-1], "user_id": "user_1"}

    app.add_url_rule("/auth", view_func=auth, methods=["GET"])
    app.add_url_rule("/api/v1/auth/keys", view_func=keys, methods=["POST"])


def _proves(challenge: str, verifier: str) -> bool:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge


class _CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    def save_authorization_code(self, code, request):
        payload = request.payload
        self.server.state.codes[code] = _Code(
            code,
            payload.redirect_uri,
            payload.scope or "",
            payload.data["code_challenge"],
            payload.data["code_challenge_method"],
        )

    def query_authorization_code(self, code, client):
        del client
        return self.server.state.codes.get(code)

    def delete_authorization_code(self, authorization_code):
        self.server.state.codes.pop(authorization_code.code, None)

    def authenticate_user(self, authorization_code):
        del authorization_code
        return "somebody"


class _RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        return next((token for token in self.server.state.tokens if token.refresh_token == refresh_token), None)

    def authenticate_user(self, refresh_token):
        del refresh_token
        return "somebody"

    def revoke_old_credential(self, refresh_token):
        self.server.state.tokens.remove(refresh_token)


class _DeviceEndpoint(DeviceAuthorizationEndpoint):
    CLIENT_AUTH_METHODS = ["none"]
    INTERVAL = 1

    def get_verification_uri(self):
        return f"{self.server.state.url}/enter"

    def save_device_credential(self, client_id, scope, data):
        self.server.state.devices[data["device_code"]] = {**data, "client_id": client_id, "scope": scope}


class _DeviceGrant(DeviceCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    def query_device_credential(self, device_code):
        data = self.server.state.devices.get(device_code)
        ends = time.time() + self.server.state.lifetime_seconds  # noqa: TID251 - a server's own clock
        return None if data is None else DeviceCredentialDict({**data, "expires_at": ends})

    def query_user_grant(self, user_code):
        del user_code
        return None if self.server.state.allows is None else ("somebody", self.server.state.allows)

    def should_slow_down(self, credential):
        del credential
        self.server.state.slow_downs -= 1
        return self.server.state.slow_downs >= 0


class _Server(AuthorizationServer):
    """With the state that its grants look at."""

    def __init__(self, app: Flask, state: Authorization) -> None:
        def find(name):
            return _Client() if name == CLIENT_ID else None

        def save(token, request):
            del request
            ends = time.time() + token["expires_in"]  # noqa: TID251 - a server's own clock
            state.tokens.append(_Token(token["access_token"], token.get("refresh_token", ""), ends))

        super().__init__(app, query_client=find, save_token=save)
        self.state = state
        self.register_grant(_CodeGrant, [CodeChallenge(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_DeviceEndpoint)
        self.register_grant(_DeviceGrant)

    def generate_token(self, *words, **named):
        """See Authlib; tokens live as long as the state says."""
        return super().generate_token(*words, **{**named, "expires_in": self.state.lifetime_seconds})


class _Quiet(WSGIRequestHandler):
    """Logs nothing: addresses hold codes."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the name of Werkzeug
        """See Werkzeug."""
