"""Builds what sessions need after initialize was answered, in one task that owns it until shutdown."""

import gc
import logging
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import anyio
from msgspec import Struct, field

from pattern_acp.acp import schema
from pattern_acp.bootstrap.constellation_choice import is_per_project
from pattern_acp.bootstrap.process import Process
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.domain.errors import PatternError
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import ConnectionClosedError

if TYPE_CHECKING:
    from pattern_acp.acp.session_methods import SessionMethods
    from pattern_acp.bootstrap.credentials import KeysOfPerson
    from pattern_acp.bootstrap.opening import OpenedConstellation
    from pattern_acp.bootstrap.project_sessions import OpenProjects
    from pattern_acp.bootstrap.sessions import OpenSessions

logger = logging.getLogger(__name__)

STARTED_BY_AGENT = (
    "Another agent started this one, and must not answer in your place, so it serves no sessions; start it, or the "
    "editor that starts it, in a terminal of your own."
)

SHARE_SECONDS = 0.0002
"""Longest time that a thread that imports may block the one that opens the file. Python's own 5 ms, waited
for at each of some hundred statements, are longer than all imports take."""

Introduce = Callable[[schema.ClientCapabilities, schema.Implementation | None], None]

OpenClient: TypeAlias = "Callable[[Dispatcher], AbstractAsyncContextManager[OpenSessions]]"


class _Attempt(Struct):
    """One try to build the services; everyone who waits shares its end."""

    done: anyio.Event = field(default_factory=anyio.Event)
    methods: "SessionMethods | None" = None
    projects: "OpenProjects | None" = None
    """The constellations of projects, where each has one; `methods` stays None, then."""
    error: PatternError | None = None


class LazyServices:
    """`acp.agent.Services` of a connection: of the only one of a process, or of one of many (`open_client`)."""

    def __init__(self, process: Process, open_client: "OpenClient | None" = None) -> None:
        self._process = process
        self._open_client = open_client
        self._wanted = anyio.Event()
        self._stop = anyio.Event()
        self._attempt = _Attempt()
        self._dispatcher: Dispatcher | None = None
        self._promises: tuple[schema.ClientCapabilities, schema.Implementation | None] = (
            schema.ClientCapabilities(),
            None,
        )
        self._introduce: Introduce | None = None

    def begin(
        self, dispatcher: Dispatcher, client: schema.ClientCapabilities, info: schema.Implementation | None
    ) -> None:
        """See `Services.begin`."""
        self._dispatcher = dispatcher
        self._promises = (client, info)
        if self._introduce is not None:
            self._introduce(client, info)
        self._wanted.set()

    async def methods(self, request: object = None) -> "SessionMethods":
        """See `Services.methods`."""
        if self._attempt.error is not None:
            # The last try failed (a locked file, a full disk): this request starts a new one.
            self._attempt = _Attempt()
            self._wanted.set()
        attempt = self._attempt
        await attempt.done.wait()
        if attempt.error is not None:
            raise attempt.error
        if attempt.projects is not None:
            return await attempt.projects.methods(request)
        if attempt.methods is None:
            raise ConnectionClosedError("The agent is shutting down.")
        return attempt.methods

    def methods_if_ready(self, request: object = None) -> "SessionMethods | None":
        """See `Services.methods_if_ready`."""
        projects = self._attempt.projects
        return self._attempt.methods if projects is None else projects.methods_if_ready(request)

    def all_ready(self) -> "Sequence[SessionMethods]":
        """See `Services.all_ready`."""
        if self._attempt.projects is not None:
            return self._attempt.projects.all_ready()
        return () if self._attempt.methods is None else (self._attempt.methods,)

    async def forget_keys(self) -> None:
        """See `Services.forget_keys`."""
        await self._refuse_agents()
        keys = await anyio.to_thread.run_sync(_keys_of, self._process)
        await keys.forget_all()

    async def has_kept_keys(self) -> bool:
        """See `Services.has_kept_keys`."""
        keys = await anyio.to_thread.run_sync(_keys_of, self._process)
        return bool(keys.kept())

    def stop(self) -> None:
        """Let the owning task close everything and return."""
        self._stop.set()
        self._wanted.set()

    async def run(self) -> None:
        """Own the services: open them when they are wanted, close them when told to stop."""
        try:
            while not self._stop.is_set():
                await self._wanted.wait()
                self._wanted = anyio.Event()
                if not self._stop.is_set():
                    await self._serve_until_stopped()
        finally:
            self._attempt.done.set()

    async def _serve_until_stopped(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._open(stack)
                await self._stop.wait()
        except PatternError as error:
            logger.warning("The constellation could not be opened: %s", error)
            self._fail(error)
        except OSError as error:
            logger.exception("The constellation could not be opened.")
            self._fail(PatternError(f"The agent's files cannot be used: {error.strerror or 'unknown error'}."))
        except Exception:
            # The boundary of everything behind initialize: the connection stays, and the next request tries again.
            logger.exception("Sessions could not be served.")
            self._fail(PatternError("Sessions could not be served; the log has details, and another try may help."))

    def _fail(self, error: PatternError) -> None:
        self._attempt.error = error
        self._attempt.done.set()

    async def _refuse_agents(self) -> None:
        """Refuse a client that an agent of ours started: it answers questions and runs commands as the user.

        Raises:
            PatternError: it is one.
        """
        # Late: a first line is answered before.
        from pattern_acp.processes.ancestry import is_of_agent

        # The server of many clients (`pattern-acp serve`) was asked when it started; its clients have a token.
        if self._open_client is None and await anyio.to_thread.run_sync(
            is_of_agent, INSIDE_VARIABLE, self._process.environ
        ):
            raise PatternError(STARTED_BY_AGENT, failure_code="cli.started-by-agent")

    async def _open(self, stack: AsyncExitStack) -> None:
        if self._dispatcher is None:
            raise ConnectionClosedError("No client has connected.")
        await self._refuse_agents()
        if self._open_client is None and is_per_project(self._process.loaded):
            await self._open_projects(self._dispatcher, stack)
            return
        if self._open_client is not None:
            serving = await stack.enter_async_context(self._open_client(self._dispatcher))
        else:
            opened = await _open_file_and_import(self._process, stack)
            from pattern_acp.bootstrap.sessions import open_sessions

            serving = await stack.enter_async_context(open_sessions(self._process, self._dispatcher, opened))
        self._introduce = serving.introduce
        serving.introduce(*self._promises)
        self._attempt.methods = serving.methods
        self._attempt.done.set()

    async def _open_projects(self, dispatcher: Dispatcher, stack: AsyncExitStack) -> None:
        """Import all, and open nothing before a request says which project it is of."""
        with _sharing_often():
            await anyio.to_thread.run_sync(_import_the_rest)
        from pattern_acp.bootstrap.project_sessions import open_projects

        projects = await stack.enter_async_context(open_projects(self._process, dispatcher))
        self._introduce = projects.introduce
        projects.introduce(*self._promises)
        self._attempt.projects = projects
        self._attempt.done.set()


async def _open_file_and_import(process: Process, stack: AsyncExitStack) -> "OpenedConstellation":
    """Open the constellation's file while a worker thread imports the rest.

    The loop continues reading what the editor sends.
    """
    await anyio.to_thread.run_sync(_import_opening)
    from pattern_acp.bootstrap.opening import open_file

    opened: OpenedConstellation | None = None
    failure: PatternError | OSError | None = None
    with _sharing_often():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, _import_the_rest, name="imports")
            try:
                opened = await stack.enter_async_context(open_file(process))
            except (PatternError, OSError) as error:
                # Raised behind the group, which would make one of a group of it.
                failure = error
    if opened is None:
        raise failure or ConnectionClosedError("The agent is shutting down.")
    return opened


@contextmanager
def _sharing_often() -> Generator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SHARE_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _import_opening() -> None:
    with _without_collecting():
        from pattern_acp.bootstrap import opening

        del opening


def _import_the_rest() -> None:
    with _without_collecting():
        from pattern_acp.bootstrap import sessions

        del sessions


@contextmanager
def _without_collecting() -> Generator[None]:
    # Modules stay to the end: to look through them for garbage, again and again while they come, finds nothing.
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _keys_of(process: Process) -> "KeysOfPerson":
    from pattern_acp.bootstrap.credentials import KeysOfPerson

    return KeysOfPerson(process)
