"""Streams, and the newest event of each.

Owns: the newest events of a stream and of all streams. Must not know: what the events say.
"""

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.redact import newest_event
from pattern_acp.journal.writer import CONSTELLATION_STREAM, FIRST_PREV_HASH

QUERIES = load_queries("pattern_acp.journal")


class StreamPosition(Struct, frozen=True):
    """The newest event of a stream: its place there and its hash; and the newest event of all streams."""

    session_seq: int
    hash: str
    global_seq: int


class EventHead(Struct, frozen=True):
    """An event without what it says; `size` is that of its payload in bytes."""

    seq: int
    stream: str
    session_seq: int
    at_ms: int
    kind: str
    actor: str
    origin: str
    item: str
    size: int


def stream_position(tx: Transaction, stream: str) -> StreamPosition:
    """The position of `stream` now; 0 and the first hash when it is empty."""
    head = tx.one(QUERIES["stream_head"], {"stream": stream})
    place, chained = (integer(head[0]), text(head[1])) if head else (0, FIRST_PREV_HASH)
    return StreamPosition(place, chained, newest_event(tx))


def streams_by_use(tx: Transaction, *, limit: int) -> tuple[SessionId, ...]:
    """The sessions that were used last, the newest first, deleted ones too."""
    return tuple(SessionId(text(row[0])) for row in tx.all(QUERIES["streams_by_use"], {"limit": limit}))


def is_stream(tx: Transaction, stream: str) -> bool:
    """Return whether anything was recorded in a stream."""
    return tx.one(QUERIES["is_stream"], {"stream": stream}) is not None


def event_hash(tx: Transaction, stream: str, session_seq: int) -> str | None:
    """The hash of an event by its place in its stream; None when there is none."""
    row = tx.one(QUERIES["event_hash"], {"stream": stream, "session_seq": session_seq})
    return None if row is None else text(row[0])


def newest_heads(tx: Transaction, stream: str | None, *, after: int, limit: int) -> tuple[EventHead, ...]:
    """The newest events of a stream, or of all, behind the event number `after` of all streams; oldest first."""
    rows = tx.all(QUERIES["tail_of_stream"], {"stream": stream, "after": after, "limit": limit})
    return tuple(
        EventHead(
            integer(row[0]),
            text(row[1]),
            integer(row[2]),
            integer(row[3]),
            text(row[4]),
            text(row[5]),
            text(row[6]),
            text(row[7]),
            integer(row[8]),
        )
        for row in rows
    )


def session_streams(tx: Transaction) -> tuple[SessionId, ...]:
    """The streams of sessions, oldest first, deleted ones too."""
    streams = (text(row[0]) for row in tx.all(QUERIES["all_streams"]))
    return tuple(SessionId(stream) for stream in streams if stream != CONSTELLATION_STREAM)
