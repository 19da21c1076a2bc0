"""Search across sessions: what was said, in which session and which turn of it.

Owns: the way from a passage to its turn. Must not know: how passages are found or ranked (memory/recall.py), or how a
hit is shown.
"""

from typing import TYPE_CHECKING

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.history import turn_number
from pattern_acp.journal.sessions import get_session
from pattern_acp.memory.filters import Filters
from pattern_acp.memory.recall import SearchResult, message_owners, search
from pattern_acp.tools.base import SessionHit

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


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


class ProjectSessions:
    """`tools.session_access.SessionAccess`: the other sessions of one project, and never those of another."""

    def __init__(self, database: Database, project_key: str, session_id: SessionId, clock: Clock) -> None:
        """`session_id` is the one that asks; what was said in it is not looked for."""
        self._database = database
        self._project_key = project_key
        self._session_id = session_id
        self._clock = clock

    async def search(self, query: str, limit: int) -> tuple[SessionHit, ...]:
        """See `SessionAccess.search`."""
        return await search_sessions(
            self._database,
            query,
            limit,
            now=self._clock.now_ms(),
            owner=self._project_key,
            exclude=self._session_id,
        )


def sessions_of(session: "Session") -> ProjectSessions:
    """The other sessions that the model of this one may search."""
    shared, state = session.constellation, session.state
    return ProjectSessions(shared.database, state.project_key, state.session_id, shared.clock)


def _hit(tx: Transaction, found: SearchResult) -> SessionHit | None:
    row = get_session(tx, SessionId(found.source))
    if row is None:
        return None
    turn = turn_number(tx, row.session_id, found.seq)
    text = " ".join(found.text.split())
    return SessionHit(row.session_id, row.title, row.cwd, turn, found.kind, text, found.at_ms)
