"""The agent in a process of its own, and an editor that answers at once and notes how long it took."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, cast

from measuring import bare_environment, cpu_seconds, resident_megabytes

from pattern_acp.domain.canonical import Json, JsonObject

COMMAND = (sys.executable, "-m", "pattern_acp")

ROOT = Path(__file__).resolve().parents[1]

EDITOR_ABILITIES: JsonObject = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}


@dataclass(frozen=True, slots=True)
class Update:
    """One session/update and when it was here."""

    at: float
    content: JsonObject

    @property
    def kind(self) -> str:
        return str(self.content["sessionUpdate"])


class AgentProcess:
    """Spawned when it is made. `files` is what the editor has open; what is written is saved at once."""

    def __init__(
        self,
        home: Path,
        *,
        command: Sequence[str] = COMMAND,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        version: Literal[1, 2] = 1,
    ) -> None:
        """`version` is that of ACP."""
        self.files = dict(files or {})
        self._version = version
        self.updates: list[Update] = []
        self.answering = 0.0
        """Seconds that this editor took to answer the agent's own requests."""
        self._next_id = 0
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            (*command, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # These sources, also where another copy of them is installed: two versions can be compared.
            env={"PYTHONPATH": str(ROOT), **bare_environment(home, environment or {})},
            cwd=home.anchor,
        )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> "AgentProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._input.close()
        self._process.wait(10)
        self._output.close()

    def end_after(self, seconds: float) -> None:
        """Kill the agent when so much time has passed, so that one that never answers is met as one that ended."""
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()

    @property
    def pid(self) -> int:
        """The agent's process."""
        return self._process.pid

    @property
    def since_spawn(self) -> float:
        """Seconds since the process was spawned."""
        return time.perf_counter() - self.started

    @property
    def cpu(self) -> float:
        """Seconds of processor time so far."""
        return cpu_seconds(self._process.pid)

    @property
    def resident(self) -> float:
        """Megabytes resident now."""
        return resident_megabytes(self._process.pid)

    def initialize(self) -> None:
        about: JsonObject = {"clientCapabilities": EDITOR_ABILITIES}
        if self._version == 2:
            about = {"info": {"name": "benchmark", "version": "1"}, "capabilities": {}}
        self.request("initialize", {"protocolVersion": self._version, **about})

    def new_session(self, cwd: Path) -> str:
        return str(self.request("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"])

    def prompt(self, session_id: str, text: str) -> str:
        """Run a turn; its stop reason."""
        before = len(self.updates)
        answer = self.request("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})
        if self._version == 1:
            return str(answer["stopReason"])
        while True:
            for update in self.updates[before:]:
                if update.kind == "state_update" and update.content.get("stopReason"):
                    return str(update.content["stopReason"])
            before = len(self.updates)
            self._receive()

    @property
    def shown_characters(self) -> int:
        """Characters of answers so far."""
        chunks = (update.content for update in self.updates if update.kind == "agent_message_chunk")
        return sum(len(str(cast("JsonObject", chunk["content"]).get("text", ""))) for chunk in chunks)

    def first_update(self, kinds: Sequence[str], since: float) -> Update:
        """The first update of a kind that came after `since`."""
        return next(update for update in self.updates if update.at >= since and update.kind in kinds)

    def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request, serve the agent until its answer is here, and give the result.

        Raises:
            RuntimeError: the answer is an error, or the agent has gone.
        """
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._next_id and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method} failed: {message['error']}")
                return cast("JsonObject", message["result"])

    def _receive(self) -> JsonObject:
        line = self._output.readline()
        at = time.perf_counter()
        if not line:
            raise RuntimeError(f"The agent ended with {self._process.wait(10)}.")
        message = cast("JsonObject", json.loads(line))
        params = cast("JsonObject", message.get("params") or {})
        if message.get("method") == "session/update":
            self.updates.append(Update(at, cast("JsonObject", params["update"])))
        elif "method" in message and "id" in message:
            answer = self._answer(str(message["method"]), params)
            self._send({"jsonrpc": "2.0", "id": message["id"], **answer})
            self.answering += time.perf_counter() - at
        return message

    def _answer(self, method: str, params: JsonObject) -> JsonObject:
        if method == "fs/read_text_file":
            return self._text_of(str(params["path"]))
        if method == "fs/write_text_file":
            path, text = str(params["path"]), str(params["content"])
            self.files[path] = text
            Path(path).write_text(text, encoding="utf-8", newline="")
            return {"result": {}}
        if method == "session/request_permission":
            options = cast("list[JsonObject]", params["options"])
            allowing = [option for option in options if str(option["kind"]).startswith("allow")]
            if allowing:
                return {"result": {"outcome": {"outcome": "selected", "optionId": allowing[0]["optionId"]}}}
        return {"error": {"code": -32601, "message": "This editor does not do that."}}

    def _text_of(self, path: str) -> JsonObject:
        try:
            text = self.files[path] if path in self.files else Path(path).read_bytes().decode()
        except OSError:
            return {"error": {"code": -32002, "message": "There is no such file."}}
        return {"result": {"content": text}}

    def _send(self, message: Mapping[str, Json]) -> None:
        self._input.write(json.dumps(message).encode() + b"\n")
        self._input.flush()


Settings = tuple[Sequence[str], Mapping[str, str]]
"""Arguments and environment."""

ScriptKind = Literal["offline", "wire", "scripted"]
