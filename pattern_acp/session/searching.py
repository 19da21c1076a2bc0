"""Search across sessions: what was said, in which session and which turn of it.

Owns: the way from a passage to its turn. Must not know: how passages are found or ranked (memory/recall.py), or how a
hit is shown.
"""

from datetime import UTC, datetime

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.journal.ancestry import turn_number
from pattern_acp.journal.sessions import get_session
from pattern_acp.memory.filters import Filters
from pattern_acp.memory.recall import Found, message_owners, search


@dataclass(frozen=True, slots=True)
class SessionHit:
    """Something that was said, in a turn of a session, counted from 1. `speaker` is `user` or `assistant`."""

    session_id: SessionId
    title: str
    cwd: str
    turn: int
    speaker: str
    text: str
    at_ms: int

    @property
    def uri(self) -> str:
        """Names the session and the turn; a client that knows the scheme can open it."""
        return f"pattern-acp://session/{self.session_id}?turn={self.turn}"

    @property
    def day(self) -> str:
        """The date, UTC."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%d")


async def search_sessions(
    database: Database, query: str, limit: int, *, now: int, owner: str = "", exclude: str = ""
) -> tuple[SessionHit, ...]:
    """The best passages of messages for `query`, best first; of one project with `owner`, else of all.

    Any input is safe; without a word in it nothing is found.

    Raises:
        DatabaseError: the constellation cannot be read.
    """

    def look(tx: Transaction) -> tuple[SessionHit, ...]:
        owners = (owner,) if owner else message_owners(tx)
        filters = Filters(owners, ("user", "assistant"), exclude_session=exclude)
        found = search(tx, query, filters, limit=limit, now_ms=now)
        return tuple(hit for one in found if (hit := _hit(tx, one)) is not None)

    return await database.read(look)


def _hit(tx: Transaction, found: Found) -> SessionHit | None:
    row = get_session(tx, SessionId(found.source))
    if row is None:
        return None
    turn = turn_number(tx, row.session_id, found.seq)
    text = " ".join(found.text.split())
    return SessionHit(row.session_id, row.title, row.cwd, turn, found.kind, text, found.at_ms)
