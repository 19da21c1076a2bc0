"""How tools reach what was said in other sessions.

Owns: the port, and what a hit is. Must not know: how passages are found or ranked.
"""

from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from pattern_acp.domain.ids import SessionId


class SessionHit(Struct, frozen=True):
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
    def name(self) -> str:
        """The session's title and the turn, on one line."""
        return f"{' '.join(self.title.split()) or 'Untitled'}, turn {self.turn}"

    @property
    def day(self) -> str:
        """The date, UTC."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%d")


class SessionAccess(Protocol):
    """The other sessions of the session's project."""

    async def search(self, query: str, limit: int) -> tuple[SessionHit, ...]:
        """The best passages of their messages for `query`, best first. Any input is safe.

        Raises:
            DatabaseError: the constellation cannot be read.
        """
        ...
