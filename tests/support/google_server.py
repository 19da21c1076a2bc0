"""Google's token endpoint on loopback, and the key file of a service account that it knows.

Owns: checking the signed assertion of a service account (RFC 7523) with the account's own public key, and giving out
numbered tokens. Must not know: google-auth, which is what it judges.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from flask import Flask, request
from flask.typing import ResponseReturnValue
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

from tests.support.threaded_server import in_thread

ACCOUNT = "agent@test-project.iam.example"
PROJECT = "test-project"


@dataclass
class GoogleServer:
    """The server's state. `given` are the tokens so far, `claims` what each assertion said."""

    key_file: Path
    url: str = ""
    lifetime_seconds: int = 3600
    failing: int = 0
    """A status that everything is answered with; 0: none."""
    given: list[str] = field(default_factory=list[str])
    claims: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


@contextmanager
def google_server(folder: Path) -> Generator[GoogleServer]:
    """A server that runs in a thread until the context ends; the key file is written into `folder`."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    state = GoogleServer(folder / "account.json")
    server = make_server("127.0.0.1", 0, _app(state, _public(private)), threaded=True)
    state.url = f"http://127.0.0.1:{server.server_port}/token"
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": ACCOUNT,
        "client_id": "1",
        "token_uri": state.url,
    }
    state.key_file.write_text(json.dumps(account), encoding="utf-8")
    with in_thread(server):
        yield state


def _public(private: rsa.RSAPrivateKey) -> RSAKey:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return RSAKey.import_key(private.public_key().public_bytes(encoding, form))


def _app(state: GoogleServer, public: RSAKey) -> Flask:
    app = Flask(__name__)

    def token() -> ResponseReturnValue:
        if state.failing:
            return {"error": "server_error"}, state.failing
        try:
            claims = jwt.decode(request.form["assertion"], public, algorithms=["RS256"]).claims
        except JoseError:
            return {"error": "invalid_grant"}, 400
        state.claims.append(dict(claims))
        state.given.append(f"token-{len(state.given) + 1}")
        return {"access_token": state.given[-1], "expires_in": state.lifetime_seconds, "token_type": "Bearer"}

    app.add_url_rule("/token", view_func=token, methods=["POST"])
    return app
