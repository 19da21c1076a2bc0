"""A whole agent in memory: sessions over a real database, a fake editor, and a scripted model."""

import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.agent import Agent
from pattern_acp.acp.editor_ports import LocalMeans
from pattern_acp.acp.errors import to_rpc_error
from pattern_acp.acp.session_methods import SessionMethods
from pattern_acp.bootstrap.sessions import OpenSessions, serve_sessions
from pattern_acp.config.settings import Settings
from pattern_acp.context.instructions import load_persona
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.leases import this_process
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestHandler
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import loopback_pair
from pattern_acp.mcp_servers.catalogue import Logins
from pattern_acp.processes.confinement import Confinement
from pattern_acp.providers.base import Provider
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import Constellation, Models
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session_conflict import release_leases
from pattern_acp.tools.registry import default_tools
from pattern_acp.workspace.folder_changes import FolderChanges
from tests.support.both_versions import editor_kind
from tests.support.editor import FakeEditor, JsonDict, PermissionAnswer
from tests.support.models import FakeModels, fake_model
from tests.support.official_schema import kept_schema, kept_second_schema
from tests.support.passing_time import PassingClock, no_pause

FULL_CLIENT: JsonDict = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
"""What an editor that can do everything promises."""

PATIENT_SECONDS = 30.0
"""How long a recall, a handoff or git may take here: what a test expects must not depend on how busy the machine is."""


@contextmanager
def temporary_folder() -> Generator[Path, None, None]:
    """A folder that is deleted at the end, by its real path (a Mac's temporary folder is behind a link)."""
    with tempfile.TemporaryDirectory(prefix="pattern-acp-test-", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


class LateServices:
    """`Services` that are opened after the agent exists, since sessions need its dispatcher; nobody is signed in."""

    def __init__(self) -> None:
        self.opened: OpenSessions | None = None

    def begin(
        self, dispatcher: Dispatcher, client: schema.ClientCapabilities, info: schema.Implementation | None
    ) -> None:
        """See `Services.begin`."""
        del dispatcher
        if self.opened is not None:
            self.opened.introduce(client, info)

    async def methods(self, request: object = None) -> SessionMethods:
        """See `Services.methods`."""
        if self.opened is None:
            raise ConnectionClosedError("The services are not built.")
        return self.opened.methods

    async def forget_keys(self) -> None:
        """See `Services.forget_keys`."""

    async def has_kept_keys(self) -> bool:
        """See `Services.has_kept_keys`."""
        return False

    def methods_if_ready(self, request: object = None) -> SessionMethods | None:
        """See `Services.methods_if_ready`."""
        return self.opened.methods if self.opened is not None else None

    def all_ready(self) -> Sequence[SessionMethods]:
        """See `Services.all_ready`."""
        return (self.opened.methods,) if self.opened is not None else ()


@dataclass(slots=True)
class RunningAgent:
    """What a test holds: the editor, the model, the sessions and the database."""

    editor: FakeEditor
    model: ScriptedProvider
    models: FakeModels
    sessions: Sessions
    database: Database
    folder: Path
    shared: Constellation


@asynccontextmanager
async def running_agent(
    model: ScriptedProvider,
    *,
    files: Mapping[str, str] | None = None,
    capabilities: JsonDict | None = None,
    permission: PermissionAnswer | None = None,
    logins: Logins | None = None,
    settings: Settings | None = None,
    database: Path | None = None,
    others: Mapping[str, Provider] | None = None,
    introduce: bool = True,
    home: Path | None = None,
    also: Mapping[str, RequestHandler] | None = None,
) -> AsyncGenerator[RunningAgent, None]:
    """An agent that its editor has introduced itself to, unless `introduce` is false.

    With a `home`, commands that run unasked are really confined; otherwise nothing confines them.
    `database` lets two agents share a constellation, one after or beside the other.
    """
    # Beside the session's folder, or the index of code would find itself there.
    with temporary_folder() as folder, temporary_folder() as cache:
        path = database or folder / "constellation" / "constellation.db"
        models = FakeModels({"scripted": model, **(others or {})})
        async with open_database(path, clock=SystemClock()) as opened:
            shared = shared_means(opened, models, settings or Settings(editor_deadline_seconds=30))
            near, far = loopback_pair()
            plain = introduce and files is None and capabilities is None
            make = editor_kind(plain=plain)
            editor = make(far, files=files, capabilities=capabilities, permission=permission, also=also)
            async with anyio.create_task_group() as tasks:
                services = LateServices()
                agent = Agent(near, services, to_rpc_error)
                means = LocalMeans({"PATH": "/usr/bin:/bin"}, folder, shared.settings.editor_deadline_seconds)
                if home is not None:
                    environment = {**means.environment, "HOME": str(home)}
                    confinement = Confinement(cache)
                    tasks.start_soon(confinement.keep_holders)
                    means = replace(means, environment=environment, scratch=cache, confinement=confinement)
                services.opened = serving = serve_sessions(shared, agent.dispatcher, means, cache, tasks, logins)
                shared.folder_changes = FolderChanges(means.environment, git_seconds=PATIENT_SECONDS)
                tasks.start_soon(agent.dispatcher.run)
                tasks.start_soon(editor.dispatcher.run)
                if introduce:
                    await editor.initialize()
                yield RunningAgent(editor, model, models, serving.sessions, opened, folder, shared)
                await serving.sessions.cancel_all()
                with suppress(DatabaseError):
                    # As the program does it: leases end with the process anyway.
                    await release_leases(shared)
                tasks.cancel_scope.cancel()
            judge_lines(editor.recording.both)


async def record_session(database: Path, folder: Path, model: ScriptedProvider, *prompts: str) -> str:
    """Leave a session in a constellation, with a turn for each prompt; its id."""
    async with running_agent(model, database=database) as agent:
        session = await agent.editor.open_session(str(folder))
        for prompt in prompts:
            await agent.editor.prompt(session, prompt)
        return session


def judge_lines(lines: Sequence[tuple[bool, bytes]]) -> None:
    """Judge a whole conversation: who wrote each line (True: the agent), and the line.

    Raises:
        WireFaultError: a line of the agent is not what ACP allows.
    """
    # The SDK costs half a second, which only those pay who judge.
    from tests.support.reader_judge import ReaderJudge
    from tests.support.second_judge import SecondJudge
    from tests.support.turn_judge import TurnJudge
    from tests.support.wire import WireJudge

    second = any(by_agent and b'"protocolVersion":2' in line for by_agent, line in lines)
    of_version = (SecondJudge(kept_second_schema()),) if second else (WireJudge(kept_schema()), TurnJudge())
    judges = (*of_version, ReaderJudge())
    for by_agent, line in lines:
        for judge in judges:
            if by_agent:
                judge.agent_wrote(line)
            else:
                judge.client_wrote(line)


def shared_means(database: Database, models: Models, settings: Settings) -> Constellation:
    """A constellation for tests."""
    ids = RandomIds()
    return Constellation(
        name="default",
        database=database,
        models=models,
        settings=settings,
        clock=PassingClock(),
        ids=ids,
        peer=ids.peer(),
        holder=this_process(ids.new("run")),
        tools=default_tools(private_addresses=settings.fetch.private_addresses),
        persona=load_persona("default", Path("no-such-folder")),
        default_model=fake_model("scripted"),
        platform="TestOS 1.0",
        recall_seconds=PATIENT_SECONDS,
        handoff_seconds=PATIENT_SECONDS,
        pauses=RetryPolicy(no_pause),
    )
