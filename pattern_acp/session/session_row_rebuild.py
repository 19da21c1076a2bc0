"""A session's row, worked out from the session's events alone, and compared with the one that is stored.

Owns: which event changes what of a row. Must not know: who asks (a replay, `doctor --verify`, a rebuild from segments).
Times and the count of messages are not compared: a process that ends in the middle leaves events that count for
neither.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from pattern_acp.context.builder import history_of
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import JournalError
from pattern_acp.domain.messages import Message
from pattern_acp.journal import sessions
from pattern_acp.journal.events import (
    CheckpointTaken,
    Event,
    MessageRecorded,
    ModelRequested,
    SessionArchived,
    SessionConfigured,
    SessionCreated,
    SessionDeleted,
    SessionOpened,
    SessionRestored,
    SessionTitled,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.history import active_events, read_history, went_back
from pattern_acp.journal.reader import Recorded, event_hash, session_streams
from pattern_acp.journal.sessions import NewSession, SessionState

ROW_KINDS = (
    SessionArchived,
    SessionConfigured,
    SessionCreated,
    SessionDeleted,
    SessionOpened,
    SessionRestored,
    SessionTitled,
    TurnStarted,
)
"""The kinds of events that change what is compared of a row; all others are left unread."""


class RowDifference(Struct, frozen=True):
    """Difference between a row and its events: the name, the stored value, and the replayed one."""

    what: str
    stored: str
    replayed: str


def replayed_row(history: Iterable[Recorded]) -> SessionState:
    """Rebuild a session's row from its events, without those that it was forked with; other columns are left out."""
    state: SessionState = {"deleted": 0, "archived": 0, "prompt_count": 0}
    for entry in history:
        if isinstance(entry.event, TurnStarted):
            # Shared turns count too: a fork with any is listed.
            state |= {"prompt_count": int(state["prompt_count"]) + 1, "archived": 0}
        elif entry.session_seq:
            state |= _changed_by(entry.event)
    return state


def _changed_by(event: Event) -> SessionState:
    match event:
        case SessionCreated() as created:
            known: SessionState = {"model": created.model, "mode": created.mode, "cwd": created.cwd}
            # Sessions from before it was recorded were all begun with it off, and forks with that of their parent.
            return known | {"thought_level": created.thought_level} if created.thought_level else known
        case SessionOpened() as opened:
            return {"cwd": opened.cwd}
        case SessionConfigured(option=option, value=value):
            return {option: value}
        case SessionTitled(title):
            return {"title": title}
        case SessionArchived(archived=archived):
            return {"archived": int(archived)}
        case SessionDeleted() | SessionRestored():
            return {"deleted": int(isinstance(event, SessionDeleted))}
        case _:
            return {}


def row_differences(tx: Transaction, session_id: str, history: Iterable[Recorded]) -> Iterator[RowDifference]:
    """Differences between a session's stored row and its events; none when there is no row."""
    replayed = replayed_row(history)
    for name, stored in sessions.session_state(tx, SessionId(session_id)).items():
        if name == "deleted" and stored == sessions.MOVED_AWAY:
            # Its own events continue elsewhere.
            continue
        if name in replayed and str(replayed[name]) != str(stored):
            yield RowDifference(name.replace("_", " "), str(stored), str(replayed[name]))


def wrong_rows(tx: Transaction) -> tuple[int, tuple[str, ...]]:
    """Count the sessions, and describe each whose row is missing or differs from its events.

    Events that cannot be understood are left to the check of the chain.
    """
    known, wrong = session_streams(tx), list[str]()
    for session_id in known:
        try:
            history = read_history(tx, session_id, kinds=ROW_KINDS)
        except JournalError:
            continue
        if not sessions.session_state(tx, session_id):
            wrong.append(f"the row of session {session_id} is gone")
        for found in row_differences(tx, session_id, history):
            wrong.append(f"the {found.what} of session {session_id} is {found.stored}, by its events {found.replayed}")
    return len(known), tuple(wrong)


def mend_rows(tx: Transaction, told: Callable[[int, int], object] = lambda _done, _of: None) -> None:
    """Make the row of every session what its events say; one that is missing is made again.

    `told` is called before each session with how many are done, and of how many.
    """
    known = session_streams(tx)
    for done, session_id in enumerate(known):
        told(done, len(known))
        try:
            history = read_history(tx, session_id, kinds=ROW_KINDS)
            if not sessions.session_state(tx, session_id):
                _make_again(tx, session_id, read_history(tx, session_id, kinds=(*ROW_KINDS, MessageRecorded)))
        except JournalError:
            continue
        stored, replayed = sessions.session_state(tx, session_id), replayed_row(history)
        wanted = {name: replayed.get(name, value) for name, value in stored.items()}
        if stored.get("deleted") == sessions.MOVED_AWAY:
            wanted["deleted"] = sessions.MOVED_AWAY
        if wanted != stored:
            sessions.set_session_state(tx, session_id, wanted)


def _make_again(tx: Transaction, session_id: SessionId, history: list[Recorded]) -> None:
    own = [entry for entry in history if entry.session_seq]
    for entry in own:
        if isinstance(created := entry.event, SessionCreated):
            new = NewSession(
                session_id,
                created.cwd,
                created.additional_directories,
                created.persona,
                created.persona_identity,
                created.model,
                created.mode,
                parent=created.parent,
                fork_seq=created.fork_seq,
            )
            sessions.create_session(tx, new, seq=own[-1].seq, at_ms=entry.at_ms)
            turns = sum(isinstance(each.event, TurnStarted) for each in history)
            answers = sum(isinstance(each.event, MessageRecorded) for each in history)
            sessions.set_inherited(tx, session_id, prompts=turns, messages=turns + answers, seq=own[-1].seq)
            return


class Difference(Struct, frozen=True):
    """Difference between replay and record: the event, 0 for the session's row, and what differs."""

    index: int
    what: str
    recorded: str
    replayed: str


class ReplayReport(Struct, frozen=True):
    """Numbers of replayed events, checkpoints and requests, and the first difference."""

    events: int
    checkpoints: int
    requests: int
    difference: Difference | None = None


def replay(tx: Transaction, session_id: str) -> ReplayReport:
    """Replay a session from its events."""
    recorded = read_history(tx, session_id)
    own = [entry for entry in recorded if entry.session_seq]
    checkpoints = sum(isinstance(entry.event, CheckpointTaken) for entry in own)
    requests = sum(isinstance(entry.event, ModelRequested) and entry.event.number > 0 for entry in own)
    found = sorted([*_checkpoints(tx, session_id, own), *_requests(recorded)], key=lambda one: one.index)
    first = next(iter([*found, *_row(tx, session_id, recorded)]), None)
    return ReplayReport(len(own), checkpoints, requests, first)


def _checkpoints(tx: Transaction, session_id: str, own: list[Recorded]) -> Iterator[Difference]:
    for entry in own:
        if isinstance(entry.event, CheckpointTaken) and entry.event.position:
            found = event_hash(tx, session_id, entry.event.position) or "no event"
            if found != entry.event.state_hash:
                yield Difference(entry.session_seq, "the state hash of the checkpoint", entry.event.state_hash, found)


def _requests(recorded: list[Recorded]) -> Iterator[Difference]:
    settled: list[Message] = []
    since: list[Recorded] = []
    for place, entry in enumerate(recorded):
        event = entry.event
        if went_back([entry]):
            settled, since = [], active_events(recorded[: place + 1])
            continue
        if isinstance(event, ModelRequested) and event.number > 0 and entry.session_seq:
            count = len(history_of([each.event for each in since], settled))
            if count != event.message_count:
                what = "the number of messages in the request"
                yield Difference(entry.session_seq, what, str(event.message_count), str(count))
        since.append(entry)
        if isinstance(event, TurnEnded):
            settled, since = history_of([each.event for each in since], settled), []


def _row(tx: Transaction, session_id: str, recorded: list[Recorded]) -> Iterator[Difference]:
    for found in row_differences(tx, session_id, recorded):
        yield Difference(0, f"the {found.what} of the session", found.stored, found.replayed)
