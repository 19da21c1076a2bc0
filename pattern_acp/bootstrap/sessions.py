"""The heavy half: an open constellation, its sessions, and the tasks that serve them."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.client import EditorClient
from pattern_acp.acp.editor_ports import LocalMeans
from pattern_acp.acp.onlookers import Onlookers
from pattern_acp.acp.session_methods import SessionMethods
from pattern_acp.bootstrap.code_maps import ServedCode
from pattern_acp.bootstrap.constellation import open_constellation, open_providers
from pattern_acp.bootstrap.constellation_choice import is_per_project, is_replica
from pattern_acp.bootstrap.credentials import StoredLogins
from pattern_acp.bootstrap.opening import OpenedConstellation
from pattern_acp.bootstrap.process import Process
from pattern_acp.commands.document import Result
from pattern_acp.config.code_bundle import renew_bundle
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.config.providers import key_variables
from pattern_acp.config.settings import LspSettings, Settings
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.hooks import HookRunner
from pattern_acp.journal.leases import host_name, is_running, own_start_mark, this_process
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.mcp_servers.catalogue import Logins
from pattern_acp.mcp_servers.host import ServerHost
from pattern_acp.processes.confinement import Confinement
from pattern_acp.processes.groups import ChildProgramPorts
from pattern_acp.providers.registry import Providers
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session_conflict import keep_leases, release_leases, watch_leases
from pattern_acp.workspace.folder_changes import FolderChanges
from pattern_acp.workspace.git import GitStatus, git_status
from pattern_acp.workspace.local_files import FOLDER, UnfinishedWrites
from pattern_acp.workspace.shell import hidden_names, shell_command

if TYPE_CHECKING:
    from pattern_acp.lsp.servers import LanguageServers
    from pattern_acp.memory.indexer import Indexer
    from pattern_acp.memory.service.forget import Telling
    from pattern_acp.policy.sandbox import Sandboxing

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0
"""For cancelling turns and giving up leases; the process has to be gone within 2 s (invariant 9)."""

WATCH_SECONDS = 1.0
"""Longest run here after another window took the session over; one read a second of a turn."""

LEASE_SECONDS = 25.0
"""Between two renewals of leases; another machine takes a lease for dead after 60 s."""

SNAPSHOT_START_SECONDS = 5.0
"""Between the first session and the first look whether a snapshot is due, so that it takes no time from a start."""

SNAPSHOT_SECONDS = 600.0
"""Between two looks; snapshots are an hour apart."""

SEGMENT_SECONDS = 4.0
"""Between two looks whether something was committed that segments lack: what they may be behind."""

SEGMENT_LOOK_SECONDS = 60.0
"""Longest time between two looks at what other processes, which have ended since, may have left out of the files."""

LAST_SEGMENT_SECONDS = 0.3
"""For what was committed last; what takes longer is written at the next start."""

REFRESH_SECONDS = 2.0
"""Between the first session and the fetching of model lists, so that it takes no time from the first turn."""

UNASKED_SECONDS = 2.0
"""Between the first session and the preparation of what tool calls need, where no model is asked before."""

AWAY_SECONDS = 0.1
"""Between the first request to a model and that preparation: the request is away, and no answer has a call yet."""

AT_ONCE_SECONDS = 0.3
"""A first prompt that comes sooner after the first session was ready before it."""


class OpenSessions(Struct, frozen=True):
    """The open services that the connection needs."""

    sessions: Sessions
    methods: SessionMethods
    introduce: Callable[[schema.ClientCapabilities, schema.Implementation | None], None]


@asynccontextmanager
async def open_sessions(
    process: Process, dispatcher: Dispatcher, opened: OpenedConstellation
) -> AsyncGenerator[OpenSessions, None]:
    """Serve sessions of the one connection of a process, in the constellation of an open file, until the context ends.

    Raises:
        PatternError: the constellation cannot be used; the sentence says why.
    """
    async with open_root(process, opened) as root, open_client(root, root.shared, dispatcher) as serving:
        yield serving


class Root(Struct, frozen=True):
    """All that the connections of a process share."""

    process: Process
    shared: Constellation
    means: LocalMeans
    answered: anyio.Event
    """Set once a first session was opened and its client has the answer: from then on the process has time."""
    onlookers: Onlookers

    def for_one_more(self, elsewhere: str | None = None) -> Constellation:
        """Return the constellation for one of many connections: it holds its own sessions, and learns all news.

        `elsewhere` is the name of the client's machine where that is another one; see `Constellation.elsewhere`.
        """
        shared = self.shared
        if elsewhere is not None:
            # Late: a process of an editor has no such client.
            from pattern_acp.tools.elsewhere import tools_elsewhere

            shared = replace(
                shared,
                elsewhere=elsewhere,
                tools=tools_elsewhere(shared.tools),
                settings_for=None,
                git_status=None,
                template_folder=None,
                platform="the user's machine",
            )
        return replace(
            shared,
            holder=this_process(shared.ids.new("run")),
            notices=list(shared.notices),
            warned=set(shared.warned),
            turn_began=anyio.Event(),
        )


class Common(Struct, frozen=True):
    """All that the constellations of a process share, where each project has one."""

    providers: Providers
    answered: anyio.Event
    """See `Root.answered`."""


@asynccontextmanager
async def open_common(process: Process) -> AsyncGenerator[Common, None]:
    """Open what the constellations of a process share."""
    async with open_providers(process) as providers:
        yield Common(providers, anyio.Event())


@asynccontextmanager
async def open_root(
    process: Process, opened: OpenedConstellation, common: Common | None = None
) -> AsyncGenerator[Root, None]:
    """Open what connections share, in the constellation of an open file, and do the work beside them.

    `common` is there where each project has a constellation.

    Raises:
        PatternError: the constellation cannot be used; the sentence says why.
    """
    settings = process.loaded.settings
    with TemporaryDirectory(prefix="pattern-acp-", ignore_cleanup_errors=True) as scratch:
        async with (
            nullcontext(common) if common is not None else open_common(process) as common_,
            open_constellation(process, common_.providers, opened) as shared,
            anyio.create_task_group() as tasks,
        ):
            shared.diagnose = _diagnose(process, shared)
            means = local_means(process, settings, Path(scratch))
            shared.git_status = _git_status(server_means(means).environment)
            root = Root(process, shared, means, common_.answered, Onlookers())
            clearing = partial(_clear_unfinished, means.unfinished, shared.clock.now_ms())
            tasks.start_soon(beside_sessions, "unfinished writes", clearing, name="unfinished writes")
            if shared.indexer is not None:
                tasks.start_soon(beside_sessions, "indexer", shared.indexer.run, name="indexer")
                load = partial(_load_embedder, root.answered, shared.indexer)
                tasks.start_soon(beside_sessions, "embedder", load, name="embedder")
            find = means.confinement.find if means.confinement is not None else None
            if find is not None and settings.policy.sandbox != "off":
                trying = partial(_try_sandbox, root.answered, shared.asked, find)
                tasks.start_soon(beside_sessions, "sandbox", trying, name="sandbox")
            if means.confinement is not None:
                tasks.start_soon(means.confinement.keep_holders, name="loopbacks of sessions")
            warm_up = partial(_use_the_pause, root.answered, common_.providers, shared.default_model.qualified)
            tasks.start_soon(beside_sessions, "warm up", warm_up, name="warm up")
            calls = partial(_prepare_for_calls, root.answered, shared.asked)
            tasks.start_soon(beside_sessions, "calls", calls, name="calls")
            if settings.retention.tell_mb:
                telling = partial(_tell_what_gc_frees, shared, settings, root.answered)
                tasks.start_soon(beside_sessions, "retention", telling, name="retention")
            if common is not None:
                # Late: without a constellation for each project nothing of it is wanted.
                from pattern_acp.bootstrap.replicas import keep_users_memory

                await keep_users_memory(process, shared, tasks)
            elif settings.sync.url:
                # Late: a start without sync imports nothing of it.
                from pattern_acp.bootstrap.syncing import telling_of

                shared.tell_forgetting = telling_of(process)
            try:
                if common is None or is_replica(process):
                    async with keeping_file(process, shared.database, root.answered):
                        yield root
                else:
                    # The user's file is looked after while any project is open.
                    yield root
            finally:
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def keeping_file(process: Process, database: Database, answered: anyio.Event) -> AsyncGenerator[None, None]:
    """Look after an open constellation's file: snapshots, segments, and sync with other devices."""
    settings = process.loaded.settings
    async with anyio.create_task_group() as tasks:
        snapshots = partial(_keep_snapshots, database, settings, answered)
        tasks.start_soon(beside_sessions, "snapshots", snapshots, name="snapshots")
        if settings.backup.segments:
            segments = partial(_keep_segments, database, answered)
            tasks.start_soon(beside_sessions, "segments", segments, name="segments")
        if settings.sync.url and not is_replica(process):
            # Late: a start without sync imports nothing of it.
            from pattern_acp.bootstrap.syncing import keep_in_sync

            telling: Telling | None = None
            if is_per_project(process.loaded):
                from pattern_acp.bootstrap.replicas import tell_projects

                telling = partial(tell_projects, process)
            syncing = partial(keep_in_sync, process, database, answered, telling)
            tasks.start_soon(beside_sessions, "sync", syncing, name="sync")
        try:
            yield
        finally:
            if settings.backup.segments:
                from pattern_acp.recovery.segment_export import export_last

                with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_SEGMENT_SECONDS):
                    await export_last(database.path)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_client(root: Root, shared: Constellation, dispatcher: Dispatcher) -> AsyncGenerator[OpenSessions, None]:
    """Serve sessions of one connection, until the context ends."""
    process, means = root.process, root.means
    if shared.elsewhere is not None:
        means = replace(means, confinement=None, is_elsewhere=True)
    async with anyio.create_task_group() as tasks:
        serving = serve_sessions(
            shared,
            dispatcher,
            means,
            process.loaded.paths.cache,
            tasks,
            StoredLogins(process),
            answered=root.answered,
            onlookers=root.onlookers if shared is not root.shared else None,
        )
        tasks.start_soon(keep_leases, shared, _lease_pause, name="lease keeper")
        watching = partial(watch_leases, serving.sessions, _watch_pause)
        tasks.start_soon(beside_sessions, "takeovers", watching, name="takeovers")
        try:
            yield serving
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
                await _wind_down(serving.sessions, shared)
            tasks.cancel_scope.cancel()


def serve_sessions(
    shared: Constellation,
    dispatcher: Dispatcher,
    means: LocalMeans,
    cache: Path,
    tasks: TaskGroup,
    logins: Logins | None = None,
    *,
    answered: anyio.Event | None = None,
    onlookers: Onlookers | None = None,
) -> OpenSessions:
    """Let sessions of one connection use this machine, and serve them in `tasks`.

    Code maps are stored in `cache`, logins at MCP servers in `logins`. `answered` is set with the first session.
    Other connections of the process share `onlookers`.
    """
    ports = server_means(means)
    shared.background = tasks
    client = EditorClient(dispatcher, means, shared.clock)
    client.onlookers = onlookers
    if not means.is_elsewhere:
        shared.folder_changes = FolderChanges(ports.environment)
        ask = client.servers.ask
        shared.servers = ServerHost(tasks, ports, shared.settings.mcp_servers, logins=logins, ask_client=ask)
        shared.sandboxing = sandboxing_of(means)
        shared.hooks = hook_runner(means)
        shared.code = ServedCode(tasks, cache, means.environment, shared.clock)
        shared.languages = language_servers(tasks, ports.environment)
    else:
        shared.git_status = client.git_status
    sessions = Sessions(shared, client)
    methods = SessionMethods(sessions, client, answered)
    tasks.start_soon(client.timer.run, name="chunk flusher")
    tasks.start_soon(beside_sessions, "memory feed", methods.memory_events.run, name="memory feed")
    tasks.start_soon(beside_sessions, "session feed", methods.session_feed.run, name="session feed")
    return OpenSessions(sessions, methods, client.introduce)


def local_means(process: Process, settings: Settings, scratch: Path) -> LocalMeans:
    """Return the means of children and scripts. Children get no keys: commands are the model's."""
    secret = key_variables(settings.providers)
    confinement = Confinement(scratch, supervise=settings.policy.sandbox != "off")
    paths = process.loaded.paths
    own = tuple(dict.fromkeys(map(str, (paths.data, paths.config, paths.state, paths.cache))))
    unfinished = UnfinishedWrites(paths.state / FOLDER, os.getpid(), own_start_mark(), host_name())
    return LocalMeans(process.environ, scratch, settings.editor_deadline_seconds, secret, confinement, own, unfinished)


def server_means(means: LocalMeans) -> ChildProgramPorts:
    """Return the ports that start MCP servers: the whole environment but our keys, since they are the user's choice."""
    hidden = hidden_names(means.secret_variables)
    environment = {name: value for name, value in means.environment.items() if name.upper() not in hidden}
    return ChildProgramPorts({**environment, INSIDE_VARIABLE: "1"})


def sandboxing_of(means: LocalMeans) -> "Sandboxing | None":
    """Return the means to confine commands, where there are some."""
    if means.confinement is None:
        return None
    from pattern_acp.policy.sandbox import SandboxFolders, Sandboxing

    home = means.environment.get("HOME") or str(Path.home())
    return Sandboxing(means.confinement, SandboxFolders(home, means.own_folders), means.environment)


def hook_runner(means: LocalMeans) -> HookRunner:
    """Return the runner of hooks: the platform's shell, with the environment that MCP servers have."""
    environment = server_means(means).environment
    return HookRunner(environment, partial(shell_command, environment=environment))


def language_servers(
    tasks: TaskGroup, environment: Mapping[str, str]
) -> Callable[[LspSettings, tuple[str, ...], Callable[[], bool]], "LanguageServers"]:
    """Return the factory of a session's language servers; nothing of `lsp` is imported before the first turn."""

    def make(settings: LspSettings, roots: tuple[str, ...], is_trusted: Callable[[], bool]) -> "LanguageServers":
        from pattern_acp.lsp.servers import LanguageServers

        return LanguageServers(tasks, ChildProgramPorts(environment), settings, roots, is_trusted)

    return make


def _git_status(environment: Mapping[str, str]) -> Callable[[str, float], Awaitable[GitStatus | None]]:
    async def ask(cwd: str, seconds: float) -> GitStatus | None:
        return await git_status(cwd, environment, seconds=seconds)

    return ask


def _diagnose(process: Process, shared: Constellation) -> Callable[[], Awaitable[Result]]:
    async def look() -> Result:
        # Late: the first answers should not wait for the import of what a user seldom asks for.
        from pattern_acp.bootstrap.diagnosis import diagnose

        return await diagnose(process, shared.database, shared.indexer)

    return look


async def beside_sessions(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do work that sessions can continue without: its failure is logged and takes nothing down with it."""
    try:
        await work()
    except Exception:
        logger.exception("The background task %r ended.", name)


async def _load_embedder(answered: anyio.Event, indexer: "Indexer") -> None:
    """Load what knows meanings while the user writes the first prompt, which recalls by it."""
    await answered.wait()
    # A prompt that comes at once loads it itself where memory has anything to find; it need not compete for time.
    await anyio.sleep(AT_ONCE_SECONDS)
    await indexer.prepare()


async def _use_the_pause(answered: anyio.Event, providers: Providers, model: str) -> None:
    """While the user writes the first prompt, prepare what it needs, and later see the models."""
    await answered.wait()
    try:
        await anyio.to_thread.run_sync(providers.warm, model)
    except (PatternError, ImportError) as error:
        # Sessions continue without a network; a request that needs it says the same to the user.
        logger.warning("The HTTP client is not ready. %s", error)
    await providers.refresh(model)
    await anyio.sleep(REFRESH_SECONDS)
    await providers.refresh()
    await anyio.to_thread.run_sync(renew_bundle)


async def _prepare_for_calls(answered: anyio.Event, asked: anyio.Event) -> None:
    """Import what tool calls need while the first request is with the model, or while the user writes for long."""
    await _first_request_left(answered, asked)
    await anyio.to_thread.run_sync(import_what_calls_need)


async def _first_request_left(answered: anyio.Event, asked: anyio.Event) -> None:
    """Wait until the first request is with the model, or the user has written for long."""
    await answered.wait()
    with anyio.move_on_after(UNASKED_SECONDS):
        await asked.wait()
        await anyio.sleep(AWAY_SECONDS)


async def _clear_unfinished(unfinished: UnfinishedWrites, now_ms: int) -> None:
    """Clear away what a process that was killed in an edit left in a project."""
    cleared = await anyio.to_thread.run_sync(unfinished.clear, is_running, now_ms)
    if cleared:
        logger.info("Cleared away %s of edits that never ended.", plural(cleared, "temporary file"))


async def _try_sandbox(answered: anyio.Event, asked: anyio.Event, find: Callable[[], Awaitable[object]]) -> None:
    """Try what confines commands here before the first call needs to know."""
    await _first_request_left(answered, asked)
    await find()


def import_what_calls_need() -> None:
    """Import the tools, what their calls are decided and run with, before there is one; a start does without."""
    from pattern_acp.policy import decide, external_effects, origins
    from pattern_acp.session import checks, edit_warnings, searching
    from pattern_acp.session.subagents import delegation
    from pattern_acp.tasks import claims
    from pattern_acp.tools.registry import import_tools
    from pattern_acp.turn import recorded_policy, tool_runner
    from pattern_acp.workspace import snapshots

    import_tools()
    del decide, external_effects, origins, recorded_policy
    del checks, claims, delegation, edit_warnings, searching, snapshots, tool_runner


async def _keep_snapshots(database: Database, settings: Settings, answered: anyio.Event) -> None:
    await answered.wait()
    await anyio.sleep(SNAPSHOT_START_SECONDS)
    # Late, since nothing of it is wanted before.
    from pattern_acp.recovery.backups import keep_snapshots

    pauses = chain((0.0,), repeat(SNAPSHOT_SECONDS))
    await keep_snapshots(database.path, settings.backup, SystemClock(), lambda: anyio.sleep(next(pauses)))


async def _keep_segments(database: Database, answered: anyio.Event) -> None:
    await answered.wait()
    await anyio.sleep(SEGMENT_SECONDS)
    from pattern_acp.recovery.segment_export import keep_segments

    seen = -1

    async def pause() -> None:
        nonlocal seen
        if seen >= 0:
            with anyio.move_on_after(SEGMENT_LOOK_SECONDS):
                await database.next_write(seen)
            await anyio.sleep(SEGMENT_SECONDS)
        seen = database.writes

    await keep_segments(database, pause)


async def _tell_what_gc_frees(shared: Constellation, settings: Settings, answered: anyio.Event) -> None:
    await answered.wait()
    from pattern_acp.recovery.garbage_collection import RetentionPolicy, gc_summary

    policy = RetentionPolicy(shared.clock.now_ms(), settings.retention, settings.backup)
    sentence = await anyio.to_thread.run_sync(gc_summary, shared.database.path, policy, abandon_on_cancel=True)
    if sentence:
        shared.notices.append(sentence)


async def _lease_pause() -> None:
    await anyio.sleep(LEASE_SECONDS)


async def _watch_pause() -> None:
    await anyio.sleep(WATCH_SECONDS)


async def _wind_down(sessions: Sessions, shared: Constellation) -> None:
    await sessions.cancel_all()
    try:
        await release_leases(shared)
    except PatternError:
        logger.warning("Leases could not be released.", exc_info=True)
