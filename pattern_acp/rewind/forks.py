"""Forks: a new session that begins with the history of another one.

Owns: where a fork can begin, and what it takes over. Must not know: who asks for it. No event is copied: the new
session names its parent and the last event that both share (journal/history.py). Permissions that the user gave for
the parent's lifetime, its background commands and its costs stay with the parent. Memory is shared, or forked with the
conversation (memory/service/forking.py); forked memory of the parent is shared with all of its forks.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, IdFactory, SessionId
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import MessageRecorded, SessionCreated, SessionTitled, TurnEnded, TurnStarted
from pattern_acp.journal.history import EventPlace, active_events, end_of_turn, place_of_event, read_history, turn_ids
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.sessions import NewSession, SessionRow
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.forks import fork_of_session
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope, WriteContext
from pattern_acp.memory.templates import NO_TEMPLATES
from pattern_acp.rewind.checkpoints import RewindScope
from pattern_acp.rewind.plan import Target, UnknownPointError

MARK = " (fork)"
"""Is behind the parent's title."""


class TurnUnknownError(InvalidRequestError):
    """The turn that was named is not one of the session that has ended."""

    failure_code = "session.turn-unknown"


class MemoryIsForkedError(InvalidRequestError):
    """The memory of the session is a fork itself."""

    failure_code = "session.memory-is-forked"


class ForkingMemory(Struct, frozen=True):
    """Project of a session whose memory is forked, too, and this process's Loro peer."""

    project_key: str
    peer: int


class Fork(Struct, frozen=True):
    """A session that was forked: its id, its title, its folders, and the number of turns that it begins with."""

    session_id: SessionId
    title: str
    cwd: str
    additional_directories: tuple[str, ...]
    turns: int


async def fork_session(
    database: Database,
    session_id: str,
    turn: str,
    *,
    clock: Clock,
    ids: IdFactory,
    forking: ForkingMemory | None = None,
) -> Fork:
    """Fork a session behind one of its turns, behind its last complete one without a `turn`.

    `turn` is a number from 1, the one that `/rewind` lists, or a turn's id; it may be one that the user went back
    behind. The parent may be in use elsewhere; nothing of it changes. With `forking`, memory is forked too, as it is
    now.

    Raises:
        InvalidRequestError: there is no such turn, or it has not ended; or the memory to fork is forked memory.
        UnknownSessionError: there is no such session.
        BlockError: the history of a block that is to be forked cannot be read.
    """
    now, new_id = clock.now_ms(), SessionId(ids.new("ses"))

    def write(tx: Transaction) -> Fork:
        fork = _fork(tx, session_id, turn, new_id, now)
        _fork_memory(tx, session_id, new_id, forking, ids, now)
        return fork

    return await database.write(write)


def _fork_memory(
    tx: Transaction, session_id: str, new_id: SessionId, forking: ForkingMemory | None, ids: IdFactory, now: int
) -> None:
    joined = fork_of_session(tx, session_id)
    if joined is None and forking is None:
        return
    # Late: most forks share memory.
    from pattern_acp.memory.service.forking import fork_memory, share_fork

    if joined is not None and forking is not None:
        raise MemoryIsForkedError(
            "The memory of this session is a fork already, and of that there is one: /merge or /discard it first, or "
            "say --memory shared to let both sessions use it."
        )
    row = sessions.get_session(tx, new_id)
    if row is None:
        raise MissingSessionError(new_id)
    place = forking or ForkingMemory("", 0)
    writing = WriteContext(
        MemoryScope(row.persona, place.project_key, new_id), PERSON, MemoryRules(), ids, place.peer, now, NO_TEMPLATES
    )
    if joined is not None:
        share_fork(tx, joined, writing)
    else:
        fork_memory(tx, MemoryFork(ids.new("fork"), now), writing)


def _fork(tx: Transaction, session_id: str, turn: str, new_id: SessionId, now: int) -> Fork:
    row = sessions.get_session(tx, SessionId(session_id))
    if row is None:
        raise MissingSessionError(session_id)
    by_id = bool(turn) and not turn.isdecimal()
    seq = _end_by_id(tx, session_id, turn) if by_id else _end_by_number(tx, session_id, turn)
    new = _new_session(row, new_id, _place(tx, seq))
    first = append(tx, new_id, _created(tx, new), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
    sessions.create_session(tx, new, seq=first.seq, at_ms=now)
    # Only now: the history of the new session is read the way that every later reader does.
    shared = [entry.event for entry in read_history(tx, new_id)]
    turns = sum(isinstance(event, TurnStarted) for event in shared)
    answers = sum(isinstance(event, MessageRecorded) for event in shared)
    title = f"{row.title.removesuffix(MARK) or 'Untitled'}{MARK}"
    titled = append(tx, new_id, SessionTitled(title), actor=Actor.SYSTEM, origin=Origin.EDITOR, at_ms=now)
    sessions.set_title(tx, new_id, title, seq=titled.seq, at_ms=now)
    sessions.set_inherited(tx, new_id, prompts=turns, messages=turns + answers, seq=titled.seq)
    prompts = sum(isinstance(event, TurnStarted) and not event.command for event in shared)
    return Fork(new_id, title, row.cwd, row.additional_directories, prompts)


def _new_session(row: SessionRow, new_id: SessionId, point: EventPlace) -> NewSession:
    return NewSession(
        session_id=new_id,
        cwd=row.cwd,
        additional_directories=row.additional_directories,
        persona=row.persona,
        persona_identity=row.persona_identity,
        model=row.model,
        mode=row.mode,
        thought_level=row.thought_level,
        parent=point.stream,
        fork_seq=point.seq,
    )


def _created(tx: Transaction, new: NewSession) -> SessionCreated:
    return SessionCreated(
        new.cwd,
        new.additional_directories,
        new.persona,
        new.persona_identity,
        new.model,
        new.mode,
        new.parent,
        new.fork_seq,
        _place(tx, new.fork_seq or 0).hash,
        new.thought_level,
    )


def _end_by_id(tx: Transaction, session_id: str, turn_id: str) -> int:
    seq = end_of_turn(tx, session_id, turn_id)
    if seq is None:
        raise TurnUnknownError(f"There is no turn {turn_id[:80]!r} in this session that has ended.")
    return seq


def _end_by_number(tx: Transaction, session_id: str, turn: str) -> int:
    """The number of the last event that a fork shares."""
    if not turn:
        return _behind_whole_turns(active_events(read_history(tx, session_id)))
    turns = turn_ids(tx, session_id)
    # More digits than any count has are no number for `int`, which refuses thousands of them.
    number = int(turn) if len(turn) <= len(str(len(turns))) else 0
    if not 1 <= number <= len(turns):
        raise TurnUnknownError(f"There is no turn {turn[:20]}; the session has {len(turns)}.")
    return _end_by_id(tx, session_id, turns[number - 1])


def _behind_whole_turns(history: Sequence[Recorded]) -> int:
    """The newest event, or the one before the turn that runs or was cut off."""
    newest = history[-1].seq
    for place in range(len(history) - 1, -1, -1):
        event = history[place].event
        if isinstance(event, TurnEnded):
            return newest
        if isinstance(event, TurnStarted):
            return history[place - 1].seq
    return newest


def _place(tx: Transaction, seq: int) -> EventPlace:
    place = place_of_event(tx, seq)
    if place is None:
        raise TurnUnknownError("The turn to fork behind is gone from the journal; run pattern-acp doctor.")
    return place


CONVERSATION = "conversation"


class NothingInFrontError(UnknownPointError):
    """There is no conversation in front of the session's first turn, which it shares with another one."""

    failure_code = "rewind.point-unknown"


def parts_here(target: Target, parts: Sequence[str]) -> tuple[str, ...]:
    """The parts that go back in the session itself."""
    return tuple(part for part in parts if target.fork_behind is None or part != CONVERSATION)


async def fork_for(scope: RewindScope, target: Target, parts: Sequence[str]) -> Fork | None:
    """Begin the fork that has the conversation of `target`; None when the session's own goes back, or none does.

    Raises:
        NothingInFrontError: there is no turn in front of it.
    """
    if target.fork_behind is None or CONVERSATION not in parts:
        return None
    if not target.fork_behind:
        raise NothingInFrontError(
            "The conversation cannot go there: its first turn is one that this session shares with the one it was "
            "forked from. A new session begins there; files and memory can go back."
        )
    turn = str(target.fork_behind)
    return await fork_session(scope.database, scope.session_id, turn, clock=scope.clock, ids=scope.ids)
