"""Opens recorded sessions: to continue with one, or only to show it while another window has it.

Owns: the lease, closing what was left open, and reading the history. Must not know: how a session is put together
(session/opening.py), or what the user is asked about a session that is in use (session/session_conflict.py).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from pattern_acp.context.builder import calls_of, history_of, last_shown
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.identity import KeptSource, SourceDamagedError, read_sources
from pattern_acp.definitions.personas import PersonaRef, is_typed, lower_mode
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.domain.usage import Cost
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.events import (
    Event,
    InstructionsCompiled,
    LandingStarted,
    PinnedDefinition,
    SessionConfigured,
    SessionCreated,
    SessionOpened,
    TurnEnded,
    UsageReported,
)
from pattern_acp.journal.history import active_events, ancestors, read_history, with_subagent_events
from pattern_acp.journal.reader import (
    Recorded,
    earliest_rewind,
    problem_of_event,
    read_jobs,
    read_stream,
    recorded_here,
)
from pattern_acp.journal.sessions import SessionRow
from pattern_acp.journal.turn_ends import (
    PROCESS_ENDED,
    InterruptedEnd,
    RecordedJob,
    TurnFailure,
    close_interrupted,
    close_lost_jobs,
    recorded_jobs,
)
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.forks import fork_of_session, worker_forks
from pattern_acp.policy.decision import Mode
from pattern_acp.policy.grants import Grant, GrantOwner, load_grants
from pattern_acp.providers.base import ThoughtLevel
from pattern_acp.rewind.checkpoints import RewindScope
from pattern_acp.session.adoption import Followed, follow_definitions, recorded_persona
from pattern_acp.session.budgets import restored_budgets
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.context_usage import tool_form_of
from pattern_acp.session.definition_pins import (
    drift_of,
    offer_kept_tools,
    pins_of,
    take_definitions,
    tell_drift,
    told_drift,
)
from pattern_acp.session.jobs import cut_group_notices, known_jobs, lost_notices, restored_watches, unfinished_notices
from pattern_acp.session.opening import (
    Opening,
    Place,
    Reopening,
    assemble,
    look_at,
    model_of,
    shows_overlap,
    with_project_choice,
)
from pattern_acp.session.options import overlap_of
from pattern_acp.session.ports import Client, DefinitionsDamagedError, Dialogue, UnknownSessionError
from pattern_acp.session.session import Session
from pattern_acp.session.state import Drift, SessionState
from pattern_acp.session.trust import open_trust
from pattern_acp.session.window import window_state
from pattern_acp.turn.data_read import DataRead
from pattern_acp.turn.permissions import PolicyState

TAKEN_OVER = InterruptedEnd(
    StopReason.CANCELLED, "Another window took the session over during this turn.", TurnFailure("session.taken-over")
)
"""End of a turn that runs in the window from which the session is taken."""

FIRST_EVENTS = 100
"""Events that are read and shown before the rest of a long session."""


class _Found(Struct, frozen=True):
    row: SessionRow
    recorded: tuple[Recorded, ...]
    """With what it shares with the session that it was forked from."""
    grants: tuple[Grant, ...]
    jobs: tuple[RecordedJob, ...] = ()
    lost: frozenset[str] = frozenset()
    """Ids of those jobs that ran until now, as far as the journal knew."""
    memory_fork: MemoryFork | None = None
    worker_forks: tuple[MemoryFork, ...] = ()
    """Forks of memory of workers that had not landed."""
    has_past: bool | None = None
    """See `SessionState.has_past`."""


async def reopen_session(
    shared: Constellation,
    client: Client,
    session_id: str,
    opening: Opening,
    how: Reopening,
    begin: Callable[[Sequence[Event]], Awaitable[None]] | None = None,
) -> tuple[Session, Sequence[Event]]:
    """A recorded session, taken over from a dead process if need be, and its conversation so far.

    `begin` gets the first turns of that conversation as soon as they are known, before all of it is read.

    Raises:
        UnknownSessionError: there is none, or it was deleted.
        LeaseHeldError: another process runs it, and `how` does not say to take it over.
    """
    place = await with_project_choice(shared, await look_at(shared, opening, is_searched=client.is_searched))
    known = SessionId(session_id)
    found, sources = await shared.database.read(lambda tx: _sound(tx, known, place, shared.personas))
    # Before the lease is taken: a session that cannot be opened stays as it is, and free for others.
    model_of(shared, found.model)
    lost, interrupted, lowered = await shared.database.write(
        lambda tx: _take(tx, shared, known, place, how, client.description.name)
    )
    if begin is not None:
        await begin(await shared.database.read(lambda tx: first_turns(tx, known)))
    # Not in the transaction that takes it: a long history would keep every other writer waiting.
    reopened = await shared.database.read(lambda tx: _read(tx, known, place.project, lost))
    session, kept, drift = await _session_of(shared, client, opening, place, reopened, how.client_id, sources=sources)
    session.state.sources = sources
    session.state.notices += lowered
    offer_kept_tools(session.dialogue)
    session.state.told_changes = told_drift(reopened.recorded)
    tell_drift(session.state, (*drift, *drift_of(await take_definitions(session.dialogue))))
    rewind = await session.checkpoints.recover(turn_ended=interrupted, undo=_undo_landing)
    await _drop_left_forks(session.dialogue, reopened.worker_forks)
    if rewind is not None:
        from pattern_acp.session.rewind_requests import finish_rewind

        await finish_rewind(session.dialogue, session.checkpoints, rewind)
        again = await shared.database.read(lambda tx: read_history(tx, known))
        return session, [entry.event for entry in active_events(again)]
    return session, kept


async def _drop_left_forks(dialogue: Dialogue, found: Sequence[MemoryFork]) -> None:
    """Drop what workers learned that ended with an earlier process; a result that waits has its own."""
    waiting = {one.memory for one in dialogue.state.reported}
    left = [fork for fork in found if fork.id not in waiting]
    if left:
        # Late: hardly an opening comes here.
        from pattern_acp.session.subagents.memory import drop_forks

        await drop_forks(dialogue, left)


async def _undo_landing(scope: RewindScope, started: LandingStarted) -> None:
    # Late: hardly an opening comes here.
    from pattern_acp.rewind.landing import undo_landing

    await undo_landing(scope, started)


def first_turns(tx: Transaction, session_id: str) -> list[Event]:
    """The first whole turns of a session's conversation, of a fork those of the session that it all began with.

    Only those that count for certain, whatever the user went back to later.
    """
    lineage = ancestors(tx, session_id)
    stream, shared = (lineage[-1].session_id, lineage[-1].session_seq) if lineage else (session_id, FIRST_EVENTS)
    certain = earliest_rewind(tx, stream)
    recorded = read_stream(tx, stream, upto=min(FIRST_EVENTS, shared, FIRST_EVENTS if certain is None else certain))
    ends = [place for place, entry in enumerate(recorded, start=1) if isinstance(entry.event, TurnEnded)]
    return [entry.event for entry in recorded[: ends[-1] if ends else 0]]


async def view_session(
    shared: Constellation, client: Client, session_id: str, opening: Opening
) -> tuple[Session, Sequence[Event]]:
    """A session that another window has, or of a damaged file, only to be read: nothing changes, nothing is started.

    Of a damaged file, what can be read of it.

    Raises:
        UnknownSessionError: there is none, or it was deleted.
    """
    place = await look_at(shared, opening, is_searched=client.is_searched)
    known = SessionId(session_id)
    read = _read_what_is_left if shared.database.damage else partial(_read, lost=frozenset())
    found = await shared.database.read(lambda tx: read(tx, known, place.project))
    session, conversation, _ = await _session_of(shared, client, opening, place, found, known, is_read=True)
    return session, conversation


async def _session_of(
    shared: Constellation,
    client: Client,
    opening: Opening,
    place: Place,
    found: _Found,
    client_id: SessionId,
    *,
    sources: Mapping[str, KeptSource] | None = None,
    is_read: bool = False,
) -> tuple[Session, Sequence[Event], tuple[Drift, ...]]:
    reported = tuple(job.reported for job in found.jobs if job.ended is None and job.reported is not None)
    row, jobs = found.row, known_jobs([job for job in found.jobs if job.reported not in reported], found.lost)
    model, notices = model_of(shared, row.model)
    kept = [entry.event for entry in active_events(found.recorded)]
    instructions = await _instructions_of(shared, place, found, sources or {}, is_read=is_read)
    state = SessionState(
        row.session_id,
        client_id,
        place.cwd,
        place.additional_directories,
        place.project,
        title=row.title,
        model=model,
        thought_level=ThoughtLevel(row.thought_level or ThoughtLevel.OFF),
        policy=PolicyState(
            Mode(row.mode),
            place.roots,
            list(found.grants),
            GrantOwner(place.project, instructions.compiled.identity),
            read=data_read(place, instructions.compiled, found.recorded),
            reading_asks=place.settings.policy.reading_commands == "ask",
            overlap=place.settings.claims.overlap,
            rules=place.settings.policy.rules,
        ),
        system=instructions.compiled.system,
        instructions=instructions.compiled.files,
        pins=instructions.compiled.definitions,
        settings=place.settings,
        persona=instructions.persona,
        memory_fork=found.memory_fork,
        has_past=found.has_past,
        tool_form=tool_form_of(entry.event for entry in found.recorded),
        overlap=overlap_of(place.settings, client.description.overlap, (entry.event for entry in found.recorded)),
        shows_overlap=shows_overlap(place.settings, client.description),
        history=history_of(kept),
        used_calls=calls_of(entry.event for entry in found.recorded),
        shown=last_shown(kept),
        cost=cost_of_session(found.recorded),
        budgets=restored_budgets([entry.event for entry in found.recorded if entry.session_seq]),
        window=window_state([entry.event for entry in found.recorded]),
        notices=[
            *place.problems,
            *notices,
            *instructions.notices,
            *lost_notices(jobs),
            *unfinished_notices(found.recorded),
            *cut_group_notices(entry.event for entry in active_events(found.recorded) if entry.session_seq),
        ],
        is_read=is_read,
        reported=list(reported),
        watches=restored_watches(found.recorded),
        read_to=max((entry.session_seq for entry in found.recorded), default=0),
    )
    trust = await open_trust(shared.database, place.cwd, place.offer, place.definitions, place.bundles)
    return assemble(shared, client, state, opening, trust, jobs), kept, instructions.drift


def data_read(place: Place, compiled: InstructionsCompiled, recorded: Iterable[Recorded]) -> DataRead:
    """Return what the session has read so far, by its events; what it went back behind, it has read all the same."""
    read = DataRead((place.cwd, *place.roots), (file.path for file in compiled.files))
    for entry in recorded:
        read.note(entry.event, entry.origin)
    return read


def _get(tx: Transaction, session_id: SessionId) -> SessionRow:
    row = sessions.get_session(tx, session_id)
    if row is None:
        raise UnknownSessionError(f"Session not found: {str(session_id)[:80]}")
    return row


def _take(
    tx: Transaction, shared: Constellation, session_id: SessionId, place: Place, how: Reopening, editor: str
) -> tuple[frozenset[str], bool, tuple[str, ...]]:
    """Take the lease and close what was left open.

    The result is the ids of background commands that are lost, whether a turn was cut, and notices to the user.
    """
    _get(tx, session_id)
    now = shared.clock.now_ms()
    leases.acquire(tx, session_id, shared.holder, now, take_over=how.take_over, editor=editor)
    closed = close_interrupted(tx, session_id, at_ms=now, how=TAKEN_OVER if how.take_over else PROCESS_ENDED)
    opened = SessionOpened(how.how, place.cwd, place.additional_directories)
    appended = append(tx, session_id, opened, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
    sessions.set_place(tx, session_id, place.cwd, place.additional_directories, seq=appended.seq)
    recorded = read_jobs(tx, session_id)
    lost = frozenset(job.started.job_id for job in recorded_jobs(recorded) if job.is_lost)
    close_lost_jobs(tx, session_id, recorded, at_ms=now)
    return lost, bool(closed), _lower_mode(tx, session_id, Mode(place.settings.mode), now)


def _lower_mode(tx: Transaction, session_id: SessionId, most: Mode, now: int) -> tuple[str, ...]:
    """Have a session whose mode was chosen on another machine do no more than a new one here; what the user is to know.

    Here and not when it arrives: its journal would part from that of the other machine before anybody used it.
    """
    mode = _get(tx, session_id).mode
    if lower_mode(mode, most) == mode or _has_mode_from_here(tx, session_id):
        return ()
    configured = SessionConfigured("mode", most, "agent")
    seq = append(tx, session_id, configured, actor=Actor.SYSTEM, origin=Origin.EDITOR, at_ms=now).seq
    sessions.set_option(tx, session_id, "mode", most, seq=seq, at_ms=now)
    return (
        f"This session comes from another machine or constellation, where its mode was {mode}. Here it continues in "
        f"{most}, as new sessions begin; you can change its mode as usual.",
    )


def _has_mode_from_here(tx: Transaction, session_id: str) -> bool:
    """Tell whether the mode of a session, or the session that it has it from as a fork, was chosen here."""
    setting = [
        entry
        for entry in read_stream(tx, session_id, kinds=(SessionCreated, SessionConfigured))
        if not isinstance(entry.event, SessionConfigured) or entry.event.option == "mode"
    ]
    if not recorded_here(tx, setting[-1:]):
        return False
    last = setting[-1].event
    return not (isinstance(last, SessionCreated) and last.parent) or _has_mode_from_here(tx, last.parent)


def _sound(
    tx: Transaction, session_id: SessionId, place: Place, known: Collection[str]
) -> tuple[SessionRow, dict[str, KeptSource]]:
    """The session's row, and its stored sources, once all that it is defined by is found to be what was recorded."""
    row = _get(tx, session_id)
    if is_typed(row.persona, known):
        raise DefinitionsDamagedError(
            f"The persona of this session was typed, and no file has it: save its text as personas/{row.persona}.md"
            f" first. `pattern-acp sessions adopt {session_id}` lets the session continue as your own persona instead."
        )
    recorded = read_history(tx, session_id, kinds=(InstructionsCompiled,))
    problem = problem_of_event(tx, recorded[-1].seq) if recorded else "there are none"
    if problem:
        raise DefinitionsDamagedError(
            f"The recorded instructions of this session cannot be used: {problem}. `pattern-acp sessions adopt"
            f" {session_id}` lets it continue with those of today; a new session does, too."
        )
    pins = [pin for entry in recorded[-1:] for pin in _pins(entry.event)]
    personas = [pin for entry in recorded[-1:] for pin in _persona_of(row, entry.event)]
    try:
        sources = read_sources(tx, [pin.identity for pin in (*personas, *pins)])
    except SourceDamagedError as error:
        raise DefinitionsDamagedError(error.sentence) from error
    missing = any(pin.identity not in sources for pin in pins)
    today = {pin.identity for pin in pins_of(place.definitions)} if missing else set[str]()
    for pin in (*personas, *pins):
        if pin.identity not in sources and pin.identity not in today:
            raise DefinitionsDamagedError(
                f"The stored source of {pin.symbol} is gone. `pattern-acp sessions adopt {session_id}` lets this "
                "session continue with the definitions of today; a new session does, too."
            )
    return row, sources


def _persona_of(row: SessionRow, event: Event) -> tuple[PinnedDefinition, ...]:
    """The persona of recorded instructions, where its source is needed."""
    if not isinstance(event, InstructionsCompiled) or not event.symbol:
        return ()
    # Without a head it is the beginning of the prompt, whose identity is checked as well.
    is_prompt = recorded_persona(row.persona, event, None) is not None
    return () if is_prompt else (PinnedDefinition(event.identity, event.symbol, ""),)


def _pins(event: Event) -> tuple[PinnedDefinition, ...]:
    return event.definitions if isinstance(event, InstructionsCompiled) else ()


def _read(tx: Transaction, session_id: SessionId, project: str, lost: frozenset[str]) -> _Found:
    row = _get(tx, session_id)
    recorded = read_history(tx, session_id)
    jobs = recorded_jobs(entry for entry in recorded if entry.session_seq)
    grants = load_grants(tx, session_id, _owner(recorded, row, project))
    has_past = sessions.has_earlier_session(tx, session_id)
    of_workers = worker_forks(tx, session_id)
    return _Found(row, tuple(recorded), grants, jobs, lost, fork_of_session(tx, session_id), of_workers, has_past)


def _read_what_is_left(tx: Transaction, session_id: SessionId, project: str) -> _Found:
    from pattern_acp.journal.history import readable, readable_history

    row = _get(tx, session_id)
    recorded = readable_history(tx, session_id)
    grants = readable(lambda: load_grants(tx, session_id, _owner(recorded, row, project)), ())
    return _Found(row, tuple(recorded), grants)


def _owner(recorded: Sequence[Recorded], row: SessionRow, project: str) -> GrantOwner:
    """The project and persona whose lasting grants a recorded session has."""
    compiled = _compiled(recorded)
    return GrantOwner(project, compiled.identity if compiled is not None else row.persona_identity)


def _compiled(recorded: Sequence[Recorded]) -> InstructionsCompiled | None:
    return next((e.event for e in reversed(recorded) if isinstance(e.event, InstructionsCompiled)), None)


async def _instructions_of(
    shared: Constellation, place: Place, found: _Found, sources: Mapping[str, KeptSource], *, is_read: bool
) -> Followed:
    """The instructions that a session continues with: those it has, or those of today that it adopts."""
    compiled = _compiled(found.recorded)
    if compiled is None or is_read:
        # Without any only to be looked at: what it was sent does not matter any more.
        compiled = compiled or InstructionsCompiled("", found.row.persona_identity)
        return Followed(compiled, PersonaRef(found.row.persona, compiled.identity))
    return await follow_definitions(shared, place, found.row, compiled, sources)


def cost_of_session(recorded: Sequence[Recorded]) -> Cost | None:
    """Cost of the session so far, from its last usage; the parent of a fork paid for what they share."""
    own = tuple(with_subagent_events(entry.event for entry in recorded if entry.session_seq))
    for event in reversed(own):
        if isinstance(event, UsageReported) and event.cost is not None:
            return event.cost
    return None
