"""An MCP server over streamable HTTP that forgets sessions and refuses requests when a test says so.

Owns: sessions, statuses and bodies, as real servers write them. Must not know: who asks.
"""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from werkzeug import Request, Response
from werkzeug.serving import make_server

from tests.support.mcp_server import TEXT_SCHEMA, tool
from tests.support.threaded_server import in_thread

Message = dict[str, Any]

SESSION_NOT_FOUND = json.dumps(
    {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Session not found"}}
)
"""What the official servers write beside a 404."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that is none."""

    status: int
    body: str = ""
    content_type: str = "application/json"
    retry_after: str = ""


@dataclass(slots=True)
class HttpServer:
    """A running server. What it does may be changed between two requests."""

    url: str = ""
    strange: Refused = field(default_factory=lambda: Refused(404, SESSION_NOT_FOUND))
    """What requests of a session get that it does not know."""
    refusals: list[Refused] = field(default_factory=list[Refused])
    """What the next requests get, whatever they are but notifications and the handshake."""
    greeting: list[Refused] = field(default_factory=list[Refused])
    """What the next handshakes get."""
    pages: list[Message] = field(default_factory=lambda: [{"tools": [tool("echo", "Echoes a text.", TEXT_SCHEMA)]}])
    """Of tools/list; the cursor of each but the first is its number, unless `cursors` says another."""
    refused_cursor: Refused | None = None
    """What a request for any page but the first gets."""
    lists: dict[str, Message] = field(default_factory=dict[str, Message])
    """The answers to prompts/list and resources/list."""
    sessions: list[str] = field(default_factory=list[str])
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The method and the session of each request, notifications left out."""
    with_sessions: bool = True
    forgets_at_calls: bool = False
    """Whether each call finds its session forgotten."""
    calls: int = 0
    """How many calls ran."""
    arguments: Message = field(default_factory=Message)
    """Those of the last call."""
    result: object = None
    """What calls give back, in place of an echo."""
    hangs: bool = False
    """Whether calls run until they are cancelled."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    notified: list[Message] = field(default_factory=list[Message])

    def forget(self) -> None:
        """Know no session any more, as after a restart or when they expire."""
        self.sessions.clear()

    def count(self, method: str) -> int:
        """How often a method was asked for."""
        return sum(asked == method for asked, _ in self.asked)

    def answer(self, request: Request) -> Response:
        """Answer one request."""
        if request.method != "POST":
            return Response(status=405)
        message = cast("Message", json.loads(request.get_data()))
        method, session = str(message.get("method")), request.headers.get("Mcp-Session-Id", "")
        if "id" not in message:
            self.notified.append(message)
            if method == "notifications/cancelled":
                self.cancelled.set()
            return Response(status=202)
        self.asked.append((method, session))
        if self.forgets_at_calls and method == "tools/call":
            self.forget()
        is_greeting = method == "initialize"
        refusals = self.greeting if is_greeting else self.refusals
        if refusals:
            return _refused(refusals.pop(0), message["id"])
        headers: dict[str, str] = {}
        if is_greeting and self.with_sessions:
            self.sessions.append(f"session-{self.count('initialize')}")
            headers["Mcp-Session-Id"] = self.sessions[-1]
        elif self.with_sessions and session not in self.sessions:
            return _refused(self.strange, message["id"])
        if self.refused_cursor is not None and "cursor" in (message.get("params") or {}):
            return _refused(self.refused_cursor, message["id"])
        result = self._result(method, cast("Message", message.get("params") or {}))
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return Response(body, content_type="application/json", headers=headers)

    def _result(self, method: str, params: Message) -> Message:
        match method:
            case "initialize":
                offered: Message = {"tools": {}, **{name.partition("/")[0]: {} for name in self.lists}}
                about = {"name": "test", "version": "1"}
                version = params.get("protocolVersion")
                return {"protocolVersion": version, "capabilities": offered, "serverInfo": about}
            case "tools/list":
                cursors = [None, *(page.get("nextCursor") for page in self.pages)]
                return self.pages[cursors.index(params.get("cursor"))]
            case "tools/call":
                self.calls += 1
                self.arguments = params.get("arguments", {})
                if self.hangs:
                    self.cancelled.wait(20)
                if self.result is not None:
                    return cast("Message", self.result)
                text = f"{params['name']}: {params.get('arguments', {}).get('text', '')}"
                return {"content": [{"type": "text", "text": text}]}
            case _:
                return self.lists.get(method, {})


def _refused(refused: Refused, number: object) -> Response:
    headers = {"Retry-After": refused.retry_after} if refused.retry_after else {}
    # An error that is no status answers the request by its id.
    body = refused.body.replace('"id": null', f'"id": {json.dumps(number)}') if refused.status == 200 else refused.body
    return Response(body, refused.status, headers, content_type=refused.content_type)


@contextmanager
def http_server() -> Generator[HttpServer]:
    """A server on a free port of loopback, until the context ends."""
    server = HttpServer()
    running = make_server("127.0.0.1", 0, Request.application(server.answer), threaded=True)
    server.url = f"http://127.0.0.1:{running.server_port}/mcp"
    with in_thread(running):
        yield server
