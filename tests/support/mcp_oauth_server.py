"""An MCP server over streamable HTTP that wants a login, with its authorization server, on loopback.

It does what the specification says of both: protected resource metadata (RFC 9728), authorization server metadata
(RFC 8414), dynamic registration (RFC 7591), codes with PKCE, refresh tokens that are rotated. Must not know: who asks.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from werkzeug import Request, Response
from werkzeug.serving import make_server
from werkzeug.utils import redirect

from tests.support.mcp_http_server import HttpServer
from tests.support.threaded_server import in_thread


@dataclass(slots=True)
class OAuthServer:
    """Both servers. What they do may be changed between two requests."""

    mcp: HttpServer = field(default_factory=HttpServer)
    url: str = ""
    """The origin of both."""
    allows: bool = True
    """What the user says in the browser."""
    registers: bool = True
    """Whether programs may register by themselves."""
    clients: dict[str, str] = field(default_factory=dict[str, str])
    """Secrets by client id; empty for programs without one."""
    state: str = ""
    """What comes back in place of the state, if it is another one."""
    endpoint: str = ""
    """The address of the token endpoint, if it is another one."""
    lifetime: int = 3600
    gives_refresh: bool = True
    failing: int = 0
    """A status that the token endpoint answers everything with; 0: none."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    access: set[str] = field(default_factory=set[str])
    """Tokens that are taken."""
    refresh: set[str] = field(default_factory=set[str])
    granted: list[str] = field(default_factory=list[str])
    """The grant types of the token requests that were answered with tokens."""
    resources: list[str] = field(default_factory=list[str])
    """The resources that codes and tokens were asked for."""
    registered: int = 0

    def answer(self, request: Request) -> Response:
        """Answer one request."""
        match request.path:
            case "/.well-known/oauth-protected-resource/mcp":
                return _json({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
            case "/.well-known/oauth-authorization-server":
                return _json(self._metadata())
            case "/register":
                return self._register(request)
            case "/authorize":
                return self._authorize(request)
            case "/token":
                return self._token(request)
            case "/mcp":
                return self._serve(request)
            case _:
                return Response(status=404)

    def _metadata(self) -> dict[str, object]:
        found: dict[str, object] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": self.endpoint or f"{self.url}/token",
            "scopes_supported": ["tools", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
        }
        return {**found, **({"registration_endpoint": f"{self.url}/register"} if self.registers else {})}

    def _register(self, request: Request) -> Response:
        if not self.registers:
            return Response("no", 404)
        self.registered += 1
        client = f"client-{self.registered}"
        self.clients[client] = ""
        return _json({**json.loads(request.get_data()), "client_id": client}, 201)

    def _authorize(self, request: Request) -> Response:
        sent = request.args
        if sent["client_id"] not in self.clients or sent["code_challenge_method"] != "S256":
            return Response("unknown client", 400)
        self.resources.append(sent["resource"])
        back = {"state": self.state or sent["state"]}
        if self.allows:
            code = f"code-{secrets.token_hex(8)}"
            self.codes[code] = {"challenge": sent["code_challenge"], "uri": sent["redirect_uri"]}
            back["code"] = code
        else:
            back["error"] = "access_denied"
        return redirect(f"{sent['redirect_uri']}?{urlencode(back)}")

    def _token(self, request: Request) -> Response:
        sent = request.form
        if self.failing:
            return Response("out of order", self.failing)
        if self.clients.get(sent["client_id"]) != sent.get("client_secret", ""):
            return _json({"error": "invalid_client"}, 401)
        self.resources.append(sent["resource"])
        if sent["grant_type"] == "authorization_code":
            code = self.codes.pop(sent["code"], {})
            digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
            is_proved = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == code.get("challenge")
            if not is_proved or code["uri"] != sent["redirect_uri"]:
                return _json({"error": "invalid_grant"}, 400)
        elif sent["refresh_token"] not in self.refresh:
            return _json({"error": "invalid_grant"}, 400)
        else:
            self.refresh.remove(sent["refresh_token"])
        self.granted.append(sent["grant_type"])
        token, refresh = f"access-{secrets.token_hex(12)}", f"refresh-{secrets.token_hex(12)}"
        self.access.add(token)
        answer: dict[str, object] = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        if self.gives_refresh:
            self.refresh.add(refresh)
            answer["refresh_token"] = refresh
        return _json(answer)

    def _serve(self, request: Request) -> Response:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.access:
            return self.mcp.answer(request)
        where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        return Response(status=401, headers={"WWW-Authenticate": where})


def _json(value: object, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


@contextmanager
def oauth_server() -> Generator[OAuthServer]:
    """Both on a free port of loopback, until the context ends."""
    server = OAuthServer()
    running = make_server("127.0.0.1", 0, Request.application(server.answer), threaded=True)
    server.url = f"http://127.0.0.1:{running.server_port}"
    server.mcp.url = f"{server.url}/mcp"
    with in_thread(running):
        yield server
