"""Reading what can still be read of a session in a damaged file.

Owns: going on behind events that cannot be read. Must not know: what is done with them; nothing is ever written here.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.errors import DatabaseError, JournalError
from pattern_acp.journal.ancestry import Ancestor, ancestors
from pattern_acp.journal.kept import kept_events
from pattern_acp.journal.reader import Recorded, read_stream

QUERIES = load_queries("pattern_acp.journal")

T = TypeVar("T")


def readable(read: Callable[[], T], otherwise: T) -> T:
    """What `read` gives, or `otherwise` where the file is damaged."""
    try:
        return read()
    except (DatabaseError, JournalError):
        return otherwise


def readable_history(tx: Transaction, session_id: str) -> list[Recorded]:
    """The events of `journal.ancestry.read_history` that can be read."""
    nobody: tuple[Ancestor, ...] = ()
    history: list[Recorded] = []
    for ancestor in reversed(readable(lambda: ancestors(tx, session_id), nobody)):
        history += _readable_stream(tx, ancestor.session_id, ancestor.session_seq)
        history = [replace(entry, session_seq=0) for entry in kept_events(history, upto=ancestor.session_seq)]
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
