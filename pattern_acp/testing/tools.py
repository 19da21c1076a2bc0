"""What tests of tools share: a session's context over a folder, and a recording of what a tool showed.

Owns: files with hooks for what a person or a formatter does meanwhile. Must not know: any tool.
"""

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import SessionId, ToolCallId, TurnId
from pattern_acp.domain.tool_calls import ToolContent
from pattern_acp.testing.memory import FakeMemory
from pattern_acp.tools.base import PreparedCall, Tool, ToolContext, ToolOutcome
from pattern_acp.workspace.errors import CommandFailedToStartError, FileMissingError, NotTextError
from pattern_acp.workspace.files import TextFile
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

CALL_ID = ToolCallId("call_1")


@dataclass(slots=True)
class FolderFiles:
    """`FileSystem` over the disk, read and written as UTF-8 without any further rule.

    `formatter` stands for an editor's format on save, `unsaved` for its buffers (path to text).
    """

    formatter: Callable[[str], str] = lambda text: text
    unsaved: dict[str, str] = field(default_factory=dict[str, str])
    written: list[str] = field(default_factory=list[str])

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`."""
        if path in self.unsaved:
            return TextFile(path, self.unsaved[path], "editor")
        file = anyio.Path(path)
        if not await file.exists():
            raise FileMissingError(f"There is no file {path}.")
        try:
            return TextFile(path, (await file.read_bytes()).decode("utf-8"), "disk")
        except UnicodeDecodeError as error:
            raise NotTextError(f"{path} is not text.") from error

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`."""
        await anyio.Path(path).parent.mkdir(parents=True, exist_ok=True)
        await anyio.Path(path).write_bytes(self.formatter(text).encode("utf-8"))
        self.written.append(path)
        self.unsaved.pop(path, None)
        return await self.read_text_file(path)


@dataclass(slots=True)
class RecordedProgress:
    """`Progress` that keeps what was reported, in order."""

    shown: list[tuple[ToolContent, ...]] = field(default_factory=list[tuple[ToolContent, ...]])
    output: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    exits: list[tuple[str, int | None, str | None]] = field(default_factory=list[tuple[str, int | None, str | None]])

    async def show(self, content: tuple[ToolContent, ...]) -> None:
        """See `Progress.show`."""
        self.shown.append(content)

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""
        self.output.append((terminal_id, data))

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""
        self.exits.append((terminal_id, exit_code, signal))


class ScriptedTerminal:
    """`Terminal` that plays one command: its output in chunks, then its end. `happened` lists what was done to it."""

    def __init__(
        self,
        chunks: Iterable[str] = (),
        status: ExitStatus | None = None,
        *,
        client_owned: bool = False,
        hangs: bool = False,
        starts: bool = True,
        truncated: bool = False,
    ) -> None:
        """`status` is how the command ends; one that `hangs` ends only when it is killed, by SIGKILL."""
        self.requests: list[CommandRequest] = []
        self.happened: list[str] = []
        self.started = anyio.Event()
        self._chunks = tuple(chunks)
        self._status = status or (ExitStatus(None, "SIGKILL") if hangs else ExitStatus(0))
        self._client_owned = client_owned
        self._hangs = hangs
        self._starts = starts
        self._truncated = truncated

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[RunningCommand]:
        """See `Terminal.start`."""
        self.requests.append(request)
        if not self._starts:
            raise CommandFailedToStartError("There is no shell.")
        command = ScriptedCommand(self._chunks, self._status, self.happened, client_owned=self._client_owned)
        command.truncated = self._truncated
        if not self._hangs:
            command.ended.set()
        self.started.set()
        try:
            yield command
        finally:
            self.happened.append("release")


class ScriptedCommand:
    """`RunningCommand` of a `ScriptedTerminal`."""

    def __init__(self, chunks: Iterable[str], status: ExitStatus, happened: list[str], *, client_owned: bool) -> None:
        self.ended = anyio.Event()
        self.truncated = False
        self._waiting = deque(chunks)
        self._text = "".join(self._waiting)
        self._status = status
        self._happened = happened
        self._client_owned = client_owned

    @property
    def terminal_id(self) -> str:
        """See `RunningCommand.terminal_id`."""
        return "terminal_1"

    @property
    def client_owned(self) -> bool:
        """See `RunningCommand.client_owned`."""
        return self._client_owned

    async def next_output(self) -> str:
        """See `RunningCommand.next_output`."""
        if self._waiting and not self._client_owned:
            return self._waiting.popleft()
        await self.ended.wait()
        return ""

    async def wait_for_exit(self) -> ExitStatus:
        """See `RunningCommand.wait_for_exit`."""
        await self.ended.wait()
        return self._status

    async def output(self) -> CommandOutput:
        """See `RunningCommand.output`."""
        self._happened.append("output")
        return CommandOutput(self._text, self.truncated)

    async def kill(self) -> None:
        """See `RunningCommand.kill`."""
        self._happened.append("kill")
        self.ended.set()


@dataclass(slots=True)
class ToolBench:
    """A session over `root` in which tools are called as the turn calls them."""

    context: ToolContext
    files: FolderFiles
    memory: FakeMemory
    progress: RecordedProgress = field(default_factory=RecordedProgress)

    async def prepare(self, tool: Tool, **arguments: object) -> PreparedCall:
        """Prepare a call with JSON arguments."""
        return await tool.prepare(as_json_object(arguments), CALL_ID, self.context)

    async def call(self, tool: Tool, **arguments: object) -> ToolOutcome:
        """Prepare a call and run it, as if policy allowed it."""
        prepared = await self.prepare(tool, **arguments)
        return await prepared.run(self.progress)

    def with_limit(self, characters: int) -> "ToolBench":
        """The same session with another result limit."""
        return replace(self, context=replace(self.context, result_limit=characters))


def tool_bench(root: Path, terminal: Terminal | None = None) -> ToolBench:
    """A session whose cwd and only root is `root`."""
    files = FolderFiles()
    memory = FakeMemory(SystemClock())
    context = ToolContext(
        session_id=SessionId("session_1"),
        turn_id=TurnId("turn_1"),
        cwd=str(root),
        roots=(str(root.resolve()),),
        files=files,
        terminal=terminal or ScriptedTerminal(),
        memory=memory,
    )
    return ToolBench(context, files, memory)


def as_json_object(arguments: dict[str, object]) -> JsonObject:
    """Arguments as they come out of a model's JSON text.

    Raises:
        TypeError: they are no JSON.
    """
    value: JsonObject = json.loads(json.dumps(arguments))
    return value
