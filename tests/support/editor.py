"""`FakeEditor`: an in-memory ACP client, driven by tests.

It speaks plain JSON objects on purpose, so that a mistake in our wire structs cannot hide itself, and keeps every
line that the agent wrote for a judge.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import anyio
import msgspec

from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.jsonrpc.transport import Oversize, Transport
from tests.support.editor_files import FakeEditorFiles, JsonDict
from tests.support.editor_terminals import FakeTerminals

__all__ = ["FakeEditor", "JsonDict", "PermissionAnswer", "RecordingTransport", "choose"]

PermissionAnswer = Callable[[JsonDict], Awaitable[JsonDict]]
"""From the request's parameters to the response's `outcome`."""


class RecordingTransport:
    """A transport that keeps every line that came in, and all lines of both sides in their order."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.lines: list[bytes] = []
        self.both: list[tuple[bool, bytes]] = []
        """Each line with its end, and whether the agent wrote it."""

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        item = await self._inner.receive()
        if isinstance(item, bytes):
            self.lines.append(item)
            self.both.append((True, item + b"\n"))
        return item

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        self.both.append((False, line))
        await self._inner.send(line)


def choose(option_id: str) -> PermissionAnswer:
    """Answers every permission request with one option."""

    async def answer(params: JsonDict) -> JsonDict:
        del params
        return {"outcome": "selected", "optionId": option_id}

    return answer


class FakeEditor:
    """A client with open buffers over the disk, played terminals and scripted permission answers."""

    def __init__(
        self,
        transport: Transport,
        *,
        files: Mapping[str, str] | None = None,
        capabilities: JsonDict | None = None,
        permission: PermissionAnswer | None = None,
        also: Mapping[str, RequestHandler] | None = None,
    ) -> None:
        """`also` has handlers of further requests of the agent."""
        self.recording = RecordingTransport(transport)
        self.capabilities = capabilities or {}
        self.permission = permission or choose("allow_once")
        self.form: JsonDict | Callable[[JsonDict], JsonDict] = {"action": "decline"}
        """The answer to every form, or the function that answers each."""
        self.forms: list[JsonDict] = []
        self.updates: list[JsonDict] = []
        self.asked: list[JsonDict] = []
        self.memory_events: list[JsonDict] = []
        self.session_events: list[JsonDict] = []
        self.requests: list[tuple[str, JsonDict]] = []
        self.disk = FakeEditorFiles(self._params, files)
        self.terminals = FakeTerminals(self._params)
        self.watch: Callable[[JsonDict], None] = lambda _update: None
        """Called with each session/update before the next line is read."""
        self._changed = anyio.Event()
        self.dispatcher = Dispatcher(
            self.recording,
            requests={
                "session/request_permission": self._ask,
                "elicitation/create": self._fill,
                **self.disk.handlers(),
                **self.terminals.handlers(),
                **(also or {}),
            },
            notifications={
                "session/update": self._update,
                "_pattern/memory/event": self._memory_event,
                "_pattern/session/event": self._session_event,
            },
            translate=leave_unexplained,
        )

    @property
    def files(self) -> dict[str, str]:
        """The open buffers by absolute path."""
        return self.disk.buffers

    async def request(self, method: str, params: JsonDict, *, deadline: float = 60.0) -> JsonDict:
        """Ask the agent; errors are raised as `RemoteError`."""
        return await self.dispatcher.request(method, params, JsonDict, deadline=deadline)

    async def cancel(self, session_id: str) -> None:
        """`session/cancel`."""
        await self.dispatcher.notify("session/cancel", {"sessionId": session_id})

    async def initialize(self, introduction: JsonDict | None = None) -> JsonDict:
        """The first request, with this editor's capabilities or with the parameters that are given."""
        params = introduction or {
            "protocolVersion": 1,
            "clientCapabilities": self.capabilities,
            "clientInfo": {"name": "fake-editor", "version": "1.0"},
        }
        return await self.request("initialize", params)

    async def open_session(self, cwd: str) -> str:
        """`session/new`; the new session's id."""
        answer = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        return cast("str", answer["sessionId"])

    async def prompt(self, session_id: str, text: str, *, deadline: float = 60.0) -> JsonDict:
        """One prompt of plain text; the response."""
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return await self.request("session/prompt", params, deadline=deadline)

    def of_kind(self, kind: str) -> list[JsonDict]:
        """All updates of one variant so far."""
        return [update["update"] for update in self.updates if update["update"]["sessionUpdate"] == kind]

    def said(self) -> str:
        """All answer text so far."""
        return "".join(update["content"].get("text", "") for update in self.of_kind("agent_message_chunk"))

    async def wait_until(self, holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Wait until `holds` is true; looked at after everything the agent sends."""
        with anyio.fail_after(seconds):
            while not holds():
                await self._changed.wait()

    async def wait_for_request(self, method: str) -> None:
        """Wait until the agent has asked for `method`."""
        await self.wait_until(lambda: method in dict(self.requests))

    def _note(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _params(self, method: str, raw: msgspec.Raw) -> JsonDict:
        params = cast("JsonDict", json.loads(bytes(raw)))
        self.requests.append((method, params))
        self._note()
        return params

    def _update(self, raw: msgspec.Raw) -> None:
        update = cast("JsonDict", json.loads(bytes(raw)))
        self.updates.append(update)
        self.watch(update)
        self._note()

    def _memory_event(self, raw: msgspec.Raw) -> None:
        self.memory_events.append(cast("JsonDict", json.loads(bytes(raw))))
        self._note()

    def _session_event(self, raw: msgspec.Raw) -> None:
        self.session_events.append(cast("JsonDict", json.loads(bytes(raw))))
        self._note()

    async def _ask(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        # Most clients do not know $/cancel_request; whoever answers after a cancel does so in their own time.
        context.on_cancel(lambda: None)
        params = self._params(context.method, raw)
        self.asked.append(params)
        self._note()
        return {"outcome": await self.permission(params)}

    async def _fill(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        self.forms.append(self._params(context.method, raw))
        return self.form(self.forms[-1]) if callable(self.form) else self.form


def leave_unexplained(error: Exception) -> RpcError | None:
    """No error of a handler is foreseen: the fake's own faults must be loud."""
    del error
    return None
