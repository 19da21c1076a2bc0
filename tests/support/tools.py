"""What tests of tools share: a session's context over a folder, and a recording of what a tool showed.

Owns: calling a tool the way a turn does, through an editor's files over the disk. Must not know: any tool.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.domain.access import Access
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId, SystemClock, ToolCallId, TurnId
from pattern_acp.domain.tool_calls import ToolContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, Tool, ToolContext, ToolOutcome
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.terminal import Terminal
from tests.support.files import FakeFileSystem
from tests.support.memory import FakeMemory
from tests.support.terminal import FakeTerminal

CALL_ID = ToolCallId("call_1")


class RecordedProgress(Struct):
    """`Progress` that keeps what was reported, in order."""

    shown: list[tuple[ToolContent, ...]] = field(default_factory=list[tuple[ToolContent, ...]])
    output: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    notes: list[str] = field(default_factory=list[str])
    titles: list[str] = field(default_factory=list[str])
    exits: list[tuple[str, int | None, str | None]] = field(default_factory=list[tuple[str, int | None, str | None]])

    async def show(self, content: tuple[ToolContent, ...], *, title: str = "") -> None:
        """See `Progress.show`."""
        self.shown.append(content)
        self.titles += [title] if title else []

    def note(self, text: str) -> None:
        """See `Progress.note`."""
        self.notes.append(text)

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""
        self.output.append((terminal_id, data))

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""
        self.exits.append((terminal_id, exit_code, signal))


async def succeed(progress: Progress) -> ToolOutcome:
    """What a `FakeTool` does unless a test says otherwise."""
    del progress
    return ToolOutcome("done")


class FakeTool(Struct):
    """`Tool` that does what a test says. `effect` runs once the call is admitted."""

    name: str = "look"
    changes_things: bool = False
    accesses: tuple[Access, ...] = ()
    preview: tuple[ToolContent, ...] = ()
    effect: Callable[[Progress], Awaitable[ToolOutcome]] = succeed
    prepared: list[JsonObject] = field(default_factory=list[JsonObject])
    """The arguments of every call so far."""

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return ToolSpec(self.name, "", {"type": "object"})

    @property
    def kind(self) -> ToolKind:
        """See `Tool.kind`."""
        return ToolKind.OTHER

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext, /) -> PreparedCall:
        """See `Tool.prepare`."""
        del call_id, context
        self.prepared.append(arguments)
        return PreparedCall(f"Call {self.name}", self.accesses, self.effect, preview=self.preview)


class ToolBench(Struct):
    """A session over `root` in which tools are called as the turn calls them."""

    context: ToolContext
    files: FakeFileSystem
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
        return replace(self, context=replace(self.context, result_limit=characters, read_limit=characters))


def tool_bench(root: Path, terminal: Terminal | None = None) -> ToolBench:
    """A session whose cwd and only root is `root`."""
    files = FakeFileSystem(disk=LocalFileSystem())
    memory = FakeMemory(SystemClock())
    context = ToolContext(
        session_id=SessionId("session_1"),
        turn_id=TurnId("turn_1"),
        cwd=str(root),
        roots=(str(root.resolve()),),
        files=files,
        terminal=terminal or FakeTerminal(),
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
