"""The history of a session, with what it shares with the session that it was forked from.

Owns: walking from a fork to its parents, whose events are not copied. Must not know: what a session is forked for, or
what the events mean. A parent may be deleted: its events stay for its forks.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.events import CheckpointTaken, Event, SessionRewound, TurnEnded
from pattern_acp.journal.kept import kept_events
from pattern_acp.journal.reader import Recorded, count_prompts, is_prompt, read_stream
from pattern_acp.journal.redact import newest_redaction

QUERIES = load_queries("pattern_acp.journal")

_NEAR = 20
"""Events behind a turn's end among which its checkpoint is looked for; commands in the background may end between."""


class Ancestor(Struct, frozen=True):
    """A session whose history another goes on with, up to its event number `seq`, the `session_seq`-th of its own."""

    session_id: SessionId
    session_seq: int
    seq: int


def ancestors(tx: Transaction, session_id: str) -> tuple[Ancestor, ...]:
    """What the session was forked from, the nearest first; nothing for a session that began by itself."""
    found: list[Ancestor] = []
    current = session_id
    while (row := tx.one(QUERIES["fork_of"], {"id": current})) is not None:
        ancestor = Ancestor(SessionId(text(row[0])), integer(row[1]), integer(row[2]))
        found.append(ancestor)
        current = ancestor.session_id
    return tuple(found)


def read_history(
    tx: Transaction, session_id: str, *, after: int = 0, kinds: Sequence[type[Event]] = ()
) -> list[Recorded]:
    """The events of the session, behind those of the conversation that it was forked with.

    The shared ones have the `session_seq` 0, since they have no place in this session's stream. With `after`, only the
    session's own events behind that `session_seq`. With `kinds`, only these.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the file cannot be read.
    """
    own = read_stream(tx, session_id, after=after, kinds=kinds)
    return own if after else [*_shared(tx, ancestors(tx, session_id), kinds), *own]


def read_lineage(tx: Transaction, session_id: str) -> list[Recorded]:
    """All events of the session, behind those of what it was forked from as far as it goes, also of dropped turns.

    In the order of `seq`; `session_seq` is the place in the stream of each one's own. The checkpoint of the turn behind
    which a fork began belongs to that turn, although it stands behind the turn's end.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the file cannot be read.
    """
    found: list[Recorded] = []
    for ancestor in reversed(ancestors(tx, session_id)):
        entries = read_stream(tx, ancestor.session_id, upto=ancestor.session_seq + _NEAR)
        shared = [entry for entry in entries if entry.session_seq <= ancestor.session_seq]
        ended = next((e.event.turn_id for e in reversed(shared) if isinstance(e.event, TurnEnded)), None)
        found += shared
        found += [e for e in entries[len(shared) :] if _closes(e.event, ended)]
    return [*found, *read_stream(tx, session_id)]


def _closes(event: Event, turn_id: str | None) -> bool:
    return isinstance(event, CheckpointTaken) and event.cause == "turn" and event.turn_id == turn_id


class EventPlace(Struct, frozen=True):
    """An event: its number, the session whose stream has it, and its hash."""

    seq: int
    stream: SessionId
    hash: str


def place_of_event(tx: Transaction, seq: int) -> EventPlace | None:
    """Where an event is; None when there is none of that number."""
    row = tx.one(QUERIES["event_place"], {"seq": seq})
    return None if row is None else EventPlace(seq, SessionId(text(row[0])), text(row[1]))


def end_of_turn(tx: Transaction, session_id: str, turn_id: str) -> int | None:
    """The event that ended a turn of the session or of what it shares, also of a turn that was dropped since."""
    for stream in (session_id, *(ancestor.session_id for ancestor in ancestors(tx, session_id))):
        row = tx.one(QUERIES["turn_end"], {"stream": stream, "turn_id": storable(turn_id)})
        if row is not None:
            return integer(row[0])
    return None


def turn_number(tx: Transaction, session_id: str, seq: int) -> int:
    """Which turn of the session an event belongs to, from 1, counted as everywhere (see `turn_ids`).

    Slash commands belong to the turn before them.
    """
    shared = _shared(tx, ancestors(tx, session_id))
    before = sum(is_prompt(entry.event) for entry in shared if entry.seq <= seq)
    return max(before + count_prompts(tx, session_id, upto_seq=seq), 1)


def turn_ids(tx: Transaction, session_id: str) -> list[str]:
    """The ids of the session's turns, of which the first has the number 1.

    Counted are prompts, not slash commands: those that the session shares with what it was forked from, then its own,
    also those that the person went back behind.
    """
    return [entry.item for entry in read_history(tx, session_id) if is_prompt(entry.event)]


def _shared(tx: Transaction, lineage: tuple[Ancestor, ...], kinds: Sequence[type[Event]] = ()) -> list[Recorded]:
    history: list[Recorded] = []
    # What was gone back behind is known by these.
    wanted = (*kinds, SessionRewound) if kinds else ()
    for ancestor in reversed(lineage):
        history += read_stream(tx, ancestor.session_id, upto=ancestor.session_seq, kinds=wanted)
        kept = kept_events(history, upto=ancestor.session_seq)
        history = [replace(entry, session_seq=0) for entry in kept]
    return history


def newest_redaction_of_history(tx: Transaction, session_id: str, *, after: int) -> int:
    """The number of the event behind the newest redaction of the session or of what it shares; `after` for none."""
    streams = (session_id, *(ancestor.session_id for ancestor in ancestors(tx, session_id)))
    return max(newest_redaction(tx, stream, after=after) for stream in streams)
