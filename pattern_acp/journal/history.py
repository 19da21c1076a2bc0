"""The history of a session, with what it shares with the session that it was forked from.

Owns: walking from a fork to its parents, whose events are not copied; which events still make up the conversation after
the user went back; reading what can be read of a damaged file. Must not know: what a session is forked for, or what the
events mean. A parent may be deleted: its events stay for its forks.

A `SessionRewound` with `back_to` N makes the conversation what it was behind event N. What lies between stays in the
stream as a branch: the conversation behind any event is available with `upto`, also one that was dropped later, which
is how a rewind is undone and how a dropped branch is opened.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import DatabaseError, JournalError
from pattern_acp.journal.events import CheckpointTaken, Event, SessionRewound, SubagentRecorded, TurnEnded
from pattern_acp.journal.reader import Recorded, count_prompts, is_prompt, read_stream
from pattern_acp.journal.redact import is_redacted_after, newest_redaction


def active_events(recorded: Sequence[Recorded], *, upto: int | None = None) -> list[Recorded]:
    """The events of the conversation, in order.

    `recorded` is a stream from its beginning. `upto` is the `session_seq` of the event behind which the conversation is
    wanted; None for the newest.
    """
    active: list[Recorded] = []
    limit = upto
    for entry in reversed(recorded):
        if limit is not None and entry.session_seq > limit:
            continue
        active.append(entry)
        if isinstance(entry.event, SessionRewound) and entry.event.back_to is not None:
            limit = entry.event.back_to
    active.reverse()
    return active


def went_back(recorded: Sequence[Recorded]) -> bool:
    """Return whether one of these events changes which of the events before it count."""
    return any(isinstance(entry.event, SessionRewound) and entry.event.back_to is not None for entry in recorded)


QUERIES = load_queries("pattern_acp.journal")

_NEAR = 20
"""Events behind a turn's end among which its checkpoint is looked for; commands in the background may end between."""


class Ancestor(Struct, frozen=True):
    """A session whose history another continues with, up to its event number `seq`, the `session_seq`-th of its own."""

    session_id: SessionId
    session_seq: int
    seq: int


def ancestors(tx: Transaction, session_id: str) -> tuple[Ancestor, ...]:
    """The sessions that a session was forked from, the nearest first; none for one that began on its own."""
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
    """
    own = read_stream(tx, session_id, after=after, kinds=kinds)
    return own if after else [*_shared(tx, ancestors(tx, session_id), kinds), *own]


def read_lineage(tx: Transaction, session_id: str) -> list[Recorded]:
    """All events of the session, behind those of what it was forked from as far as it goes, also of dropped turns.

    In the order of `seq`; `session_seq` is the place in the stream of each one's own. The checkpoint of the turn behind
    which a fork began belongs to that turn, although it follows the turn's end.
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
    """The place of an event; None when there is none of that number."""
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
    """The number of the turn that an event belongs to, from 1, counted as everywhere (see `turn_ids`).

    Slash commands belong to the turn before them.
    """
    shared = _shared(tx, ancestors(tx, session_id))
    before = sum(is_prompt(entry.event) for entry in shared if entry.seq <= seq)
    return max(before + count_prompts(tx, session_id, upto_seq=seq), 1)


def turn_ids(tx: Transaction, session_id: str) -> list[str]:
    """The ids of the session's turns, of which the first has the number 1.

    Counted are prompts, not slash commands: those that the session shares with what it was forked from, then its own,
    also those that the user went back behind.
    """
    return [entry.item for entry in read_history(tx, session_id) if is_prompt(entry.event)]


def _shared(tx: Transaction, lineage: tuple[Ancestor, ...], kinds: Sequence[type[Event]] = ()) -> list[Recorded]:
    history: list[Recorded] = []
    # These say how far the user went back.
    wanted = (*kinds, SessionRewound) if kinds else ()
    for ancestor in reversed(lineage):
        history += read_stream(tx, ancestor.session_id, upto=ancestor.session_seq, kinds=wanted)
        active = active_events(history, upto=ancestor.session_seq)
        history = [replace(entry, session_seq=0) for entry in active]
    return history


def newest_redaction_of_history(tx: Transaction, session_id: str, *, after: int) -> int:
    """The number of the event behind the newest redaction of the session or of what it shares; `after` for none."""
    if not is_redacted_after(tx, after):
        return after
    streams = (session_id, *(ancestor.session_id for ancestor in ancestors(tx, session_id)))
    return max(newest_redaction(tx, stream, after=after) for stream in streams)


def with_subagent_events(events: Iterable[Event]) -> Iterator[Event]:
    """The events of a session with those of its subagents among them, each in its place."""
    for event in events:
        yield event.event if isinstance(event, SubagentRecorded) else event


T = TypeVar("T")


def readable(read: Callable[[], T], otherwise: T) -> T:
    """The result of `read`, or `otherwise` where the file is damaged."""
    try:
        return read()
    except (DatabaseError, JournalError):
        return otherwise


def readable_history(tx: Transaction, session_id: str) -> list[Recorded]:
    """The events of `read_history` that can be read."""
    nobody: tuple[Ancestor, ...] = ()
    history: list[Recorded] = []
    for ancestor in reversed(readable(lambda: ancestors(tx, session_id), nobody)):
        history += _readable_stream(tx, ancestor.session_id, ancestor.session_seq)
        history = [replace(entry, session_seq=0) for entry in active_events(history, upto=ancestor.session_seq)]
    return [*history, *_readable_stream(tx, session_id, None)]


def _readable_stream(tx: Transaction, stream: str, upto: int | None) -> list[Recorded]:
    # Their places are in an index, which is another part of the file than the events.
    rows = readable(lambda: tx.all(QUERIES["places_of_stream"], {"stream": stream}), ())
    places = [integer(row[0]) for row in rows]
    found: list[Recorded] = []
    for place in places:
        if upto is None or place <= upto:
            found += readable(lambda place=place: read_stream(tx, stream, after=place - 1, upto=place), [])
    return found
