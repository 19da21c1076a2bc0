"""Replaying a session: everything that follows from its events is worked out anew and compared. It calls nobody.

Owns: what is compared. Must not know: how it is shown. Compared are the chain's hash at each checkpoint, the number of
messages of each model request with the conversation that the events before it make, and the session's row.
"""

from collections.abc import Iterator

from msgspec import Struct

from pattern_acp.context.history import history_of
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.messages import Message
from pattern_acp.journal.events import (
    CheckpointTaken,
    ModelRequested,
    TurnEnded,
)
from pattern_acp.journal.history import active_events, read_history, went_back
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.streams import event_hash
from pattern_acp.session.row_state import row_differences


class Difference(Struct, frozen=True):
    """Where the replay is not what was recorded: the event, 0 for the session's row, and what of it."""

    index: int
    what: str
    recorded: str
    replayed: str


class ReplayReport(Struct, frozen=True):
    """What was replayed, and the first difference."""

    events: int
    checkpoints: int
    requests: int
    difference: Difference | None = None


def replay(tx: Transaction, session_id: str) -> ReplayReport:
    """Replay a session from its events.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the file cannot be read.
    """
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
