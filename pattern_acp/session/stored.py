"""Operations on a session by its id, whether a process has it open or not.

Owns: renaming, putting away, deleting and bringing back, each one transaction with its event. Must not know: who asks
(an editor, a slash command or the command line).
"""

import logging
import os
from collections.abc import Callable

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import InvalidRequestError, JournalError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import ToolCallView
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.codec import MissingSessionError, NotDeletedError
from pattern_acp.journal.events import (
    ContextAdded,
    Event,
    MessageRecorded,
    PlanUpdated,
    SessionArchived,
    SessionDeleted,
    SessionRestored,
    SessionTitled,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.leases import Holder
from pattern_acp.journal.reader import Recorded, read_stream
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import project_key
from pattern_acp.memory.indexing import deed_item, index_deed, index_steps, lacks_deed
from pattern_acp.memory.recall import (
    MessageKind,
    has_message,
    index_message,
    move_messages,
    owner_of_entries,
    remove_source,
)
from pattern_acp.workspace.git import git_facts

logger = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000

TITLE_LENGTH = 200
"""Longest title that a user may choose, in characters; editors show far less."""

CLOSE_FIRST = "close it there first"


async def rename_session(database: Database, session_id: str, title: str, *, now: int) -> str:
    """Give a session a title; returns it as it is stored, on one line.

    Raises:
        InvalidRequestError: the title is empty.
        UnknownSessionError: there is no such session.
    """
    clean = clean_title(title)

    def write(tx: Transaction) -> None:
        seq = _record(tx, session_id, SessionTitled(clean), now)
        # Its place in the list stays: it was not used.
        sessions.set_title(tx, SessionId(session_id), clean, seq=seq, at_ms=_existing(tx, session_id).updated_ms)

    await database.write(write)
    return clean


def clean_title(title: str) -> str:
    """A title on one line, cut to `TITLE_LENGTH`.

    Raises:
        InvalidRequestError: nothing is left of it.
    """
    clean = " ".join("".join(each if each.isprintable() else " " for each in title).split())
    if not clean:
        raise InvalidRequestError("Say how the session is to be called.")
    return clean if len(clean) <= TITLE_LENGTH else clean[: TITLE_LENGTH - 1].rstrip() + "…"


async def archive_session(database: Database, session_id: str, *, archived: bool, now: int) -> None:
    """Put a session away, or back into the list. Raises UnknownSessionError where there is no such session."""

    def write(tx: Transaction) -> None:
        seq = _record(tx, session_id, SessionArchived(archived), now)
        sessions.set_archived(tx, SessionId(session_id), archived=archived, seq=seq)

    await database.write(write)


async def delete_session(database: Database, session_id: str, holder: Holder, *, now: int) -> bool:
    """Take a session off every list and out of the search; False when there is none.

    What living forks share with it stays findable, as theirs.

    Raises:
        LeaseHeldError: another process works on it.
    """

    def write(tx: Transaction) -> bool:
        known = SessionId(session_id)
        if sessions.get_session(tx, known) is None:
            return False
        leases.refuse_if_held(tx, known, holder, now, remedy=f"{CLOSE_FIRST}, then delete it")
        seq = _record(tx, session_id, SessionDeleted(), now)
        sessions.mark_deleted(tx, known, seq=seq, at_ms=now)
        for fork, fork_seq in sessions.living_forks(tx, known):
            move_messages(tx, session_id, fork, upto_seq=fork_seq)
        remove_source(tx, session_id)
        return True

    return await database.write(write)


async def restore_session(database: Database, session_id: str, *, now: int, days: int) -> None:
    """Bring back a session that was deleted within so many `days`, with its messages in the search.

    Raises:
        NotDeletedError: there is no such deleted session, or it was deleted too long ago.
    """

    def write(tx: Transaction) -> None:
        known = SessionId(session_id)
        deleted = sessions.deleted_at(tx, known)
        if deleted is None:
            raise NotDeletedError(f"There is no deleted session {session_id[:80]!r}.")
        at_ms, cwd = deleted
        if now - at_ms > days * DAY_MS:
            raise NotDeletedError(f"Session {session_id} was deleted more than {days} days ago.")
        if sessions.was_swept(tx, session_id):
            raise NotDeletedError(f"Session {session_id} was deleted long ago, and `pattern-acp gc` took its words.")
        sessions.mark_restored(tx, known, seq=_record(tx, session_id, SessionRestored(), now))
        index_session(tx, session_id, cwd)

    await database.write(write)


def index_session(tx: Transaction, session_id: str, cwd: str) -> None:
    """Make the messages of a session that came back, or came from elsewhere, findable."""
    _index_again(tx, session_id, read_stream(tx, session_id, kinds=_INDEXED), project_of_folder(cwd))


def _index_again(
    tx: Transaction, session_id: str, recorded: list[Recorded], owner: str, *, only_missing: bool = False
) -> None:
    for fork, fork_seq in sessions.living_forks(tx, SessionId(session_id)):
        move_messages(tx, fork, session_id, upto_seq=fork_seq)
    # Late: only what brings a session back or rebuilds the index reads past turns.
    from pattern_acp.session.projections import WholeAnswers

    answers = WholeAnswers()
    deeds = _last_deeds(recorded)
    if only_missing:
        lacks = lacks_deed(tx, session_id)
        deeds = {seq: deed for seq, deed in deeds.items() if lacks(seq)}
    for entry in recorded:
        answer = answers.follow(entry.event)
        match entry.event:
            case ToolCallFinished() if entry.seq in deeds:
                index_deed(tx, session_id, owner, deeds[entry.seq], at_ms=entry.at_ms, seq=entry.seq)
            case TurnStarted(message=message, command=""):
                _index(tx, session_id, owner, "user", message, entry, only_missing=only_missing)
            case MessageRecorded() if answer is not None:
                _index(tx, session_id, owner, "assistant", answer, entry, only_missing=only_missing)
            case _:
                pass
    # Of plans, the last one alone is found.
    for entry in reversed(recorded):
        if isinstance(entry.event, PlanUpdated):
            index_steps(tx, session_id, owner, entry.event.plan, at_ms=entry.at_ms, seq=entry.seq)
            break


def _last_deeds(recorded: list[Recorded]) -> dict[int, str]:
    """Deeds of the calls of a session by the numbers of their events; of the same once more, the last alone."""
    from pattern_acp.session.searching import deed_of

    calls: dict[str, ToolCallView] = {}
    deeds: dict[str, tuple[int, str]] = {}
    for entry in recorded:
        if isinstance(entry.event, ToolCallStarted):
            calls[entry.event.call.call_id] = entry.event.call
        elif isinstance(entry.event, ToolCallFinished) and entry.event.call_id in calls:
            deed = deed_of(calls.pop(entry.event.call_id), entry.event)
            if deed.changes:
                deeds[deed_item(deed.searched)] = entry.seq, deed.searched
    return dict(deeds.values())


def _index(
    tx: Transaction,
    session_id: str,
    owner: str,
    kind: MessageKind,
    message: Message,
    entry: Recorded,
    *,
    only_missing: bool,
) -> None:
    if only_missing and has_message(tx, session_id, message.message_id, message.searched):
        return
    if message.searched.strip():
        index_message(
            tx,
            session_id=session_id,
            owner=owner,
            kind=kind,
            message_id=message.message_id,
            text=message.searched,
            at_ms=entry.at_ms,
            seq=entry.seq,
        )


def project_of_folder(cwd: str) -> str:
    """The project of a folder, which may be gone by now."""
    common_dir = git_facts(cwd).common_dir if os.path.isdir(cwd) else None  # noqa: PTH112  a Path raises where it may not look
    return project_key(common_dir, resolve_path(cwd))


def _existing(tx: Transaction, session_id: str) -> sessions.SessionRow:
    row = sessions.get_session(tx, SessionId(session_id))
    if row is None:
        raise MissingSessionError(session_id)
    return row


def _record(tx: Transaction, session_id: str, event: Event, now: int) -> int:
    """Append what the user did; the number of the event."""
    if not isinstance(event, SessionRestored):
        _existing(tx, session_id)
    return append(tx, session_id, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now).seq


_INDEXED = (TurnStarted, MessageRecorded, ContextAdded, PlanUpdated, ToolCallStarted, ToolCallFinished)


def index_all(tx: Transaction, told: Callable[[int, int], object] = lambda _done, _of: None) -> None:
    """Make the messages and the plan of every session findable, and what calls did; what the index has stays.

    What was deleted is found no longer, except as what its living forks share with it. A session of which a message
    cannot be understood stays out. `told` is called before each session with how many are done, and of how many.
    """
    every = tuple(sessions.every_session(tx))
    for done, (session_id, cwd, deleted) in enumerate(every):
        told(done, len(every))
        forks = sessions.living_forks(tx, session_id) if deleted else ()
        if deleted and not forks:
            continue
        try:
            recorded = read_stream(tx, session_id, kinds=_INDEXED)
        except JournalError as error:
            logger.warning("Session %s cannot be searched. %s", session_id, error)
            continue
        # The folder may be gone, and another project would not find what it has now.
        owner = owner_of_entries(tx, session_id) or project_of_folder(cwd)
        _index_again(tx, session_id, recorded, owner, only_missing=True)
        for fork, fork_seq in forks:
            move_messages(tx, session_id, fork, upto_seq=fork_seq)
        if deleted:
            remove_source(tx, session_id)
