"""Opens sessions: a new one, or a recorded one with what was left open closed."""

import platform as platform_module
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio

from pattern_acp.config.project_offer import NOTHING, ProjectOffer
from pattern_acp.config.settings import McpServerSettings, Settings
from pattern_acp.context.history import calls_of, history_of
from pattern_acp.context.instruction_files import own_instructions, project_instructions, within_total
from pattern_acp.context.instructions import Environment, system_prompt
from pattern_acp.context.memory_notices import last_shown
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.usage import Cost
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.events import (
    Event,
    InstructionsCompiled,
    SessionCreated,
    SessionOpened,
    UsageReported,
)
from pattern_acp.journal.folder_events import InstructionFile
from pattern_acp.journal.interrupted import close_interrupted
from pattern_acp.journal.jobs import RecordedJob, close_lost_jobs, recorded_jobs
from pattern_acp.journal.kept import kept_events
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.sessions import NewSession, SessionRow
from pattern_acp.journal.subagents import with_threads
from pattern_acp.journal.writer import append
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.memory.guards import SecretRule
from pattern_acp.memory.permissions import Isolation
from pattern_acp.memory.project import project_key
from pattern_acp.policy.decide import Mode
from pattern_acp.policy.grants import Grant, load_grants
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.session.commands import COMMANDS
from pattern_acp.session.constellation import Constellation, ProjectSettings
from pattern_acp.session.definitions import clashes
from pattern_acp.session.errors import CredentialsError, InvalidRequestError, UnknownSessionError
from pattern_acp.session.jobs import known_jobs, lost_notices
from pattern_acp.session.mcp import RecordedAgreements, SessionMcp
from pattern_acp.session.ports import Client
from pattern_acp.session.projections import SessionProjections
from pattern_acp.session.rewind import finish_cut_off
from pattern_acp.session.session import Session, SessionMemory, SessionState
from pattern_acp.session.trust import FolderTrust, follow_servers, open_trust
from pattern_acp.tools.mcp_toolbox import McpToolbox
from pattern_acp.tools.memory_access import PERSON, PERSONA, ConstellationMemory, MemoryOwner, MemoryRules
from pattern_acp.turn.gate import PolicyState
from pattern_acp.turn.sink import JournalSink
from pattern_acp.workspace.git import GitFacts, git_facts
from pattern_acp.workspace.jobs import Job
from pattern_acp.workspace.paths import resolve_path

SHOWN_PATH = 200
"""Characters of a path that a sentence quotes."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client says when it opens a session."""

    cwd: str
    additional_directories: tuple[str, ...] = ()
    servers: tuple[McpServerSettings, ...] = ()
    """MCP servers that the client passed."""


@dataclass(frozen=True, slots=True)
class Place:
    """A session's folders, looked at on the disk."""

    cwd: str
    additional_directories: tuple[str, ...]
    roots: tuple[str, ...]
    git: GitFacts
    project: str
    settings: Settings
    problems: tuple[str, ...] = ()
    offer: ProjectOffer = NOTHING
    definitions: Definitions = NO_DEFINITIONS


@dataclass(frozen=True, slots=True)
class _Reopened:
    row: SessionRow
    events: tuple[Event, ...]
    kept: tuple[Event, ...]
    """Those of `events` that make up the conversation."""
    grants: tuple[Grant, ...]
    jobs: tuple[RecordedJob, ...]
    lost: frozenset[str]
    """Ids of those jobs that ran until now, as far as the journal knew."""


async def create_session(shared: Constellation, client: Client, opening: Opening) -> Session:
    """A new session in the client's folder; its system prompt is compiled and recorded once."""
    place = await look_at(shared, opening)
    compiled = await anyio.to_thread.run_sync(compile_system, shared, client, place)
    session_id = SessionId(shared.ids.new("ses"))
    mode = Mode(place.settings.mode)
    model, notices = model_of_place(shared, place)
    created = SessionCreated(
        place.cwd, place.additional_directories, shared.persona.name, shared.persona.identity, model.qualified, mode
    )
    now = shared.clock.now_ms()

    def write(tx: Transaction) -> None:
        first = append(tx, session_id, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
        new = NewSession(
            session_id=session_id,
            cwd=place.cwd,
            additional_directories=place.additional_directories,
            persona=shared.persona.name,
            persona_identity=shared.persona.identity,
            model=model.qualified,
            mode=mode,
        )
        sessions.create_session(tx, new, seq=first.seq, at_ms=now)
        append(tx, session_id, compiled, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=now)
        leases.acquire(tx, session_id, shared.holder, now)

    await shared.database.write(write)
    state = SessionState(
        session_id,
        place.cwd,
        place.additional_directories,
        place.project,
        title="",
        model=model,
        thought_level=ThoughtLevel.OFF,
        policy=PolicyState(mode, place.roots),
        system=compiled.system,
        instructions=in_force(compiled),
        settings=place.settings,
        notices=[*place.problems, *notices],
    )
    trust = await open_trust(shared.database, place.cwd, place.offer, place.definitions)
    return _session(shared, client, state, opening, trust)


async def reopen_session(
    shared: Constellation, client: Client, session_id: str, opening: Opening, how: str
) -> tuple[Session, Sequence[Event]]:
    """A recorded session, taken over from a dead process if need be, and what it did so far."""
    place = await look_at(shared, opening)
    found = await shared.database.read(lambda tx: _get(tx, SessionId(session_id)))
    # Before the lease is taken: a session that cannot be opened for want of a key stays free for others.
    model, notices = model_of(shared, found.model)
    reopened = await shared.database.write(lambda tx: _take(tx, shared, SessionId(session_id), place, how))
    row, events, jobs = reopened.row, reopened.events, known_jobs(reopened.jobs, reopened.lost)
    compiled = await _compiled_before(shared, client, events, place)
    state = SessionState(
        row.session_id,
        place.cwd,
        place.additional_directories,
        place.project,
        title=row.title,
        model=model,
        thought_level=ThoughtLevel(row.thought_level or ThoughtLevel.OFF),
        policy=PolicyState(Mode(row.mode), place.roots, list(reopened.grants)),
        system=compiled.system,
        instructions=in_force(compiled),
        settings=place.settings,
        history=history_of(reopened.kept),
        used_calls=calls_of(events),
        shown=last_shown(reopened.kept),
        cost=cost_of_session(events),
        notices=[*place.problems, *notices, *lost_notices(jobs)],
    )
    trust = await open_trust(shared.database, place.cwd, place.offer, place.definitions)
    session = _session(shared, client, state, opening, trust, jobs)
    if await finish_cut_off(session):
        recorded = await shared.database.read(lambda tx: read_stream(tx, row.session_id))
        return session, tuple(item.event for item in kept_events(recorded))
    return session, reopened.kept


def _get(tx: Transaction, session_id: SessionId) -> SessionRow:
    row = sessions.get_session(tx, session_id)
    if row is None:
        raise UnknownSessionError(f"Session not found: {str(session_id)[:80]}")
    return row


def _take(tx: Transaction, shared: Constellation, session_id: SessionId, place: Place, how: str) -> _Reopened:
    row = _get(tx, session_id)
    now = shared.clock.now_ms()
    leases.acquire(tx, session_id, shared.holder, now)
    close_interrupted(tx, session_id, at_ms=now)
    opened = SessionOpened(how, place.cwd, place.additional_directories)
    appended = append(tx, session_id, opened, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
    sessions.set_place(tx, session_id, place.cwd, place.additional_directories, seq=appended.seq)
    recorded = read_stream(tx, session_id)
    lost = frozenset(job.started.job_id for job in recorded_jobs(recorded) if job.ended is None)
    jobs = close_lost_jobs(tx, session_id, recorded, at_ms=now)
    events = tuple(item.event for item in recorded)
    kept = tuple(item.event for item in kept_events(recorded))
    return _Reopened(row, events, kept, tuple(load_grants(tx, session_id)), jobs, lost)


def _session(
    shared: Constellation,
    client: Client,
    state: SessionState,
    opening: Opening,
    trust: FolderTrust,
    known: tuple[Job, ...] = (),
) -> Session:
    owner = MemoryOwner(shared.persona.name, state.project_key, state.session_id)
    memory = SessionMemory(
        *(
            ConstellationMemory(
                shared.database,
                owner,
                clock=shared.clock,
                ids=shared.ids,
                peer=shared.peer,
                writer=writer,
                indexer=shared.indexer,
                rules=memory_rules(shared, state.settings),
            )
            for writer in (PERSONA, PERSON)
        )
    )
    projections = SessionProjections(
        state.session_id, state.project_key, shared.clock, persona=shared.persona.name, memory=memory.persona
    )
    sink = JournalSink(
        shared.database,
        state.session_id,
        client.view(state.session_id),
        clock=shared.clock,
        projections=(projections.apply,),
    )
    session = Session(shared, state, client, memory, sink, _servers(shared, opening, sink), trust, known)
    follow_servers(session)
    return session


def _servers(shared: Constellation, opening: Opening, sink: JournalSink) -> SessionMcp:
    """The session's MCP servers, started in the background."""
    host = shared.servers
    servers = host.open(opening.servers, opening.cwd) if host is not None else SessionServers(())
    own = [tool.spec.name for tool in shared.tools]
    return SessionMcp(servers, McpToolbox(servers, RecordedAgreements(shared.database, sink), own))


def memory_rules(shared: Constellation, settings: Settings) -> MemoryRules:
    """What a session's settings, with its project's taken in, say of memory."""
    memory = settings.memory
    return MemoryRules(Isolation(memory.isolation), SecretRule(memory.secrets), shared.template_folder)


async def look_at(shared: Constellation, opening: Opening) -> Place:
    """Check and resolve the client's folders.

    Raises:
        InvalidRequestError: a folder is not absolute, or `cwd` is no folder.
    """
    for folder in (opening.cwd, *opening.additional_directories):
        if "\0" in folder or not Path(folder).is_absolute():
            raise InvalidRequestError(f"The folder {shown(folder)} is not an absolute path; send absolute paths.")
    return await anyio.to_thread.run_sync(_look_at, shared, opening)


def _look_at(shared: Constellation, opening: Opening) -> Place:
    if not is_folder(opening.cwd):
        raise InvalidRequestError(f"The folder {shown(opening.cwd)} is none; open a session in an existing folder.")
    git = git_facts(opening.cwd)
    roots = tuple(resolve_path(folder) for folder in (opening.cwd, *opening.additional_directories))
    project = project_key(git.common_dir, roots[0])
    own = shared.settings_for(opening.cwd) if shared.settings_for is not None else ProjectSettings(shared.settings)
    folders = (opening.cwd, opening.additional_directories, roots)
    problems = (*own.problems, *clashes(own.definitions, tuple(COMMANDS)))
    return Place(*folders, git, project, own.settings, problems, own.offer, own.definitions)


def is_folder(path: str) -> bool:
    """Whether there is a folder that can be looked at."""
    try:
        return Path(path).is_dir()
    except OSError:
        # Too long for the system, or behind a folder that is closed to us.
        return False


def shown(path: str) -> str:
    """A path for a sentence."""
    return repr(path if len(path) <= SHOWN_PATH else path[:SHOWN_PATH] + "…")


def compile_system(shared: Constellation, client: Client, place: Place) -> InstructionsCompiled:
    """The session's system prompt. Reads instruction files, so it runs in a worker thread."""
    description = client.description
    environment = Environment(
        cwd=place.cwd,
        additional_directories=place.additional_directories,
        platform=shared.platform or f"{platform_module.system()} {platform_module.release()}",
        date=datetime.fromtimestamp(shared.clock.now_ms() / 1000, UTC).strftime("%Y-%m-%d"),
        git_branch=place.git.branch,
        editor=description.name,
        capabilities=description.capabilities,
    )
    found = (*project_instructions(place.cwd, place.git.root), *own_instructions(shared.own_instructions))
    files = tuple(InstructionFile(each.path, each.size) for each in within_total(found) if each.text)
    return InstructionsCompiled(system_prompt(shared.persona, environment, found), shared.persona.identity, files)


def in_force(compiled: InstructionsCompiled) -> tuple[tuple[str, int], ...]:
    """The instruction files of a system prompt, with their sizes."""
    return tuple((file.path, file.size) for file in compiled.files)


async def _compiled_before(
    shared: Constellation, client: Client, events: Sequence[Event], place: Place
) -> InstructionsCompiled:
    for event in reversed(events):
        if isinstance(event, InstructionsCompiled):
            return event
    return await anyio.to_thread.run_sync(compile_system, shared, client, place)


def model_of_place(shared: Constellation, place: Place) -> tuple[ModelInfo, list[str]]:
    """The model of a new session: the project's when its file names one, else the process's."""
    wanted = place.settings.model
    if wanted in {"", shared.settings.model}:
        return usable_default(shared), []
    return model_of(shared, wanted)


def model_of(shared: Constellation, qualified: str) -> tuple[ModelInfo, list[str]]:
    """The model a session used, or the default and a sentence when it is gone or its provider has no key.

    Raises:
        CredentialsError: the default's provider has no key either.
    """
    missing = shared.models.missing_key(qualified)
    if not missing:
        try:
            return shared.models.resolve(qualified)[1], []
        except PatternError:
            missing = f"The model {qualified} is no longer available."
    default = usable_default(shared)
    return default, [f"{missing} This session now uses {default.qualified}."]


def usable_default(shared: Constellation) -> ModelInfo:
    """The model of new sessions.

    Raises:
        CredentialsError: its provider needs a key and has none. Only a model that the person named can be one: the
            automatic choice takes providers that can be asked.
    """
    missing = shared.models.missing_key(shared.default_model.qualified)
    if missing:
        raise CredentialsError(missing)
    return shared.default_model


def cost_of_session(events: Sequence[Event]) -> Cost | None:
    """What the session has cost so far, from its last usage."""
    for event in reversed(tuple(with_threads(events))):
        if isinstance(event, UsageReported) and event.cost is not None:
            return event.cost
    return None
