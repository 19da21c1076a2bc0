"""The sessions of one process: new, load, resume, list, close, delete."""

import logging
from collections.abc import Callable, Sequence

import anyio

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.events import Event, SessionClosed, SessionDeleted
from pattern_acp.journal.sessions import SessionRow
from pattern_acp.journal.writer import append
from pattern_acp.memory.recall import remove_source
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.errors import UnknownSessionError
from pattern_acp.session.opening import Opening, create_session, reopen_session
from pattern_acp.session.ports import Client
from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)

PAGE_SIZE = 50
CLOSE_SECONDS = 2.0
"""Longest that closing waits for a cancelled turn."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page of the list; `next_cursor` is None on the last."""

    rows: tuple[SessionRow, ...]
    next_cursor: str | None


class Sessions:
    """All sessions that this process has open, by id, over one constellation."""

    def __init__(self, constellation: Constellation, client: Client) -> None:
        self._constellation = constellation
        self._client = client
        self._open: dict[SessionId, Session] = {}
        self._opening = anyio.Lock()
        """One recorded session is opened at a time, or two loads of one would mix their replays."""

    @property
    def constellation(self) -> Constellation:
        """What the sessions share."""
        return self._constellation

    def get(self, session_id: str) -> Session:
        """The open session.

        Raises:
            UnknownSessionError: it is not open in this process.
        """
        session = self._open.get(SessionId(session_id))
        if session is None:
            raise unknown_session(session_id)
        return session

    def find(self, session_id: str) -> Session | None:
        """The open session, or None."""
        return self._open.get(SessionId(session_id))

    async def create(self, opening: Opening) -> Session:
        """A new session.

        Raises:
            InvalidRequestError: the folder is not absolute or does not exist.
            DatabaseError: it could not be recorded.
        """
        session = await create_session(self._constellation, self._client, opening)
        self._open[session.session_id] = session
        return session

    async def load(self, session_id: str, opening: Opening) -> Session:
        """Open a recorded session and replay it to the client before returning.

        Raises:
            UnknownSessionError: there is none, or it was deleted.
            LeaseHeldError: another process runs it.
        """
        async with self._opening:
            session, events = await self._reopen(session_id, opening, "load")
            await session.view.replay(events)
        return session

    async def resume(self, session_id: str, opening: Opening) -> Session:
        """Open a recorded session without replaying it; errors as for `load`."""
        async with self._opening:
            session, _ = await self._reopen(session_id, opening, "resume")
        return session

    async def list(self, cwd: str | None, cursor: str | None) -> SessionPage:
        """A page of the sessions that have a prompt, newest first.

        Raises:
            BadCursorError: the cursor is not one of ours.
        """
        rows, next_cursor = await self._constellation.database.read(
            lambda tx: sessions.list_sessions(tx, cwd=cwd, cursor=cursor, limit=PAGE_SIZE)
        )
        return SessionPage(tuple(rows), next_cursor)

    async def close(self, session_id: str) -> None:
        """Cancel and free the session; quiet when it is not open."""
        session = self._open.pop(SessionId(session_id), None)
        if session is None:
            return
        _begin_to_end(session)
        with anyio.move_on_after(CLOSE_SECONDS):
            await session.wait_until_idle()
        await _wait_for_children(session)
        await self._write_quietly(session.session_id, SessionClosed(), self._release)

    async def delete(self, session_id: str) -> None:
        """Close the session and take it off every list; quiet when there is none."""
        await self.close(session_id)
        await delete_session(self._constellation.database, session_id, now=self._constellation.clock.now_ms())

    async def cancel_all(self) -> None:
        """Cancel every turn and wait a bounded time for their ends; before shutdown."""
        for session in self._open.values():
            _begin_to_end(session)
        with anyio.move_on_after(CLOSE_SECONDS):
            for session in tuple(self._open.values()):
                await session.wait_until_idle()

    async def _reopen(self, session_id: str, opening: Opening, how: str) -> tuple[Session, Sequence[Event]]:
        # Off the table meanwhile: a prompt that comes now must not start on what is about to be replaced.
        already = self._open.pop(SessionId(session_id), None)
        try:
            if already is not None:
                already.cancel()
                if already.jobs is not None:
                    already.jobs.close()
                with anyio.move_on_after(CLOSE_SECONDS):
                    await already.wait_until_idle()
                if already.jobs is not None:
                    await already.jobs.wait_closed()
            session, events = await reopen_session(self._constellation, self._client, session_id, opening, how)
        except BaseException:
            if already is not None:
                self._open[already.session_id] = already
            raise
        if already is not None:
            already.mcp.servers.close()
        self._open[session.session_id] = session
        return session, events

    async def _write_quietly(
        self, session_id: SessionId, event: Event, then: Callable[[Transaction, SessionId], None]
    ) -> None:
        now = self._constellation.clock.now_ms()

        def write(tx: Transaction) -> None:
            append(tx, session_id, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
            then(tx, session_id)

        try:
            await self._constellation.database.write(write)
        except PatternError:
            logger.warning("the end of a session could not be recorded", exc_info=True)

    def _release(self, tx: Transaction, session_id: SessionId) -> None:
        leases.release(tx, session_id, self._constellation.holder)


async def delete_session(database: Database, session_id: str, *, now: int) -> bool:
    """Take a session off every list; False when there is none."""

    def write(tx: Transaction) -> bool:
        if sessions.get_session(tx, SessionId(session_id)) is None:
            return False
        appended = append(tx, session_id, SessionDeleted(), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
        sessions.mark_deleted(tx, SessionId(session_id), seq=appended.seq)
        remove_source(tx, session_id)
        return True

    return await database.write(write)


def _begin_to_end(session: Session) -> None:
    """Cancel the turn and tell what the session started to end; does not wait."""
    session.cancel()
    session.mcp.servers.close()
    if session.jobs is not None:
        session.jobs.close()


async def _wait_for_children(session: Session) -> None:
    await session.mcp.servers.wait_closed()
    if session.jobs is not None:
        await session.jobs.wait_closed()


def unknown_session(session_id: str) -> UnknownSessionError:
    """The error for an id that names no session."""
    shown = session_id if len(session_id) <= 80 else session_id[:80] + "…"
    return UnknownSessionError(f"Session not found: {shown}")
