"""Refusals over HTTP: the meaning of their status for a call, a session and a login.

Owns: bringing the status to the caller, since the `mcp` package passes on words alone. Must not know: calls or lists.
"""

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from msgspec.structs import asdict
from pydantic_core import ValidationError

if TYPE_CHECKING:
    from httpx2._client import UseClientDefault
    from httpx2._types import AuthTypes

BODY_SECONDS = 5.0
"""Longest wait for the body of a refusal; its status says most."""

WORDS_LIMIT = 300
_KEY = "pattern_acp_refusal"
_SESSION_HEADER = "mcp-session-id"
_SESSION_WORDS = re.compile(r"\bsession\b|\bnot initialized\b|\bsession[ _-]?id\b", re.IGNORECASE)
"""Words of a 400 by which servers older than the standard status report an unknown session."""

_MAY_PASS = frozenset({429, 503})
"""Statuses of requests that were not begun."""

_MAY_PASS_TOO = frozenset({502, 504})
"""Statuses by which a gateway gave up; it is unknown whether the request was begun."""


class HttpRefusal(Struct, frozen=True):
    """A request that a server refused by an HTTP status."""

    status: int
    had_session: bool = False
    """True if it was sent within a session that the server had issued."""
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again."""
    words: str = ""
    """Words of the server beside the status."""
    is_rpc: bool = False
    """True if they came as an error of JSON-RPC."""

    @property
    def forgot_session(self) -> bool:
        """Return whether the server no longer knows our session: by 404, or by 400 for older servers."""
        is_said = self.status == 400 and _SESSION_WORDS.search(self.words) is not None
        return self.had_session and (self.status == 404 or is_said)

    @property
    def wants_login(self) -> bool:
        """Return whether the server wants the user to sign in."""
        return self.status == 401

    @property
    def concerns_login(self) -> bool:
        """Return whether it is about the login, so that another try would be the same."""
        return self.status in {401, 403}

    def may_pass(self, *, repeatable: bool) -> bool:
        """Return whether the same request may be sent again and may then succeed."""
        return self.status in _MAY_PASS or (repeatable and self.status in _MAY_PASS_TOO)

    @property
    def why(self) -> str:
        """The refusal as the end of a sentence."""
        if self.status == 401:
            return "it wants a login (HTTP status 401): run `pattern-acp mcp login`, or put a token into its `headers`"
        if self.status == 403:
            return "it refuses this login (HTTP status 403): sign in again, or look at the token in its `headers`"
        if self.is_rpc and self.words:
            return f"{self.words} (HTTP status {self.status})"
        later = f"; it wants to be asked again in {self.retry_after:.0f} s" if self.retry_after else ""
        return f"it answered with HTTP status {self.status}{f' ({self.words})' if self.words else ''}{later}"


class RefusalClient(httpx2.AsyncClient):
    """Client that answers a refused message with a JSON-RPC error which contains the refusal.

    The package passes on such an error as it is, and makes up words for any other body.
    """

    def __init__(
        self,
        *,
        headers: dict[str, str] | None,
        timeout: httpx2.Timeout | None,
        auth: httpx2.Auth | None = None,
        on_refusal: Callable[[HttpRefusal], None] = lambda _refusal: None,
    ) -> None:
        super().__init__(headers=headers, timeout=timeout, auth=auth)
        self._on_refusal = on_refusal

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        auth: "AuthTypes | UseClientDefault | None" = httpx2.USE_CLIENT_DEFAULT,
        follow_redirects: "bool | UseClientDefault" = httpx2.USE_CLIENT_DEFAULT,
    ) -> httpx2.Response:
        """See `httpx2.AsyncClient.send`."""
        response = await super().send(request, stream=stream, auth=auth, follow_redirects=follow_redirects)
        if request.method != "POST" or response.status_code < 400:
            return response
        body = b""
        try:
            with anyio.move_on_after(BODY_SECONDS):
                body = await response.aread()
        except httpx2.HTTPError:
            # The status has already come.
            pass
        finally:
            await response.aclose()
        error = _rpc_error(body)
        refusal = _refusal(request, response, body, error)
        self._on_refusal(refusal)
        # The server's own error stays: versions are agreed on by it.
        known = cast("object", error.data) if error is not None else None
        data = cast("dict[str, object]", known) if isinstance(known, dict) else {}
        code = error.code if error is not None else types.INTERNAL_ERROR
        message = error.message if error is not None else refusal.words
        error = {"code": code, "message": message, "data": {**data, _KEY: asdict(refusal)}}
        return httpx2.Response(
            response.status_code,
            headers={"content-type": "application/json"},
            content=json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(),
            request=request,
        )


def refusal_of(error: MCPError) -> HttpRefusal | None:
    """The refusal behind an error, if it is one."""
    data = cast("object", error.error.data)
    found = cast("dict[str, object]", data).get(_KEY) if isinstance(data, dict) else None
    try:
        return msgspec.convert(found, HttpRefusal) if found is not None else None
    except msgspec.ValidationError:
        return None


def _rpc_error(body: bytes) -> types.ErrorData | None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValidationError:
        return None
    return message.error if isinstance(message, types.JSONRPCError) else None


def _refusal(
    request: httpx2.Request, response: httpx2.Response, body: bytes, error: types.ErrorData | None
) -> HttpRefusal:
    wait = response.headers.get("retry-after", "")
    return HttpRefusal(
        response.status_code,
        had_session=_SESSION_HEADER in request.headers,
        retry_after=float(wait) if wait.isdecimal() and len(wait) < 7 else None,
        words=_words(error.message if error is not None else _plain(response, body)),
        is_rpc=error is not None,
    )


def _plain(response: httpx2.Response, body: bytes) -> str:
    """The text of a body that is no error of JSON-RPC; nothing of a page for browsers."""
    text = body.decode("utf-8", "replace")
    if "json" not in response.headers.get("content-type", ""):
        return "" if "<" in text else text
    try:
        found = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return text
    fields = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    inner = fields.get("error")
    fields |= cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    words = (fields.get(key) for key in ("error", "message", "detail", "error_description"))
    return ": ".join(word for word in words if isinstance(word, str))


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".")[:WORDS_LIMIT]
