"""Search across sessions: what was said, in which session and which turn of it.

Owns: the way from a passage to its turn. Must not know: how passages are found or ranked (memory/recall.py), or how a
hit is shown.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, SessionId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.journal.history import readable, turn_number
from pattern_acp.journal.sessions import SessionRow, get_session, list_sessions
from pattern_acp.memory.filters import EntryKind, Filters
from pattern_acp.memory.recall import SearchResult, message_owners, search
from pattern_acp.tools.base import SessionHit, ToolInputError, TurnQuery

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.state import SessionState

_ALL_SESSIONS = 10_000
_LAST_MS = 1 << 62


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


MOST_SESSIONS = 30
"""Sessions whose turns are looked through: the newest of the time, and as many older ones that the index leads to."""

MOST_PASSAGES = 200
"""Passages of the index that lead to older sessions, the best by words."""

_LINK = late_pattern(r"pattern-acp://session/(\w+)\?turn=(\d{1,9})")


class ProjectSessions:
    """`tools.base.SessionAccess`: the other sessions of one project, and never those of another."""

    def __init__(self, database: Database, project_key: str, cwd: str, session_id: SessionId, clock: Clock) -> None:
        """`session_id` is the one that asks; what was said in it is not looked for."""
        self._database = database
        self._project_key = project_key
        self._cwd = cwd
        self._session_id = session_id
        self._clock = clock

    async def turns(self, query: TurnQuery, limit: int) -> tuple[str, ...]:
        """See `SessionAccess.turns`."""
        # Late: most sessions look for nothing that was done.
        from pattern_acp.memory.words import query_terms
        from pattern_acp.session.past_turns import PastTurn, fits, listed, newest_first, past_turns

        first, last = self._bounds(query.days)
        words = query_terms(query.words) if query.words.strip() else ()

        def look(tx: Transaction) -> tuple[str, ...]:
            found: list[tuple[int, PastTurn]] = []
            for row in self._sessions(tx, query, first, last):
                turns = readable(partial(past_turns, tx, row.session_id, row.title), [])
                # The model is in the midst of its own last turn.
                for turn in turns[:-1] if row.session_id == self._session_id else turns:
                    count = fits(turn, words, query.path, done=query.done, said=query.said)
                    if first <= turn.at_ms <= last and count >= (1 if words else 0):
                        found.append((count, turn))
            best = max((count for count, _ in found), default=0)
            kept = newest_first(turn for count, turn in found if 2 * count >= best)
            return tuple(listed(turn) for turn in kept[:limit])

        return await self._database.read(look)

    def _sessions(self, tx: Transaction, query: TurnQuery, first: int, last: int) -> Sequence[SessionRow]:
        """The sessions of a time in which turns may fit: its newest, and older ones by the index of words."""
        every, _ = list_sessions(tx, cwd=self._cwd, cursor=None, limit=_ALL_SESSIONS, archived=None)
        rows = [row for row in every if row.updated_ms >= first and row.created_ms <= last]
        words, older = f"{query.words} {query.path}".strip(), rows[MOST_SESSIONS:]
        if not older or not words:
            return rows[:MOST_SESSIONS]
        kinds: tuple[EntryKind, ...] = (("call",) if query.done or query.path else ()) + (
            ("user", "assistant") if query.said else ()
        )
        filters = Filters((self._project_key,), kinds, since_ms=first, until_ms=last)
        best = search(tx, words, filters, limit=MOST_PASSAGES, now_ms=self._clock.now_ms())
        named = {one.source for one in best}
        return [*rows[:MOST_SESSIONS], *[row for row in older if row.session_id in named][:MOST_SESSIONS]]

    async def opened(self, uri: str, characters: int) -> str:
        """See `SessionAccess.opened`."""
        from pattern_acp.session.past_turns import past_turns, with_neighbours

        link = _LINK.search(uri)
        if link is None:
            return ""

        def look(tx: Transaction) -> str:
            row = get_session(tx, SessionId(link[1]))
            rows, _ = list_sessions(tx, cwd=self._cwd, cursor=None, limit=_ALL_SESSIONS, archived=None)
            if row is None or row.session_id not in {one.session_id for one in rows}:
                return ""
            turns = readable(partial(past_turns, tx, row.session_id, row.title), [])
            return with_neighbours(turns, int(link[2]), characters)

        return await self._database.read(look)

    def _bounds(self, days: str) -> tuple[int, int]:
        """The first and last millisecond of the days that a text names; of all time for none."""
        # Late, as above.
        from pattern_acp.memory.dates import day_at, days_named

        if not days.strip():
            return 0, _LAST_MS
        named = days_named(days, day_at(self._clock.now_ms(), None))
        if not named:
            sentence = "`when` names no day; write it like yesterday, last week, November or 2026-11-27."
            raise ToolInputError(sentence)
        bounds = [each.bounds(None) for each in named]
        return min(first for first, _ in bounds), max(last for _, last in bounds)

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


def sessions_of(shared: "Constellation", state: "SessionState") -> ProjectSessions:
    """The other sessions that the model of this one may search."""
    return ProjectSessions(shared.database, state.project_key, state.cwd, state.session_id, shared.clock)


def _hit(tx: Transaction, found: SearchResult) -> SessionHit | None:
    row = get_session(tx, SessionId(found.source))
    if row is None:
        return None
    turn = turn_number(tx, row.session_id, found.seq)
    text = " ".join(found.text.split())
    return SessionHit(row.session_id, row.title, row.cwd, turn, found.kind, text, found.at_ms)
