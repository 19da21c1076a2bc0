"""`FakeEditor`: an in-memory ACP client, driven by tests.

It speaks plain JSON objects on purpose, so that a mistake in our wire structs cannot hide itself, and keeps every
line that the agent wrote for a judge.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import msgspec

from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext, RequestHandler
from pattern_acp.jsonrpc.errors import RpcError
from pattern_acp.jsonrpc.framing import Oversize
from pattern_acp.jsonrpc.transport import Transport

JsonDict = dict[str, Any]
PermissionAnswer = Callable[[JsonDict], Awaitable[JsonDict]]
"""From the request's parameters to the response's `outcome`."""


class RecordingTransport:
    """A transport that keeps every line that came in."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.lines: list[bytes] = []

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        item = await self._inner.receive()
        if isinstance(item, bytes):
            self.lines.append(item)
        return item

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        await self._inner.send(line)


def choose(option_id: str) -> PermissionAnswer:
    """Answers every permission request with one option."""

    async def answer(params: JsonDict) -> JsonDict:
        del params
        return {"outcome": "selected", "optionId": option_id}

    return answer


@dataclass(slots=True)
class FakeTerminalState:
    """One terminal of the fake editor."""

    command: str
    output: str = ""
    exit_code: int | None = None
    released: bool = False
    killed: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)


class FakeEditor:
    """A client with files in memory, instant terminals and scripted permission answers."""

    def __init__(
        self,
        transport: Transport,
        *,
        files: Mapping[str, str] | None = None,
        capabilities: JsonDict | None = None,
        permission: PermissionAnswer | None = None,
    ) -> None:
        self.recording = RecordingTransport(transport)
        self.files = dict(files or {})
        self.capabilities = capabilities or {}
        self.permission = permission or choose("allow_once")
        self.updates: list[JsonDict] = []
        self.asked: list[JsonDict] = []
        self.requests: list[tuple[str, JsonDict]] = []
        self.terminals = FakeTerminals(self._params)
        self._changed = anyio.Event()
        self.dispatcher = Dispatcher(
            self.recording,
            requests={
                "fs/read_text_file": self._read,
                "fs/write_text_file": self._write,
                "session/request_permission": self._ask,
                **self.terminals.handlers(),
            },
            notifications={"session/update": self._update},
            translate=leave_unexplained,
        )

    async def request(self, method: str, params: JsonDict, *, deadline: float = 10.0) -> JsonDict:
        """Ask the agent; errors are raised as `RemoteError`."""
        return await self.dispatcher.request(method, params, JsonDict, deadline=deadline)

    async def cancel(self, session_id: str) -> None:
        """`session/cancel`."""
        await self.dispatcher.notify("session/cancel", {"sessionId": session_id})

    async def initialize(self) -> JsonDict:
        """The first request, with this editor's capabilities."""
        params = {
            "protocolVersion": 1,
            "clientCapabilities": self.capabilities,
            "clientInfo": {"name": "fake-editor", "version": "1.0"},
        }
        return await self.request("initialize", params)

    async def open_session(self, cwd: str) -> str:
        """`session/new`; the new session's id."""
        answer = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        return cast("str", answer["sessionId"])

    async def prompt(self, session_id: str, text: str, *, deadline: float = 20.0) -> JsonDict:
        """One prompt of plain text; the response."""
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        return await self.request("session/prompt", params, deadline=deadline)

    def of_kind(self, kind: str) -> list[JsonDict]:
        """All updates of one variant so far."""
        return [update["update"] for update in self.updates if update["update"]["sessionUpdate"] == kind]

    def said(self) -> str:
        """All answer text so far."""
        return "".join(update["content"].get("text", "") for update in self.of_kind("agent_message_chunk"))

    async def wait_until(self, holds: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Wait until `holds` is true; looked at after everything the agent sends."""
        with anyio.fail_after(seconds):
            while not holds():
                await self._changed.wait()

    def _note(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _params(self, method: str, raw: msgspec.Raw) -> JsonDict:
        params = cast("JsonDict", json.loads(bytes(raw)))
        self.requests.append((method, params))
        self._note()
        return params

    def _update(self, raw: msgspec.Raw) -> None:
        self.updates.append(cast("JsonDict", json.loads(bytes(raw))))
        self._note()

    async def _read(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        params = self._params(context.method, raw)
        text = self.files.get(params["path"])
        if text is None:
            raise RpcError(-32002, "Resource not found", {"uri": params["path"]})
        return {"content": text}

    async def _write(self, raw: msgspec.Raw, context: RequestContext) -> None:
        params = self._params(context.method, raw)
        self.files[params["path"]] = params["content"]

    async def _ask(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        params = self._params(context.method, raw)
        self.asked.append(params)
        self._note()
        return {"outcome": await self.permission(params)}


class FakeTerminals:
    """The fake editor's terminals: they end at once unless a test says otherwise."""

    def __init__(self, params: Callable[[str, msgspec.Raw], JsonDict]) -> None:
        self._params = params
        self.by_id: dict[str, FakeTerminalState] = {}
        self.run: Callable[[FakeTerminalState], None] = end_with("", 0)

    def handlers(self) -> dict[str, RequestHandler]:
        """The terminal/* methods."""
        return {
            "terminal/create": self._create_terminal,
            "terminal/output": self._terminal_output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def _create_terminal(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        params = self._params(context.method, raw)
        terminal_id = f"term_{len(self.by_id) + 1}"
        line = " ".join([params["command"], *cast("Sequence[str]", params.get("args") or [])])
        state = FakeTerminalState(line)
        self.by_id[terminal_id] = state
        self.run(state)
        return {"terminalId": terminal_id}

    async def _terminal_output(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        state = self._terminal(context.method, raw)
        answer: JsonDict = {"output": state.output, "truncated": False}
        if state.ended.is_set():
            answer["exitStatus"] = {"exitCode": state.exit_code}
        return answer

    async def _wait_for_exit(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        state = self._terminal(context.method, raw)
        await state.ended.wait()
        return {"exitCode": state.exit_code, "signal": None}

    async def _kill(self, raw: msgspec.Raw, context: RequestContext) -> None:
        state = self._terminal(context.method, raw)
        state.killed = True
        state.ended.set()

    async def _release(self, raw: msgspec.Raw, context: RequestContext) -> None:
        self._terminal(context.method, raw).released = True

    def _terminal(self, method: str, raw: msgspec.Raw) -> FakeTerminalState:
        return self.by_id[self._params(method, raw)["terminalId"]]


def leave_unexplained(error: Exception) -> RpcError | None:
    """No error of a handler is foreseen: the fake's own faults must be loud."""
    del error
    return None


def end_with(output: str, exit_code: int) -> Callable[[FakeTerminalState], None]:
    """A terminal that ends at once."""

    def run(state: FakeTerminalState) -> None:
        state.output, state.exit_code = output, exit_code
        state.ended.set()

    return run
