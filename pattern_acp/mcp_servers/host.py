"""The servers of a session, and the task group in which they run.

Owns: which servers a session has, waiting for them, and their end. Must not know: sessions, or what servers offer.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import AskClient, LaunchContext, Logins
from pattern_acp.mcp_servers.server import Connect, Pause, Server, ServerState, load_connect
from pattern_acp.processes.groups import ChildProgramPorts

logger = logging.getLogger(__name__)

TRANSPORTS = ("stdio", "http", "sse", "acp")
CLOSE_SECONDS = 1.5
"""Longest that a session waits for its servers to end."""


class SessionServers:
    """The servers of one session. `run` owns them; everything else may be called from any task."""

    def __init__(
        self, servers: Sequence[Server], load: Callable[[], Connect] = load_connect, passed: Collection[str] = ()
    ) -> None:
        """`passed` are the names of those that the client brought."""
        self.servers = tuple(servers)
        self._passed = frozenset(passed)
        self._load = load
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._own = self.servers
        self._joined: tuple[SessionServers, ...] = ()

    def join(self, others: "SessionServers") -> None:
        """Add servers that were started later, those of a project, to the session's."""
        self.servers = (*self.servers, *others.servers)
        self._joined = (*self._joined, others)

    def part(self, others: "SessionServers") -> None:
        """End servers that had joined, and remove them."""
        others.close()
        self._joined = tuple(each for each in self._joined if each is not others)
        self.servers = tuple(server for server in self.servers if server not in others.servers)

    def named(self, name: str) -> Server | None:
        """The server of this name."""
        return next((server for server in self.servers if server.name == name), None)

    @property
    def ready(self) -> tuple[Server, ...]:
        """The servers that answer now."""
        return tuple(server for server in self.servers if server.state is ServerState.READY)

    @property
    def files(self) -> Server | None:
        """The server by which the client serves the text of its files, once it answers."""
        return next((each for each in self.ready if each.name in self._passed and each.catalogue.files), None)

    @property
    def may_serve_files(self) -> bool:
        """True where the client brought a server."""
        return bool(self._passed)

    async def run(self) -> None:
        """Start all servers side by side and run them until the session is closed."""
        try:
            with self._scope:
                await self._run_sound([server for server in self._own if not self._refused(server)])
        except Exception:
            logger.exception("MCP servers could not be started.")
        finally:
            for server in self._own:
                if server.state is not ServerState.FAILED:
                    server.fail("its session was closed")
            self._ended.set()

    async def _run_sound(self, servers: Sequence[Server]) -> None:
        if not servers:
            return
        connect = await to_thread.run_sync(self._load)
        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(server.run, connect, name=f"MCP server {server.name}")

    def _refused(self, server: Server) -> bool:
        problem = problem_of(server.settings)
        if problem:
            server.fail(problem)
        return bool(problem)

    async def wait_settled(self, seconds: float) -> None:
        """Wait until every server is ready or has failed, at most that long."""
        with anyio.move_on_after(seconds):
            for server in self.servers:
                await server.settled.wait()

    def close(self) -> None:
        """End all servers with what they started. Idempotent, and does not wait."""
        self._scope.cancel()
        for others in self._joined:
            others.close()

    async def wait_closed(self) -> None:
        """Wait, a bounded time, until the servers are gone."""
        with anyio.move_on_after(CLOSE_SECONDS):
            if self._own:
                await self._ended.wait()
            for others in self._joined:
                await others.wait_closed()


class ServerHost:
    """Runs the servers of all sessions in one task group, which ends them when it is cancelled."""

    def __init__(
        self,
        tasks: TaskGroup,
        ports: ChildProgramPorts,
        configured: Mapping[str, McpServerSettings],
        load: Callable[[], Connect] = load_connect,
        pause: Pause = anyio.sleep,
        logins: Logins | None = None,
        ask_client: AskClient | None = None,
    ) -> None:
        self._logins = logins
        self._ask_client = ask_client
        self._pause = pause
        self._tasks = tasks
        self._ports = ports
        self._configured = configured
        self._load = load

    def open(self, passed: Sequence[McpServerSettings], cwd: str) -> SessionServers:
        """Start the servers of a session: those of the user's file, and those that the client passed.

        Of two with one name the client's counts, and the first of the client's. Returns at once.
        """
        return self._start(distinct(passed, self._configured), cwd, [each.name for each in passed])

    def open_more(self, settings: Sequence[McpServerSettings], cwd: str) -> SessionServers:
        """Start further servers for a session, which adds them with `SessionServers.join`. Returns at once."""
        return self._start(settings, cwd)

    def _start(self, chosen: Sequence[McpServerSettings], cwd: str, passed: Collection[str] = ()) -> SessionServers:
        launch = LaunchContext(cwd, self._ports, self._logins, self._ask_client)
        servers = SessionServers([Server(settings, launch, self._pause) for settings in chosen], self._load, passed)
        if servers.servers:
            self._tasks.start_soon(servers.run, name="MCP servers")
        return servers


def distinct(
    passed: Sequence[McpServerSettings], configured: Mapping[str, McpServerSettings]
) -> tuple[McpServerSettings, ...]:
    """Remove servers whose names repeat."""
    chosen: dict[str, McpServerSettings] = {}
    for settings in (*passed, *configured.values()):
        chosen.setdefault(settings.name, settings)
    return tuple(chosen.values())


def problem_of(settings: McpServerSettings) -> str:
    """The reason why a server can never work, as the end of a sentence; empty when it may."""
    if settings.transport not in TRANSPORTS:
        return f"the transport {settings.transport[:40]!r} is not known"
    if settings.transport == "stdio":
        return "" if settings.command.strip() else "it names no command"
    if settings.transport == "acp":
        return "" if settings.server_id else "it has no id"
    try:
        parts = urlsplit(settings.url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        sound = False
    return "" if sound else "its address is no http:// or https:// URL"
