"""Where a stream has come to.

Owns: the newest event of a stream and of all streams. Must not know: what the events say.
"""

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.journal.chain import FIRST_PREV_HASH
from pattern_acp.journal.redact import newest_event

QUERIES = load_queries("pattern_acp.journal")


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The newest event of a stream: its place there and its hash; and the newest event of all streams."""

    session_seq: int
    hash: str
    global_seq: int


def stream_position(tx: Transaction, stream: str) -> StreamPosition:
    """Where `stream` is now; 0 and the first hash when it is empty."""
    head = tx.one(QUERIES["stream_head"], {"stream": stream})
    place, chained = (integer(head[0]), text(head[1])) if head else (0, FIRST_PREV_HASH)
    return StreamPosition(place, chained, newest_event(tx))
