"""The terminals of `FakeEditor`.

Owns: terminal/*. A command is played by `FakeTerminals.run`; only `really_run` starts it. Must not know: who asks.
"""

import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import msgspec

from pattern_acp.config.load import process_environment
from pattern_acp.jsonrpc.dispatcher import RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import RpcError
from tests.support.editor_files import JsonDict


@dataclass(slots=True)
class FakeTerminalState:
    """One terminal: what was asked for, and what became of it."""

    line: str
    """The shell line: words joined by spaces, or the text of the script that was handed over."""
    cwd: str = ""
    env: dict[str, str] = field(default_factory=dict[str, str])
    output_byte_limit: int | None = None
    output: str = ""
    exit_code: int | None = None
    signal: str | None = None
    killed: bool = False
    released: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)
    words: tuple[str, ...] = ()
    """Program and arguments as they came."""
    finish: Callable[[], Awaitable[None]] | None = None
    """Awaited before the end is told, where something really runs."""

    def end(self, output: str = "", exit_code: int | None = 0, signal: str | None = None) -> None:
        """Let the command end."""
        self.output, self.exit_code, self.signal = self.output + output, exit_code, signal
        self.ended.set()


class FakeTerminals:
    """The editor's terminals; `run` decides what a command does, at once or later."""

    def __init__(self, params: Callable[[str, msgspec.Raw], JsonDict]) -> None:
        self._params = params
        self.by_id: dict[str, FakeTerminalState] = {}
        self.run: Callable[[FakeTerminalState], None] = end_with("", 0)
        self.errors: dict[str, RpcError] = {}
        """Methods that are answered with an error and not done."""
        self.mute_methods: set[str] = set()
        """Methods that are never answered, though they are done."""

    def handlers(self) -> dict[str, RequestHandler]:
        """The terminal/* methods."""
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def _create(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        params = self._params(context.method, raw)
        self._raise_error(context)
        terminal_id = f"term_{len(self.by_id) + 1}"
        pairs = cast("list[dict[str, str]]", params.get("env") or [])
        env = {pair["name"]: pair["value"] for pair in pairs}
        line = await _line_of(params)
        state = FakeTerminalState(line, params.get("cwd", ""), env, params.get("outputByteLimit"))
        state.words = (params["command"], *(params.get("args") or []))
        self.by_id[terminal_id] = state
        self.run(state)
        return {"terminalId": terminal_id}

    async def _output(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        state = await self._terminal(raw, context)
        kept, truncated = _newest(state.output, state.output_byte_limit)
        answer: JsonDict = {"output": kept, "truncated": truncated}
        if state.ended.is_set():
            answer["exitStatus"] = {"exitCode": state.exit_code, "signal": state.signal}
        return answer

    async def _wait_for_exit(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        state = await self._terminal(raw, context)
        if state.finish is not None:
            await state.finish()
        await state.ended.wait()
        return {"exitCode": state.exit_code, "signal": state.signal}

    async def _kill(self, raw: msgspec.Raw, context: RequestContext) -> None:
        state = self._named(raw, context)
        state.killed = True
        if not state.ended.is_set():
            state.end(exit_code=None, signal="SIGTERM")
        await self._stay_mute(context)

    async def _release(self, raw: msgspec.Raw, context: RequestContext) -> None:
        self._named(raw, context).released = True
        await self._stay_mute(context)

    async def _terminal(self, raw: msgspec.Raw, context: RequestContext) -> FakeTerminalState:
        state = self._named(raw, context)
        await self._stay_mute(context)
        return state

    def _named(self, raw: msgspec.Raw, context: RequestContext) -> FakeTerminalState:
        params = self._params(context.method, raw)
        self._raise_error(context)
        return self.by_id[params["terminalId"]]

    def _raise_error(self, context: RequestContext) -> None:
        if context.method in self.errors:
            raise self.errors[context.method]

    async def _stay_mute(self, context: RequestContext) -> None:
        if context.method in self.mute_methods:
            await anyio.sleep_forever()


def end_with(output: str, exit_code: int) -> Callable[[FakeTerminalState], None]:
    """A command that ends at once."""

    def run(state: FakeTerminalState) -> None:
        state.end(output, exit_code)

    return run


def really_run(state: FakeTerminalState) -> None:
    """Starts the command in its folder, as a client does that has terminals."""
    process = subprocess.Popen(
        state.words,
        cwd=state.cwd,
        env={**process_environment(), **state.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    async def finish() -> None:
        output, _ = await anyio.to_thread.run_sync(process.communicate)
        if not state.ended.is_set():
            state.end(output.decode("utf-8", "replace"), process.returncode)

    state.finish = finish


def hang(state: FakeTerminalState) -> None:
    """A command that goes on until it is killed or a test ends it."""
    del state


async def _line_of(params: JsonDict) -> str:
    args: list[str] = params.get("args") or []
    script = Path(args[-1]) if args else None
    if script is not None and script.name.startswith("command-"):
        return (
            (await anyio.Path(script).read_text(encoding="utf-8")).removeprefix("exec </dev/null; ").removesuffix("\n")
        )
    return " ".join([params["command"], *args])


def _newest(output: str, limit: int | None) -> tuple[str, bool]:
    data = output.encode("utf-8")
    if limit is None or len(data) <= limit:
        return output, False
    return data[-limit:].decode("utf-8", "ignore"), True
