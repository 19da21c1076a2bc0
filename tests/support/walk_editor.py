"""A blocking client of the real process for random walks: it sends any line, and judges every line that comes back.

Owns: `WalkEditor`, the process and its pipes, and the answers to what the agent asks. Must not know: what a walk sends.
"""

import json
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import IO, cast

from tests.support.editor import JsonDict
from tests.support.official_schema import official_schema
from tests.support.process import COMMAND, agent_environment
from tests.support.wire import WireFaultError, WireJudge

CAPABILITIES: tuple[JsonDict, ...] = (
    {},
    {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
    {"fs": {"readTextFile": True, "writeTextFile": False}, "session": {"compaction": {}}},
)
"""What the editors of a walk can do."""


class WalkPerson:
    """Answers what the agent asks: files as they are on the disk, and whatever comes to mind about permissions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.elsewhere: set[str] = set()
        """Sessions of which it was asked where they go on: a fork may have their prompts from then on, or nothing."""

    def answer(self, method: str, params: JsonDict) -> JsonDict:
        """The result of a request.

        Raises:
            OSError, ValueError: the file cannot be read or written.
        """
        if method == "fs/read_text_file":
            lines = Path(params["path"]).read_text(encoding="utf-8").splitlines(keepends=True)
            start = (params.get("line") or 1) - 1
            limit = params.get("limit")
            return {"content": "".join(lines[start:] if limit is None else lines[start : start + limit])}
        if method == "fs/write_text_file":
            Path(params["path"]).parent.mkdir(parents=True, exist_ok=True)
            with Path(params["path"]).open("w", encoding="utf-8", newline="") as file:
                file.write(params["content"])
            return {}
        return {"outcome": self._permission(params)}

    def _permission(self, params: JsonDict) -> JsonDict:
        if any("in a fork" in option["name"] for option in params["options"]):
            self.elsewhere.add(params["sessionId"])
        if self._random.random() < 0.1:
            return {"outcome": "cancelled"}
        return {"outcome": "selected", "optionId": self._random.choice(params["options"])["optionId"]}


class WalkEditor:
    """A spawned agent; a thread reads what it writes and answers what it asks."""

    def __init__(self, home: Path, folder: Path, environment: Mapping[str, str], random: Random) -> None:
        self.faults: list[str] = []
        """What the judge of lines found."""
        self.initializing: JsonDict = {"protocolVersion": 1, "clientCapabilities": random.choice(CAPABILITIES)}
        """The parameters of the first request."""
        self.person = WalkPerson(Random(random.random()))
        self._judge = WireJudge(official_schema())
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._answers: dict[str, JsonDict] = {}
        self._said: dict[str, list[str]] = {}
        self._ended = False
        self._next_id = 0
        self._stderr_file = folder / f"stderr-{time.monotonic_ns()}"
        with self._stderr_file.open("wb") as stderr:
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=str(home),
                env={**agent_environment(home), **environment},
            )
        self._input = cast("IO[bytes]", self.process.stdin)
        self._output = cast("IO[bytes]", self.process.stdout)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, method: str, params: object) -> str:
        """Send a request; its id. Text may hold lone surrogates, which go out as JSON escapes."""
        self._next_id += 1
        request_id = f"walk-{self._next_id}"
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return request_id

    def tell(self, method: str, params: object) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def wait(self, request_id: str, seconds: float) -> JsonDict | None:
        """The answer to a request; None when it did not come in time or the process has gone."""
        with self._changed:
            self._changed.wait_for(lambda: request_id in self._answers or self._ended, seconds)
            return self._answers.get(request_id)

    def asked(self, method: str, params: object, seconds: float) -> JsonDict | None:
        """Send a request and wait for its answer; see `wait`."""
        return self.wait(self.ask(method, params), seconds)

    def answered(self, request_id: str) -> bool:
        """Whether the answer is here, or none can come."""
        return request_id in self._answers or self._ended

    def take_said(self, session_id: str) -> str:
        """The answer text of a session since the last call."""
        with self._changed:
            return "".join(self._said.pop(session_id, []))

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self._let_go()

    def close(self, seconds: float) -> int | None:
        """Close its input as an editor that is closed does; the exit code, None when it had to be killed."""
        with suppress(OSError):
            self._input.close()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._let_go()
        return code

    def stderr(self) -> str:
        """Everything on standard error so far."""
        return self._stderr_file.read_text(encoding="utf-8", errors="replace")

    def _let_go(self) -> None:
        self.process.wait()
        self._reader.join()
        self._output.close()
        with suppress(OSError), self._writing:
            self._input.close()

    def _send(self, message: JsonDict) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._changed:
            self._judge.client_wrote(line)
        # The process may have been killed.
        with suppress(OSError, ValueError), self._writing:
            self._input.write(line)
            self._input.flush()

    def _read(self) -> None:
        for line in self._output:
            with self._changed:
                self._note(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _note(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # cut by SIGKILL
        try:
            self._judge.agent_wrote(line)
        except WireFaultError as fault:
            self.faults.append(f"{fault} {line[:300]!r}")
        message = cast("JsonDict", json.loads(line))
        if "method" not in message:
            request_id = str(message["id"])
            if request_id in self._answers:
                self.faults.append(f"The request {request_id} was answered twice.")
            self._answers[request_id] = message
        elif "id" in message:
            self._answer(message)
        elif message["method"] == "session/update":
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                self._said.setdefault(message["params"]["sessionId"], []).append(update["content"].get("text", ""))

    def _answer(self, message: JsonDict) -> None:
        try:
            body: JsonDict = {"result": self.person.answer(message["method"], message["params"])}
        except (OSError, ValueError) as error:
            body = {"error": {"code": -32603, "message": str(error)}}
        # Not here: while this thread writes, nobody reads.
        threading.Thread(target=self._send, args=({"jsonrpc": "2.0", "id": message["id"], **body},)).start()
