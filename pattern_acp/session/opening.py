"""Opens new sessions, and puts every session together from what is known of it."""

import platform as platform_module
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.slash import COMMANDS
from pattern_acp.config.project_offer import NOTHING, ProjectOffer
from pattern_acp.config.settings import DefinitionSettings, McpServerSettings, Settings
from pattern_acp.context.instructions import (
    Environment,
    ProjectInstruction,
    own_instructions,
    project_instructions,
    system_prompt,
    within_total,
)
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.definitions.identity import DefinitionSource
from pattern_acp.definitions.personas import lower_mode
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import normal_path, resolve_path
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.events import (
    InstructionFile,
    InstructionsCompiled,
    SessionCreated,
)
from pattern_acp.journal.sessions import NewSession
from pattern_acp.journal.writer import append
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.memory.blocks import Isolation, project_key
from pattern_acp.memory.service.scope import PERSON, PERSONA, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.write_validation import SecretRule
from pattern_acp.policy.decision import Mode
from pattern_acp.policy.grants import Grant, GrantOwner, load_grants
from pattern_acp.providers.base import ModelInfo
from pattern_acp.rewind.checkpoints import Checkpoints, RewindScope
from pattern_acp.session.constellation import Constellation, ProjectSettings
from pattern_acp.session.definition_pins import chosen_follow, pins_of, sources_to_keep
from pattern_acp.session.definitions import clashes, usable_skills
from pattern_acp.session.jobs import JobRecords
from pattern_acp.session.mcp import RecordedAgreements, SessionMcp
from pattern_acp.session.memory_context import history_scope, memory_owner, write_files
from pattern_acp.session.options import first_level, overlap_of
from pattern_acp.session.ports import (
    Client,
    ClientDescription,
    CredentialsError,
    ExtendedDialogue,
    FolderUnusableError,
    SessionPorts,
)
from pattern_acp.session.projections import SessionProjections
from pattern_acp.session.session import Session
from pattern_acp.session.state import FolderTrust, SessionMemory, SessionState
from pattern_acp.session.trust import follow_servers, open_trust, trusting_files
from pattern_acp.session.window import seen_messages
from pattern_acp.tools.mcp_toolbox import McpToolbox
from pattern_acp.trust import load_agreement
from pattern_acp.turn.data_read import DataRead
from pattern_acp.turn.permissions import PolicyState
from pattern_acp.turn.recorder import JournalRecorder
from pattern_acp.workspace.git import GitFacts, git_facts
from pattern_acp.workspace.jobs import Job, Jobs
from pattern_acp.workspace.shell import Machine
from pattern_acp.workspace.walk import top_names

if TYPE_CHECKING:
    from pattern_acp.config.settings import Follow
    from pattern_acp.definitions.bundles import Bundle
    from pattern_acp.memory.service.history import HistoryScope
    from pattern_acp.memory.templates import Template

SHOWN_PATH = 200
"""Characters of a path that a sentence quotes."""


class Opening(Struct, frozen=True):
    """Parameters of a client that opens a session."""

    cwd: str
    additional_directories: tuple[str, ...] = ()
    servers: tuple[McpServerSettings, ...] = ()
    """MCP servers that the client passed."""


class Reopening(Struct, frozen=True):
    """Way to open a recorded session. `how` is `load`, `resume`, `take_over` or `fork`, as its event says."""

    how: str
    client_id: SessionId
    """The id by which the client continues to name it."""
    take_over: bool = False
    """True to take the session from another window that has it open."""


class Place(Struct, frozen=True):
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
    bundles: "tuple[Bundle, ...]" = ()


async def create_session(shared: Constellation, client: Client, opening: Opening) -> Session:
    """A new session in the client's folder; its system prompt is compiled and recorded once."""
    place = await with_project_choice(shared, await look_at(shared, opening, is_searched=client.is_searched))
    compiled, found = await anyio.to_thread.run_sync(compile_system, shared, client, place)
    others = (shared.persona.sources, *instruction_sources(found))
    sources = await sources_to_keep(shared.database, place.definitions, place.cwd, others)
    session_id = SessionId(shared.ids.new("ses"))
    mode = await _first_mode(shared, place)
    model, notices = model_of_place(shared, place)
    remembered = await shared.database.read(lambda tx: sessions.remembered_thinking(tx, model.qualified))
    level = first_level(place.settings, model, remembered)
    created = SessionCreated(
        place.cwd,
        place.additional_directories,
        shared.persona.name,
        shared.persona.identity,
        model.qualified,
        mode,
        thought_level=level,
    )
    now, owner = shared.clock.now_ms(), GrantOwner(place.project, shared.persona.identity)

    def write(tx: Transaction) -> tuple[Grant, ...]:
        first = append(tx, session_id, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
        new = NewSession(
            session_id=session_id,
            cwd=place.cwd,
            additional_directories=place.additional_directories,
            persona=shared.persona.name,
            persona_identity=shared.persona.identity,
            model=model.qualified,
            mode=mode,
            thought_level=level,
        )
        sessions.create_session(tx, new, seq=first.seq, at_ms=now)
        last = append(tx, session_id, compiled, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=now)
        for each in sources:
            each.keep(tx, last.seq)
        leases.acquire(tx, session_id, shared.holder, now, editor=client.description.name)
        return load_grants(tx, session_id, owner)

    grants = await shared.database.write(write)
    state = SessionState(
        session_id,
        session_id,
        place.cwd,
        place.additional_directories,
        place.project,
        title="",
        model=model,
        thought_level=level,
        policy=PolicyState(
            mode,
            place.roots,
            list(grants),
            owner,
            read=DataRead((place.cwd, *place.roots), (file.path for file in compiled.files)),
            reading_asks=place.settings.policy.reading_commands == "ask",
            overlap=place.settings.claims.overlap,
            rules=place.settings.policy.rules,
        ),
        system=compiled.system,
        instructions=compiled.files,
        pins=compiled.definitions,
        settings=place.settings,
        overlap=overlap_of(place.settings, client.description.overlap),
        shows_overlap=shows_overlap(place.settings, client.description),
        persona=shared.persona.ref,
        notices=[*place.problems, *notices],
    )
    trust = await open_trust(shared.database, place.cwd, place.offer, place.definitions, place.bundles)
    return assemble(shared, client, state, opening, trust)


async def _first_mode(shared: Constellation, place: Place) -> Mode:
    """The mode of a new session where the user wishes that of the last one; else the settings'.

    That is the last one in its folder; in a folder without any, such as a new worktree, the last one in its project.
    """
    said = place.settings.mode
    if "mode" not in place.settings.fixed:
        said = Mode(lower_mode(said, shared.persona.mode))
    if not place.settings.policy.remember_mode:
        return Mode(said)
    last = await shared.database.read(lambda tx: sessions.newest_mode(tx, place.cwd, shared.persona.name))
    if last is None:
        folders = await shared.database.read(lambda tx: sessions.newest_modes(tx, shared.persona.name))
        last = await anyio.to_thread.run_sync(_mode_in_project, folders, place.project)
    return Mode(last or said)


def _mode_in_project(folders: list[tuple[str, str]], project: str) -> str | None:
    return next((mode for cwd, mode in folders if project_key(git_facts(cwd).common_dir, cwd) == project), None)


def shows_overlap(settings: Settings, client: ClientDescription) -> bool:
    """True when the treatment of overlapping prompts is an option that the client shows."""
    return client.has_overlap_option or settings.turn.overlapping != "auto"


async def refresh_grants(shared: Constellation, state: SessionState, trust: FolderTrust | None = None) -> None:
    """Read again which grants hold, as `look_at_grants` has them.

    Raises:
        PolicyError: one is not of a kind that this version knows.
        DatabaseError: the file cannot be read.
    """
    take = await shared.database.read(lambda tx: look_at_grants(tx, state, trust))
    take()


def look_at_grants(tx: Transaction, state: SessionState, trust: FolderTrust | None = None) -> Callable[[], None]:
    """Read which grants hold, and, with `trust`, if a folder that brings nothing is trusted; return what takes them in.

    Another window or a terminal may have added some or taken some back.

    Raises:
        PolicyError: one is not of a kind that this version knows.
    """
    policy, root = state.policy, trust.root if trust is not None else ""
    grants = load_grants(tx, state.session_id, policy.owner)
    agreement = load_agreement(tx, root) if root else None

    def take() -> None:
        policy.grants[:] = grants
        if trust is not None and not trust.offer.parts:
            trust.granted = trust.judge(agreement) is True

    return take


def assemble(
    shared: Constellation,
    client: Client,
    state: SessionState,
    opening: Opening,
    trust: FolderTrust,
    known: tuple[Job, ...] = (),
) -> Session:
    """The session over its ports. One that is only read starts no MCP servers."""
    owner, memory = _memory_of(shared, state)
    projections = SessionProjections(
        state.session_id, state.project_key, shared.clock, persona=state.persona.name, memory=memory.persona
    )
    recorder = JournalRecorder(
        shared.database,
        state.session_id,
        client.view(state.client_id),
        clock=shared.clock,
        projections=(projections.apply,),
        follow=state.policy.read.follow,
        check=lambda tx: leases.require(tx, state.session_id, shared.holder),
        late_check=lambda tx: leases.refuse_if_held(tx, state.session_id, shared.holder, shared.clock.now_ms()),
    )
    view, workbench = client.view(state.client_id), client.workbench(state.client_id)
    own_approver = client.approver(state.client_id)
    approver = client.asking_all(own_approver, state.session_id)
    tasks = shared.background
    records = JobRecords(recorder, view)
    jobs = Jobs(workbench.terminal, tasks, records, shared.clock, known) if tasks is not None else None

    def history() -> "HistoryScope":
        return history_scope(shared, state)

    scope = RewindScope(
        state.session_id,
        shared.database,
        shared.clock,
        shared.ids,
        shared.holder,
        state.policy,
        memory.persona,
        owner,
        history,
        shared.folder_changes,
        shared.code,
    )
    mcp = _servers(shared, opening, recorder, is_read=state.is_read)
    checkpoints = Checkpoints(scope)
    dialogue = ExtendedDialogue(shared, state, recorder, approver, view, memory, trust, mcp)
    session = Session(dialogue, SessionPorts(workbench, own_approver), jobs, checkpoints)
    state.policy.trusts_folder = lambda: trust.granted
    state.policy.trusting_files = lambda: trusting_files(session.recorder, session.trust)
    records.after_change = session.wake_if_due
    _connect_memory(dialogue)

    def follow_persona() -> None:
        turn, (owner, found) = memory.persona.turn_id, _memory_of(shared, state)
        memory.persona, memory.person = found.persona, found.person
        memory.begin(turn)
        checkpoints.scope = replace(checkpoints.scope, memory=memory.persona, owner=owner)
        projections.remember_as(state.persona.name, memory.persona)
        _connect_memory(dialogue)

    async def change(name: str, by: str) -> None:
        # Late: most sessions keep theirs.
        from pattern_acp.session.definitions import change_persona

        await change_persona(session, name, partial(model_of, shared), by=by)

    memory.follow_persona, session.change_persona = follow_persona, change
    projections.skills = lambda: usable_skills(trust)
    follow_servers(dialogue)
    return session


def _memory_of(shared: Constellation, state: SessionState) -> tuple[MemoryScope, SessionMemory]:
    """The memory of the session's persona."""
    owner = memory_owner(state)
    persona, person = (
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
    return owner, SessionMemory(persona, person)


def _connect_memory(dialogue: ExtendedDialogue) -> None:
    for memory in (dialogue.memory.persona, dialogue.memory.person):
        memory.searching.in_context = lambda: seen_messages(dialogue.state)
        memory.after_commit = lambda: write_files(dialogue)
        memory.template_in_use = partial(_template_in_use, dialogue)


async def _template_in_use(dialogue: ExtendedDialogue, name: str) -> "Template | None":
    # Late: blocks are made of templates now and then.
    from pattern_acp.session.definition_pins import template_in_use

    return await template_in_use(dialogue, name)


def _servers(shared: Constellation, opening: Opening, recorder: JournalRecorder, *, is_read: bool) -> SessionMcp:
    """The session's MCP servers, started in the background."""
    host = shared.servers
    servers = host.open(opening.servers, opening.cwd) if host is not None and not is_read else SessionServers(())
    own = [tool.spec.name for tool in shared.tools]
    return SessionMcp(servers, McpToolbox(servers, RecordedAgreements(shared.database, recorder), own))


def memory_rules(shared: Constellation, settings: Settings) -> MemoryRules:
    """Memory rules from a session's settings, with its project's taken in."""
    memory = settings.memory
    return MemoryRules(
        Isolation(memory.isolation), SecretRule(memory.secrets), shared.template_folder, memory.review == "project"
    )


async def look_at(shared: Constellation, opening: Opening, *, is_searched: bool = False) -> Place:
    """Check and resolve the client's folders; `is_searched` is that of the client.

    Raises:
        InvalidRequestError: a folder is not absolute, or `cwd` is no folder.
    """
    for folder in (opening.cwd, *opening.additional_directories):
        if "\0" in folder or not Path(folder).is_absolute():
            raise FolderUnusableError(f"The folder {shown(folder)} is not an absolute path; send absolute paths.")
    if shared.elsewhere is not None:
        return _place_elsewhere(shared, opening, shared.elsewhere, is_searched=is_searched)
    return await anyio.to_thread.run_sync(_look_at, shared, opening)


async def with_project_choice(shared: Constellation, place: Place) -> Place:
    """The same place with what the user chose for its project instead of the setting `definitions.follow`.

    Raises:
        DatabaseError: the file cannot be read.
    """
    chosen = await shared.database.read(lambda tx: chosen_follow(tx, place.project))
    if not chosen:
        return place
    follow = DefinitionSettings(cast("Follow", chosen))
    return replace(place, settings=replace(place.settings, definitions=follow))


ELSEWHERE = (
    "Files and commands are those of your machine, through the editor. Project settings and instructions, {off}"
    "checkpoints of files, the sandbox, MCP servers, hooks and language servers work where the agent runs, so they are "
    "off here; every command asks."
)
"""The first sentences of a session with a client on another machine."""

NOT_SEARCHED = "search, git status, the code map,"

SEARCHED = " Search, git status and the code map are done on your machine, by `pattern-acp connect`."


def _place_elsewhere(shared: Constellation, opening: Opening, machine: str, *, is_searched: bool) -> Place:
    """Take the client's folders as it names them: they are on another machine."""
    told = f"{ELSEWHERE.format(off='')}{SEARCHED}" if is_searched else ELSEWHERE.format(off=f"{NOT_SEARCHED} ")
    roots = tuple(normal_path(folder) for folder in (opening.cwd, *opening.additional_directories))
    settings = replace(shared.settings, policy=replace(shared.settings.policy, reading_commands="ask"))
    project = f"{machine or 'elsewhere'}:{roots[0]}"
    return Place(opening.cwd, opening.additional_directories, roots, GitFacts(), project, settings, problems=(told,))


def _look_at(shared: Constellation, opening: Opening) -> Place:
    if not is_folder(opening.cwd):
        raise FolderUnusableError(f"The folder {shown(opening.cwd)} is none; open a session in an existing folder.")
    git = git_facts(opening.cwd)
    roots = tuple(resolve_path(folder) for folder in (opening.cwd, *opening.additional_directories))
    project = project_key(git.common_dir, roots[0])
    own = shared.settings_for(opening.cwd) if shared.settings_for is not None else ProjectSettings(shared.settings)
    folders = (opening.cwd, opening.additional_directories, roots)
    problems = (*own.problems, *clashes(own.definitions, tuple(COMMANDS)))
    return Place(*folders, git, project, own.settings, problems, own.offer, own.definitions, own.bundles)


def is_folder(path: str) -> bool:
    """True when the path is an accessible folder."""
    try:
        return Path(path).is_dir()
    except OSError:
        # Too long for the system, or behind a folder that is closed to us.
        return False


def shown(path: str) -> str:
    """A path for a sentence."""
    return repr(path if len(path) <= SHOWN_PATH else path[:SHOWN_PATH] + "…")


def compile_system(
    shared: Constellation, client: Client, place: Place
) -> tuple[InstructionsCompiled, tuple[ProjectInstruction, ...]]:
    """The system prompt of a new session, and the instruction files, which it reads; so it runs in a worker thread."""
    description = client.description
    machine = shared.machine() if shared.elsewhere is None else Machine()
    environment = Environment(
        cwd=place.cwd,
        additional_directories=place.additional_directories,
        platform=shared.platform or f"{platform_module.system()} {platform_module.release()}",
        editor=description.name,
        capabilities=description.capabilities,
        shell=machine.shell,
        programs=machine.programs,
        # Of a project only: elsewhere, as in a home folder, names tell a provider more than they help a model.
        entries=top_names(place.cwd) if place.git.root else (),
    )
    found = instructions_of(shared, place)
    system = system_prompt(shared.persona, environment, found)
    files, pins = instruction_files(found), pins_of(place.definitions)
    return InstructionsCompiled(system, shared.persona.identity, files, pins, shared.persona.symbol), found


def instructions_of(shared: Constellation, place: Place) -> tuple[ProjectInstruction, ...]:
    """The instruction files of a session's folder and the user's own, as they are now."""
    own = own_instructions(shared.own_instructions)
    return own if shared.elsewhere is not None else (*project_instructions(place.cwd, place.git.root), *own)


def instruction_files(found: tuple[ProjectInstruction, ...]) -> tuple[InstructionFile, ...]:
    """The files whose text is part of a system prompt."""
    return tuple(
        InstructionFile(each.path, each.size, each.identity, each.definition)
        for each in within_total(found)
        if each.text
    )


def instruction_sources(found: tuple[ProjectInstruction, ...]) -> tuple[tuple[DefinitionSource], ...]:
    """The sources of the files whose text is part of a system prompt, for `sources_to_keep`."""
    return tuple((each.source,) for each in within_total(found) if each.text)


def model_of_place(shared: Constellation, place: Place) -> tuple[ModelInfo, list[str]]:
    """The model of a new session: the persona's, unless this process was started with one; else the settings'.

    A project's file counts before the user's own there.
    """
    wanted = place.settings.model
    if shared.persona.model and "model" not in place.settings.fixed:
        return model_of(shared, shared.persona.model)
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
        CredentialsError: its provider needs a key and has none. Only a model that the user named can be one: the
            automatic choice takes providers that can be asked.
    """
    missing = shared.models.missing_key(shared.default_model.qualified)
    if missing:
        raise CredentialsError(missing)
    return shared.default_model
