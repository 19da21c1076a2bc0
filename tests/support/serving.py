"""The whole program in this process: `bootstrap.serve` over a loopback, with settings, files and a fake editor.

Owns: a private home and an environment with nothing of the machine in it but `PATH`. Must not know: what is tested.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.bootstrap.serve import serve_transport
from pattern_acp.config.settings import Flags
from pattern_acp.jsonrpc.transport import LoopbackTransport, loopback_pair
from pattern_acp.providers.scripted import ScriptStep
from tests.support.agent import temporary_folder
from tests.support.editor import FakeEditor, JsonDict

PATH = "/usr/bin:/bin"


@dataclass(slots=True)
class Home:
    """A home of a person and a project, both empty."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def project(self) -> Path:
        """The folder that sessions are opened in."""
        return self.folder / "project"

    @property
    def constellation(self) -> Path:
        """The file of the default constellation."""
        return self.process(Flags()).loaded.paths.constellation_path("default")

    def configure(self, text: str) -> None:
        """Write the person's `config.toml`."""
        path = self.process(Flags()).loaded.paths.config_file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def configure_project(self, text: str) -> None:
        """Write the project's `.pattern/config.toml`."""
        path = self.project / ".pattern" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def script(self, *turns: Sequence[ScriptStep]) -> None:
        """Set up the `scripted` provider, which is then the model of new sessions."""
        path = self.folder / "script.json"
        path.write_text(json.dumps({"turns": msgspec.to_builtins([list(turn) for turn in turns])}), encoding="utf-8")
        self.environ["PATTERN_ACP_SCRIPT"] = str(path)

    def process(self, flags: Flags) -> Process:
        """The settings as a process of this home reads them."""
        return start_process(flags, self.environ)


@dataclass(slots=True)
class Served:
    """A running agent and its editor. `ended` is set when the agent has shut down."""

    editor: FakeEditor
    transport: LoopbackTransport
    ended: anyio.Event

    def leave(self) -> None:
        """Close the editor's sending side: the end of input for the agent."""
        self.transport.close_sending()

    async def open(self, home: Home) -> str:
        """A session in the project."""
        return await self.editor.open_session(str(home.project))


@asynccontextmanager
async def temporary_home() -> AsyncGenerator[Home, None]:
    """A home that is deleted at the end."""
    with temporary_folder() as folder:
        home = Home(folder, {"PATH": PATH, "PATTERN_ACP_HOME": str(folder / "home")})
        home.project.mkdir()
        yield home


@asynccontextmanager
async def served(
    home: Home,
    flags: Flags | None = None,
    *,
    capabilities: JsonDict | None = None,
    files: Mapping[str, str] | None = None,
    introduce: bool = True,
    busy_seconds: float | None = None,
) -> AsyncGenerator[Served, None]:
    """The program, serving a fake editor until the block ends."""
    near, far = loopback_pair()
    editor = FakeEditor(far, files=files, capabilities=capabilities)
    ended = anyio.Event()

    process = replace(home.process(flags or Flags()), busy_seconds=busy_seconds)

    async def serve() -> None:
        await serve_transport(process, near, last_resort=False)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        tasks.start_soon(editor.dispatcher.run)
        if introduce:
            await editor.initialize()
        yield Served(editor, far, ended)
        far.close_sending()
        with anyio.fail_after(30):
            await ended.wait()
        tasks.cancel_scope.cancel()
