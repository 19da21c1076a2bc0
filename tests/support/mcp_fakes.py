"""MCP servers for tests: our scripts as settings, as the client sends them, hosted, and in a process of their own."""

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.mcp_servers.catalogue import Catalogue, LaunchContext, Logins, Reply, Report, ServerError
from pattern_acp.mcp_servers.host import ServerHost, SessionServers
from pattern_acp.mcp_servers.server import Connect, load_connect
from pattern_acp.processes.groups import ChildProgramPorts
from tests.support import mcp_server
from tests.support.editor import JsonDict
from tests.support.passing_time import no_pause


def script(kind: str, argument: str = "", *, name: str = "") -> McpServerSettings:
    """The test server of this kind, by its kind as its name."""
    program, *arguments = mcp_server.command(kind, argument)
    return McpServerSettings(name or kind, command=program, args=tuple(arguments))


def passed(kind: str, argument: str = "", *, name: str = "", env: Mapping[str, str] | None = None) -> JsonDict:
    """The same as a client passes it in session/new."""
    program, *arguments = mcp_server.command(kind, argument)
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {"name": name or kind, "command": program, "args": arguments, "env": variables}


def means() -> ChildProgramPorts:
    """What a server is started with here."""
    return ChildProgramPorts(process_environment())


@asynccontextmanager
async def hosted(
    *servers: McpServerSettings, cwd: str = "", load: Callable[[], Connect] = load_connect, logins: Logins | None = None
) -> AsyncGenerator[SessionServers, None]:
    """Servers of one session, until the context ends."""
    async with anyio.create_task_group() as tasks:
        session = ServerHost(tasks, means(), {}, load, no_pause, logins).open(servers, cwd or str(Path(sys.prefix)))
        yield session
        session.close()


OFFICIAL = "tests.support.mcp_official_server"


async def silent(line: str) -> None:
    """A `Report` that nobody sees."""
    del line


@asynccontextmanager
async def official(transport: str, port: int = 0) -> AsyncGenerator[JsonDict, None]:
    """The official package's server, as a client passes it; on a free port unless one is named."""
    if transport == "stdio":
        yield {"name": "official", "command": sys.executable, "args": ["-m", OFFICIAL, "stdio"], "env": []}
        return
    async with await anyio.open_process([sys.executable, "-m", OFFICIAL, transport, str(port)], stderr=None) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            port = int(await process.stdout.receive())
        path = "sse" if transport == "sse" else "mcp"
        header = {"name": "X-Test", "value": "1"}
        try:
            yield {"type": transport, "name": "official", "url": f"http://127.0.0.1:{port}/{path}", "headers": [header]}
        finally:
            process.kill()


class FakeConnection:
    """A `LiveConnection` without a server: it echoes, ends when it is told to, and changes its catalogue."""

    def __init__(self, offers: Catalogue) -> None:
        self.ended = anyio.Event()
        self.forgotten = False
        self.offers = offers
        self.on_change: Callable[[], None] = lambda: None

    async def catalogue(self) -> Catalogue:
        """See `LiveConnection.catalogue`."""
        return self.offers

    async def call(self, tool: str, arguments: JsonObject, report: Report) -> Reply:
        """See `LiveConnection.call`."""
        await report("1 of 1")
        return Reply(f"{tool} {dict(arguments)}")

    async def read(self, uri: str) -> Reply:
        """See `LiveConnection.read`."""
        return Reply(uri)

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """See `LiveConnection.prompt`."""
        return f"{name} {dict(arguments)}"


class FakeServers:
    """A `Connect` that gives out connections, or raises what it was given, one after another."""

    def __init__(self, *ends: FakeConnection | ServerError) -> None:
        self.started: list[str] = []
        self._ends = list(ends)

    def load(self) -> Connect:
        """Takes the place of `load_connect`."""
        return self.connect

    @asynccontextmanager
    async def connect(
        self, settings: McpServerSettings, place: LaunchContext, on_change: Callable[[], None]
    ) -> AsyncGenerator[FakeConnection, None]:
        """See `server.Connect`."""
        del place
        self.started.append(settings.name)
        end = self._ends.pop(0)
        if isinstance(end, ServerError):
            raise end
        end.on_change = on_change
        yield end
