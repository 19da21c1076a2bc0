"""Search across sessions, and their turns as they went: the prompt, what was done, and the answer.

Owns: the way from a passage to its turn; reading turns from the journal, finding those that fit, and their words for a
model. Must not know: how passages are found or ranked (memory/recall.py), or how a hit is shown. The search index only
leads to sessions: what is reported is in the journal, without what was redacted.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor
from pattern_acp.domain.clock import Clock, SessionId, local_minute
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    Event,
    MessageRecorded,
    SessionRewound,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.history import active_events, readable, turn_number
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.sessions import SessionRow, get_session, list_sessions
from pattern_acp.memory.recall import SearchResult, message_owners, search
from pattern_acp.memory.search_terms import EntryKind, Filters
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
        from pattern_acp.memory.search_terms import query_terms

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


_KINDS: tuple[type[Event], ...] = (TurnStarted, MessageRecorded, ToolCallStarted, ToolCallFinished, SessionRewound)

_CHANGES = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE, ToolKind.EXECUTE})
"""Kinds of calls that do something; others only look."""

_HEAD = 120
"""Characters of a command or of a line of its output."""

_SAID = 600
"""Characters of a prompt or answer in a list of turns."""

MOST_DEEDS = 12
"""Deeds of a turn in a list."""


class Deed(Struct, frozen=True):
    """One tool call that ended: its title and result in a line, the files that it named, and what it was."""

    text: str
    paths: tuple[str, ...] = ()
    changes: bool = False
    is_command: bool = False

    @property
    def searched(self) -> str:
        """The words by which it is found."""
        # Late: its patterns are needed once somebody searches.
        from pattern_acp.memory.secrets import mask_secrets

        return "\n".join((mask_secrets(self.text), *(path for path in self.paths if path not in self.text)))


class PastTurn(Struct):
    """One turn. `number` counts prompts from 1; times are milliseconds since 1970-01-01 UTC."""

    session_id: str
    title: str
    number: int
    at_ms: int
    prompt: str
    deeds: list[Deed] = field(default_factory=list[Deed])
    answers: list[str] = field(default_factory=list[str])

    @property
    def uri(self) -> str:
        """The link that opens it."""
        return f"pattern-acp://session/{self.session_id}?turn={self.number}"

    @property
    def answer(self) -> str:
        """The last that the model said in it."""
        return self.answers[-1] if self.answers else ""


def past_turns(tx: Transaction, session_id: str, title: str, *, since_ms: int = 0) -> list[PastTurn]:
    """The turns of a session that still count, oldest first; slash commands are none."""
    turns: list[PastTurn] = []
    calls: dict[str, ToolCallView] = {}
    for entry in active_events(read_stream(tx, session_id, kinds=_KINDS)):
        match entry.event:
            case TurnStarted(message=message, command=command) if not command:
                number = turns[-1].number + 1 if turns else turn_number(tx, session_id, entry.seq)
                turns.append(PastTurn(session_id, title, number, entry.at_ms, message.words))
            case MessageRecorded(message=message, for_model=True) if turns and message.text.strip():
                turns[-1].answers.append(message.text)
            case ToolCallStarted(call=call) if entry.actor is not Actor.SYSTEM:
                # Not what was recalled or compacted, which is shown as a call, too.
                calls[call.call_id] = call
            case ToolCallFinished() as finished if turns and finished.call_id in calls:
                turns[-1].deeds.append(deed_of(calls[finished.call_id], finished))
            case _:
                pass
    return [turn for turn in turns if turn.at_ms >= since_ms]


def deed_of(call: ToolCallView, finished: ToolCallFinished) -> Deed:
    """Describe a call that ended."""
    # Late: as above.
    from pattern_acp.memory.secrets import mask_secrets

    locations = (*call.locations, *finished.locations)
    paths = tuple(dict.fromkeys(location.path for location in locations))
    title = one_line(finished.title or call.title, _HEAD)
    failed = finished.shown_status is ToolCallStatus.FAILED
    changes = call.kind in _CHANGES and (not failed or call.kind is ToolKind.EXECUTE)
    if call.kind is not ToolKind.EXECUTE:
        return Deed(f"{title} (failed)" if failed else title, paths, changes)
    lines = [line for line in finished.result_text.splitlines() if line.strip()]
    # How it ended is in the first line, what came of it in the last, as for tests and builds.
    ends = dict.fromkeys((*lines[:1], *lines[-1:]))
    result = " … ".join(one_line(mask_secrets(line), _HEAD) for line in ends)
    return Deed(f"`{title}`: {result}" if result else f"`{title}`", paths, changes, is_command=True)


def fits(turn: PastTurn, words: Sequence[str], path: str, *, done: bool, said: bool) -> int:
    """Number of the words that the turn has, as said or as done; -1 where it is not about the path."""
    if path and not any(path in known for deed in turn.deeds for known in (*deed.paths, deed.text)):
        return -1
    parts = ([turn.prompt, *turn.answers] if said else []) + ([deed.text for deed in turn.deeds] if done else [])
    text = "\n".join(parts).casefold()
    return sum(word in text for word in words)


def listed(turn: PastTurn, *, whole: bool = False) -> str:
    """A turn for a model: when it was, what was asked, done and answered; `whole` with nothing left out."""
    head = f"[{one_line(turn.title or 'Untitled')}, turn {turn.number}, {local_minute(turn.at_ms)}; {turn.uri}]"
    deeds = [deed for deed in turn.deeds if whole or deed.changes]
    shown = deeds if whole else deeds[:MOST_DEEDS]
    looks = len(turn.deeds) - len(deeds)
    lines = [head, f"The user: {_cut(turn.prompt, whole=whole)}"]
    lines += [f"Done: {deed.text}" for deed in shown]
    lines += [f"Done: {len(deeds) - len(shown)} more"] if len(deeds) > len(shown) else []
    lines += [f"Looked at things in {plural(looks, 'call')}."] if looks else []
    answers = turn.answers if whole else [turn.answer]
    lines += [f"The agent: {_cut(answer, whole=whole)}" for answer in answers if answer]
    return "\n".join(lines)


def _cut(text: str, *, whole: bool) -> str:
    flat = text.strip() if whole else " ".join(text.split())
    return flat if whole or len(flat) <= _SAID else f"{flat[: _SAID - 1]}…"


def with_neighbours(turns: Sequence[PastTurn], number: int, limit: int) -> str:
    """One turn whole, the one before and the one behind it as in a list, in at most so many characters."""
    at = next((place for place, turn in enumerate(turns) if turn.number == number), None)
    if at is None:
        return ""
    before, behind = turns[max(at - 1, 0) : at], turns[at + 1 : at + 2]
    around = [*map(listed, before), "", *map(listed, behind)]
    room = max(limit - sum(map(len, around)) - 100, 1_000)
    opened = cut_middle(listed(turns[at], whole=True), room).text
    return "\n\n".join(filter(None, (*map(listed, before), opened, *map(listed, behind))))


def newest_first(turns: Iterable[PastTurn]) -> list[PastTurn]:
    """The turns, the latest first."""
    return sorted(turns, key=lambda turn: (turn.at_ms, turn.number), reverse=True)
