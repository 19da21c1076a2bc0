"""The real agent in a process of its own, with a fake editor on its streams and a judge of every line.

Owns: spawning `python -m pattern_acp` with a known environment, and telling the end of input, signals and the exit
apart. Must not know: what is sent.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, cast

import anyio
import anyio.to_thread

from pattern_acp.cli.argv import parse_arguments
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.load import process_environment
from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import Event
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.jsonrpc.transport import Oversize, StdioTransport, Transport
from tests.support.agent import temporary_folder
from tests.support.editor import FakeEditor, JsonDict, PermissionAnswer
from tests.support.official_schema import official_schema, second_schema
from tests.support.second_judge import SecondJudge
from tests.support.turn_judge import TurnJudge
from tests.support.wire import WireFaultError, WireJudge

COMMAND = (sys.executable, "-P", "-m", "pattern_acp")
"""Like the installed program, and unlike `python -m` alone, it imports nothing from the current folder."""

INHERITED = ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_CONFIG")
"""What an agent needs of this process's environment: programs, Windows itself, and the coverage that a run may
measure."""

EXIT_SECONDS = 2.0
"""Invariant 9: longest between the end of input and the exit."""

COMMAND_SECONDS = 60.0
"""Longest that a command of ours may take in a test."""

SLACK_SECONDS = 18.0
"""What a loaded test machine may add to a limit. What hangs is found out all the same: it never ends."""


def agent_environment(home: Path | None = None, **more: str) -> dict[str, str]:
    """An environment that holds nothing of the person who runs the tests. `home` becomes PATTERN_ACP_HOME."""
    kept = {name: value for name, value in process_environment().items() if name in INHERITED}
    located = {} if home is None else {"PATTERN_ACP_HOME": str(home)}
    return {**kept, **located, "PATTERN_ACP_MODEL": "offline/offline", **more}


def run_command_line(
    home: Path,
    *arguments: str,
    seconds: float = COMMAND_SECONDS,
    typed: str = "",
    cwd: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end, as a person does in a terminal; `home` is PATTERN_ACP_HOME.

    `typed` is what it reads, `cwd` the folder that it runs in; `environment` is added to that of `agent_environment`.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    return subprocess.run(  # our own program
        [*COMMAND, *arguments],
        input=typed,
        cwd=cwd,
        env=agent_environment(home, **environment),
        capture_output=True,
        timeout=seconds,
        check=False,
        text=True,
        encoding="utf-8",
    )


def judge_conversation(written: Sequence[bytes], answered: bytes) -> list[JsonDict]:
    """The messages that an agent wrote in answer to the lines of a client, each of them judged.

    Raises:
        WireFaultError: one of them is not what ACP allows.
    """
    judge = WireJudge(official_schema())
    for line in written:
        judge.client_wrote(line)
    messages: list[JsonDict] = []
    for line in answered.splitlines(keepends=True):
        judge.agent_wrote(line)
        messages.append(cast("JsonDict", json.loads(line)))
    return messages


class ProcessTransport:
    """`Transport` over the pipes of a process; every line of either side is judged. Use as `async with`."""

    def __init__(self, process: subprocess.Popen[bytes], *judges: WireJudge | TurnJudge | SecondJudge) -> None:
        self.faults: list[str] = []
        """What the judges found; a test's own failure must not hide it, nor it the test's."""
        self._judges = judges
        # Two transports, so that the end of input can be sent while output is still read.
        self._incoming = StdioTransport(_taken(process.stdout), _null_writer())
        self._outgoing = StdioTransport(_null_reader(), _taken(process.stdin))
        self._input_open = True

    async def __aenter__(self) -> "ProcessTransport":
        await self._incoming.__aenter__()
        await self._outgoing.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_input()
        await self._incoming.__aexit__(kind, error, trace)

    async def close_input(self) -> None:
        """Let the agent read the end of its input."""
        if self._input_open:
            self._input_open = False
            await self._outgoing.__aexit__(None, None, None)

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        line = await self._incoming.receive()
        if isinstance(line, bytes):
            for judge in self._judges:
                try:
                    judge.agent_wrote(line + b"\n")
                except WireFaultError as fault:
                    self.faults.append(f"{fault} {line[:500]!r}")
        return line

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        for judge in self._judges:
            judge.client_wrote(line)
        await self._outgoing.send(line)


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started."""

    home: Path
    """PATTERN_ACP_HOME."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to `agent_environment`."""
    before: tuple[str, ...] = ()
    """Program that starts ours, with its arguments."""
    cwd: str | None = None
    capabilities: JsonDict = field(default_factory=dict[str, object])
    """Of the editor. None: the agent reads files and runs commands itself."""
    permission: PermissionAnswer | None = None
    introduction: JsonDict | None = None
    """The parameters of initialize, where `capabilities` are not all of them."""
    wrap: Callable[[Transport], Transport] = lambda transport: transport
    """Put between the editor and the streams; changes what the editor writes, before the judge sees it."""


@dataclass(slots=True)
class AgentProcess:
    """A running agent."""

    editor: FakeEditor
    initialized: JsonDict
    """The answer to initialize."""
    launch: Launch
    process: subprocess.Popen[bytes]
    transport: ProcessTransport
    stderr_file: Path

    async def close_input(self) -> None:
        """Leave, as an editor that is closed does."""
        await self.transport.close_input()

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM)."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process without giving it a chance (SIGKILL)."""
        self.process.kill()

    async def wait(self, seconds: float = EXIT_SECONDS + SLACK_SECONDS) -> int:
        """The exit code.

        Raises:
            subprocess.TimeoutExpired: the process did not end in time.
        """
        return await anyio.to_thread.run_sync(partial(self.process.wait, seconds))

    def stderr(self) -> str:
        """Everything on standard error so far."""
        return self.stderr_file.read_text(encoding="utf-8", errors="replace")

    @property
    def constellation(self) -> Path:
        """The database."""
        return self.launch.home / "constellations" / "default" / "constellation.db"


@asynccontextmanager
async def running_process(launch: Launch) -> AsyncGenerator[AgentProcess, None]:
    """An initialized agent in a process of its own; it is ended, and all it wrote was sound, when the context ends.

    Raises:
        WireFaultError: a line of the agent is not what ACP allows.
    """
    with temporary_folder() as folder:
        stderr_file = folder / "stderr"
        launch.home.mkdir(exist_ok=True)
        process = _spawn(launch, stderr_file)
        try:
            async with (
                ProcessTransport(process, *_judges_of(launch)) as transport,
                anyio.create_task_group() as tasks,
            ):
                streams = launch.wrap(transport)
                editor = FakeEditor(streams, capabilities=launch.capabilities, permission=launch.permission)
                tasks.start_soon(editor.dispatcher.run)
                initialized = await editor.initialize(launch.introduction)
                yield AgentProcess(editor, initialized, launch, process, transport, stderr_file)
                await transport.close_input()
                tasks.cancel_scope.cancel()
            if transport.faults:
                raise WireFaultError("\n".join(transport.faults))
        finally:
            await _end(process)


def _judges_of(launch: Launch) -> tuple[WireJudge | TurnJudge | SecondJudge, ...]:
    if (launch.introduction or {}).get("protocolVersion") == 2:
        return (SecondJudge(second_schema()),)
    return WireJudge(official_schema()), TurnJudge()


def _spawn(launch: Launch, stderr_file: Path) -> subprocess.Popen[bytes]:
    with stderr_file.open("wb") as stderr:
        return subprocess.Popen(
            [*launch.before, *COMMAND, *launch.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=launch.cwd or str(launch.home),
            env={**agent_environment(launch.home), **launch.environment},
        )


async def _end(process: subprocess.Popen[bytes]) -> None:
    with anyio.CancelScope(shield=True):
        try:
            await anyio.to_thread.run_sync(process.wait, EXIT_SECONDS + SLACK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await anyio.to_thread.run_sync(process.wait)


def _taken(stream: IO[bytes] | None) -> int:
    """A descriptor of our own for a process's stream, whose object is closed."""
    if stream is None:
        raise ValueError("The process was started without pipes.")
    descriptor = os.dup(stream.fileno())
    stream.close()
    return descriptor


def _null_reader() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _null_writer() -> int:
    return os.open(os.devnull, os.O_WRONLY)


def write_script(folder: Path, turns: Sequence[Sequence[Mapping[str, object]]], *, chunk: int = 0) -> dict[str, str]:
    """The environment that makes an agent play `turns` (see `providers.scripted`)."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json", delete=False, encoding="utf-8") as file:
        json.dump({"turns": turns, "chunk": chunk}, file)
    return {"PATTERN_ACP_SCRIPT": file.name, "PATTERN_ACP_MODEL": "scripted/scripted"}


async def read_events(constellation: Path, session_id: str) -> list[Event]:
    """What the journal holds of a session, in order; its chain and the file are checked on the way.

    Raises:
        AssertionError: the file or the chain is not sound.
    """
    async with open_database(constellation, clock=SystemClock(), read_only=True) as database:
        problems = await database.read(quick_check)
        chain = await database.read(lambda tx: verify_stream(tx, session_id))
        recorded = await database.read(lambda tx: read_stream(tx, session_id))
    if problems or not chain.ok:
        raise AssertionError(f"The constellation is not sound: {problems or chain}")
    return [each.event for each in recorded]


def judge_recordings(folder: Path) -> int:
    """Judge what `tests.support.recorder` kept in `folder`; the number of the agent's lines.

    Raises:
        WireFaultError: one of them is not what ACP allows.
    """
    count = 0
    for file in sorted(folder.glob("*.jsonl")):
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        second = any('"protocolVersion\\":2' in line and '"from": "agent"' in line for line in lines)
        judge = SecondJudge(second_schema()) if second else WireJudge(official_schema())
        # The last line may be cut: some clients kill what they spawned.
        for kept in lines:
            entry = cast("dict[str, str]", json.loads(kept))
            line = entry["line"].encode("utf-8", "surrogateescape")
            if entry["from"] == "client":
                judge.client_wrote(line)
            elif line.endswith(b"\n"):
                judge.agent_wrote(line)
                count += 1
    return count


def typed(*words: str) -> TypedCommand:
    """What a command line of ours asks for."""
    called = parse_arguments(words)
    assert isinstance(called, TypedCommand), called
    return called
