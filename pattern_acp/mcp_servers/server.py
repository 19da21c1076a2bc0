"""One server of one session: started in the background, restarted once, ended with the session.

Owns: its states, and its present offers. Must not know: the `mcp` package (connections come through a port), policy, or
the model.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeVar

import anyio
from anyio import to_thread

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import JsonObject, canonical_json, sha256_hex
from pattern_acp.mcp_servers.catalogue import (
    CannotStartError,
    Catalogue,
    HttpRefusedError,
    LaunchContext,
    Login,
    Logins,
    LoginWantedError,
    Reply,
    Report,
    ServerError,
    SessionForgottenError,
    can_login,
)

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""Longest time of a start; `npx` and `uvx` may have to fetch the server first."""

RESTARTS = 1
"""Number of restarts of a crashed server in one session (issue 4, section 1)."""

BACKOFF_SECONDS = 0.5
"""Delay between the death of a server and its restart."""


DRAIN_SECONDS = 1.0
"""Longest wait until the other calls of a session that its server forgot are refused as well."""

CALL_WAITS_SECONDS = 5.0
"""Longest wait of a call for a server that is restarting."""


T = TypeVar("T")


class ServerState(StrEnum):
    """State of a server."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """Not used in this session any more; `Server.problem` says why."""


class LiveConnection(Protocol):
    """A server that answers. The methods raise `ServerError` with a sentence that names the server."""

    @property
    def ended(self) -> anyio.Event:
        """Set when the server is gone, or has forgotten the session."""
        ...

    @property
    def forgotten(self) -> bool:
        """Return whether the server runs but no longer knows the session, so that a new one is worth a try."""
        ...

    async def catalogue(self) -> Catalogue:
        """Return its present offers."""
        ...

    async def call(self, tool: str, arguments: JsonObject, report: Report) -> Reply:
        """Call a tool; a cancellation is passed on to the server."""
        ...

    async def read(self, uri: str) -> Reply:
        """Read a resource."""
        ...

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return a prompt with its arguments filled in."""
        ...


Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds before a server is started again."""

Connect = Callable[
    [McpServerSettings, LaunchContext, Callable[[], None]],
    AbstractAsyncContextManager[LiveConnection],
]
"""Starts or reaches a server. It calls the callback whenever the server says that its offers have changed."""


class Server:
    """One server. `run` owns it; everything else may be called from any task."""

    def __init__(self, settings: McpServerSettings, launch: LaunchContext, pause: Pause = anyio.sleep) -> None:
        self.settings = settings
        self._pause = pause
        self.state = ServerState.STARTING
        self.problem = ""
        """Why it failed, or refused the last request, as the end of a sentence."""
        self.catalogue = Catalogue()
        """Its offers, or those from before it ended."""
        self.restarts = 0
        self.settled = anyio.Event()
        """Set while it is ready or has failed for good; another one when it ended and is started once more."""
        self._launch = launch
        self._connection: LiveConnection | None = None
        self._changed = anyio.Event()
        self.wants_login = False
        """True when it refused the last request, or the start, until the user signs in."""
        self._again = anyio.Event()
        self._running = 0
        """Requests that wait for an answer."""
        self._idle = anyio.Event()

    @property
    def name(self) -> str:
        """Its name, from the client or the user's file."""
        return self.settings.name

    @property
    def identity(self) -> str:
        """SHA-256 of its command or address. Pins of another program with the same name do not count."""
        settings = self.settings
        return sha256_hex(canonical_json([settings.transport, settings.command, settings.args, settings.url]))

    def fail(self, problem: str) -> None:
        """Give the server up."""
        self.state, self.problem = ServerState.FAILED, problem
        self.settled.set()

    async def run(self, connect: Connect) -> None:
        """Start it and run it until it is cancelled or fails for good. Raises nothing: sessions continue without."""
        try:
            await self._serve_while_it_helps(connect)
            while self.wants_login:
                await self._again.wait()
                self.state, self.problem, self.wants_login = ServerState.STARTING, "", False
                await self._serve_while_it_helps(connect)
        finally:
            self._connection = None
            self.settled.set()

    async def _serve_while_it_helps(self, connect: Connect) -> None:
        while (forgotten := await self._serve(connect)) is not None and (forgotten or self.restarts < RESTARTS):
            # A server that forgets sessions, as all do that let them expire, is joined again as often as it takes.
            self.restarts += not forgotten
            self.state = ServerState.STARTING
            await self._pause(BACKOFF_SECONDS)
        if self.state is not ServerState.FAILED:
            self.fail(self.problem or "it ended")

    @property
    def offers_login(self) -> bool:
        """Return whether the user can be asked to sign in, in a browser on this machine."""
        logins = self._launch.logins
        return self.wants_login and can_login(self.settings) and logins is not None and logins.shows_browser

    async def sign_in(self, show: Callable[[str], Awaitable[None]]) -> None:
        """Sign in in the user's browser, and start the server again if it did not start without.

        Raises:
            SignInError: it did not come to an end.
        """
        if self._launch.logins is None:
            return
        sign_in = await to_thread.run_sync(_load_sign_in)
        await sign_in(self.settings, self._launch.logins, show)
        if self.state is ServerState.FAILED and self.wants_login:
            self.settled = anyio.Event()
            self._again.set()
            self._again = anyio.Event()
        self.wants_login = False

    async def _serve(self, connect: Connect) -> bool | None:
        """Start the server once and stay until it ends; None if another start cannot help.

        Otherwise returns whether it only forgot the session.
        """
        forgotten = False
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + START_SECONDS) as start:
                async with connect(self.settings, self._launch, self._note_change) as connection:
                    self._take(await connection.catalogue())
                    start.deadline = float("inf")
                    await self._stay(connection)
                    forgotten = connection.forgotten
        except CannotStartError as error:
            self.wants_login = isinstance(error, LoginWantedError)
            self.fail(error.sentence)
            return None
        except ServerError as error:
            self.problem = error.sentence
            return False
        except Exception:
            logger.exception("The MCP server %r failed.", self.name)
            self.fail("it failed in a way that was not foreseen; the log has details")
            return None
        if start.cancelled_caught:
            self.fail(f"it did not answer within {START_SECONDS:.0f} s")
            return None
        self.problem = "" if forgotten else "it ended"
        return forgotten

    async def _stay(self, connection: LiveConnection) -> None:
        self._connection, self.state, self.problem = connection, ServerState.READY, ""
        self.settled.set()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow_changes, connection)
                await connection.ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._leave(connection)
        if connection.forgotten:
            with anyio.move_on_after(DRAIN_SECONDS):
                while self._running:
                    self._idle = anyio.Event()
                    await self._idle.wait()

    def _leave(self, connection: LiveConnection) -> None:
        """Stop using a connection; new callers wait for the next one."""
        if self._connection is connection:
            self._connection = None
            self.state = ServerState.STARTING
            self.settled = anyio.Event()

    def _take(self, catalogue: Catalogue) -> None:
        for what in catalogue.left_out:
            if what not in self.catalogue.left_out:
                logger.warning("Left out of what the MCP server %r offers: %s.", self.name, what)
        self.catalogue = catalogue

    def _note_change(self) -> None:
        self._changed.set()

    async def _follow_changes(self, connection: LiveConnection) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                self._take(await connection.catalogue())
            except ServerError:
                logger.warning("The MCP server %r could not tell what has changed.", self.name)

    async def call(self, tool: str, arguments: JsonObject, report: Report, *, agreed: str = "") -> Reply:
        """Call a tool. `agreed` is the digest of the tool for which this call was allowed; another one is not called.

        Raises:
            ServerError: the server is not there, or refused.
        """

        async def ask(connection: LiveConnection) -> Reply:
            now = self.catalogue.tool(tool)
            if agreed and (now is None or now.digest != agreed):
                what = "no longer has the tool" if now is None else "has changed the tool"
                again = "" if now is None else "; call it again"
                raise ServerError(f"The MCP server {self.name} {what} {tool} since this call was allowed{again}.")
            return await connection.call(tool, arguments, report)

        return await self._asked(ask)

    async def read(self, uri: str) -> Reply:
        """Read a resource; errors as for `call`."""
        return await self._asked(lambda connection: connection.read(uri))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """The text of a prompt; errors as for `call`."""
        return await self._asked(lambda connection: connection.prompt(name, arguments))

    async def _asked(self, ask: Callable[[LiveConnection], Awaitable[T]]) -> T:
        """Ask the server, once more in a new session if it has forgotten the previous one."""
        connection = await self._live()
        try:
            return await self._counted(connection, ask)
        except SessionForgottenError:
            self._leave(connection)
        connection = await self._live()
        try:
            return await self._counted(connection, ask)
        except SessionForgottenError:
            self._leave(connection)
            raise

    async def _counted(self, connection: LiveConnection, ask: Callable[[LiveConnection], Awaitable[T]]) -> T:
        self._running += 1
        try:
            reply = await ask(connection)
        except HttpRefusedError as error:
            if self._connection is connection:
                self.problem, self.wants_login = error.why, error.wants_login
            raise
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()
        if self._connection is connection:
            self.problem, self.wants_login = "", False
        return reply

    async def _live(self) -> LiveConnection:
        # A call during a restart need not fail for it.
        with anyio.move_on_after(CALL_WAITS_SECONDS):
            await self.settled.wait()
        if self._connection is None:
            why = self.problem or "it is still starting"
            raise ServerError(f"The MCP server {self.name} cannot be used now: {why}.")
        return self._connection


def _load_sign_in() -> "Callable[[McpServerSettings, Logins, Callable[[str], Awaitable[None]]], Awaitable[Login]]":
    from pattern_acp.mcp_servers.sign_in import sign_in

    return sign_in


def load_connect() -> Connect:
    """Load the connections of the `mcp` package. Imports it, which takes 0.7 s: for a worker thread."""
    from pattern_acp.mcp_servers.connection import connect

    return connect
