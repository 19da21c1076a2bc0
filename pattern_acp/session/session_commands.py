"""Slash commands about sessions: /rename, /archive, /fork, /search, /undelete.

Owns: what they take and answer. Must not know: how a session is stored (session/stored.py) or searched
(session/searching.py).
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal import sessions
from pattern_acp.journal.events import SessionTitled
from pattern_acp.rewind.forks import fork_session
from pattern_acp.session.searching import search_sessions
from pattern_acp.session.stored import DAY_MS, archive_session, clean_title, restore_session
from pattern_acp.tools.base import SessionHit
from pattern_acp.turn.sink import Fact

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FOUND = 10
"""Most sessions that /search names."""


async def run_rename(session: "Session", argument: str) -> str:
    """Give the session another title; the editor is told at once."""
    title = clean_title(argument)
    await session.sink.record(Fact(SessionTitled(title), Actor.HUMAN, Origin.PERSON))
    session.state.title = title
    return f"This session is now called “{title}”."


async def run_archive(session: "Session", argument: str) -> str:
    """Put the session away."""
    if argument:
        raise CommandMisusedError("/archive takes nothing behind it; it puts this session away.")
    shared = session.constellation
    await archive_session(shared.database, session.session_id, archived=True, now=shared.clock.now_ms())
    return "This session is put away: lists leave it out until its next prompt. `/search` still finds it."


async def run_fork(session: "Session", argument: str) -> str:
    """Begin another session with this one's history."""
    shared = session.constellation
    fork = await fork_session(shared.database, session.session_id, argument, clock=shared.clock, ids=shared.ids)
    from pattern_acp.session.rewind_text import fork_sentence

    return fork_sentence(fork)


async def run_search(session: "Session", argument: str) -> str:
    """Find what was said in any session."""
    if not argument:
        raise CommandMisusedError("Say what to look for: /search WORDS.")
    shared = session.constellation
    hits = await search_sessions(shared.database, argument, FOUND, now=shared.clock.now_ms())
    if not hits:
        return f"No session has anything about “{argument}”."
    return "\n".join(hit_line(hit) for hit in hits)


def hit_line(hit: SessionHit) -> str:
    """A hit in Markdown; the link opens the session in a client that knows the scheme."""
    return f"- [{hit.name}]({hit.uri}) ({hit.day}, {hit.speaker}): {hit.text}"


async def run_undelete(session: "Session", argument: str) -> str:
    """Bring a deleted session back, or list those that can be."""
    shared = session.constellation
    now, days = shared.clock.now_ms(), shared.settings.retention.deleted_days
    if argument:
        await restore_session(shared.database, argument, now=now, days=days)
        row = await shared.database.read(lambda tx: sessions.get_session(tx, SessionId(argument)))
        return f"“{row.title if row is not None else argument}” is back in the list."
    since_ms = now - days * DAY_MS
    rows = await shared.database.read(lambda tx: sessions.deleted_sessions(tx, since_ms=since_ms, limit=FOUND))
    if not rows:
        return f"No session was deleted in the last {days} days."
    lines = [f"- `{row.session_id}` {row.title or 'Untitled'} ({row.cwd})" for row in rows]
    return "\n".join(["Deleted, newest first; `/undelete ID` brings one back:", *lines])
