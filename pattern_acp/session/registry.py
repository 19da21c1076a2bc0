"""The sessions of one process: new, load, resume, list, close, delete."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.journal import leases, sessions
from pattern_acp.journal.codec import LeaseHeldError, LeaseLostError
from pattern_acp.journal.events import Event, PlanUpdated, SessionClosed, SessionTitled
from pattern_acp.journal.sessions import PAGE_SIZE, ListedSession, PageWanted, SessionPage, read_page, with_details
from pattern_acp.journal.writer import append
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.opening import Opening, Reopening, create_session, shown
from pattern_acp.session.ports import Client, FolderUnusableError, SessionBusyError, UnknownSessionError
from pattern_acp.session.session import Session
from pattern_acp.tasks.presence import works_on_task

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 2.0
"""Longest that closing waits for a cancelled turn."""


LOOK_SECONDS = 1.0
"""Longest that a list waits for the disk."""


def _merged(page: SessionPage, others: Sequence[SessionPage]) -> SessionPage:
    """One page of those of several constellations, that begin at the same place."""
    by_id = {one.row.session_id: one for each in (*others, page) for one in each.rows}
    rows = sorted(by_id.values(), key=lambda one: (one.row.updated_ms, one.row.session_id), reverse=True)
    shown = tuple(rows[:PAGE_SIZE])
    is_last = len(rows) <= PAGE_SIZE and not any(each.next_cursor for each in (page, *others))
    return SessionPage(shown, None if is_last else sessions.cursor_behind(shown[-1].row))


class Sessions:
    """All sessions that this process has open, by id, over one constellation."""

    def __init__(self, constellation: Constellation, client: Client) -> None:
        self._constellation = constellation
        self.client = client
        self._open: dict[SessionId, Session] = {}
        """By the id that the client uses."""
        self._openings: dict[SessionId, Opening] = {}
        self._opening = anyio.Lock()
        """One recorded session is opened at a time, or two loads of one would mix their replays."""

    @property
    def constellation(self) -> Constellation:
        """The constellation that the sessions share."""
        return self._constellation

    @property
    def with_subagents(self) -> tuple[Session, ...]:
        """Those whose subagents run now, in the foreground or beside it."""
        return tuple(each for each in self._open.values() if each.subagents)

    @property
    def answering(self) -> tuple[Session, ...]:
        """Those that run a turn now."""
        return tuple(each for each in self._open.values() if each.is_answering)

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
        session = await create_session(self._constellation, self.client, opening)
        self._open[session.session_id] = session
        self._openings[session.session_id] = opening
        return session

    async def load(self, session_id: str, opening: Opening) -> Session:
        """Open a recorded session and replay it to the client before returning.

        One that another window has is only shown: its next prompt asks where to continue (session/session_conflict.py).

        Raises:
            UnknownSessionError: there is none, or it was deleted.
            InvalidRequestError: it is answering a prompt here.
        """
        return await self.open(session_id, opening, Reopening("load", SessionId(session_id)))

    async def resume(self, session_id: str, opening: Opening) -> Session:
        """Open a recorded session without replaying it; errors and windows as for `load`.

        Its plan is shown: the model reads it again, and the client may have forgotten it.
        """
        async with self._opening:
            session, events = await self._reopen(session_id, opening, Reopening("resume", SessionId(session_id)))
            plan = next((event for event in reversed(events) if isinstance(event, PlanUpdated)), None)
            if plan is not None:
                await session.view.show(plan)
            await self._show_task(session, events)
        return session

    async def open(self, session_id: str, opening: Opening, how: Reopening, *, only_read: bool = False) -> Session:
        """Open a recorded session as `how` says and replay it; with `only_read`, leave it as it is.

        Raises:
            UnknownSessionError: there is none, or it was deleted.
            InvalidRequestError: it is answering a prompt here.
        """
        async with self._opening:
            shown = 0

            async def begin(first: Sequence[Event]) -> None:
                nonlocal shown
                shown = await self.client.view(how.client_id).replay_beginning(first)

            session, events = await self._reopen(session_id, opening, how, begin, only_read=only_read)
            await session.view.replay(events, shown=shown)
            await self._show_task(session, events)
            from pattern_acp.session.context_usage import is_outdated, show_context

            if is_outdated(events):
                await show_context(session.dialogue)
        return session

    async def _show_task(self, session: Session, replayed: Sequence[Event] = ()) -> None:
        """Show the steps of the session's task as they are now, unless the replay ended with them."""
        database = self._constellation.database
        if not await database.read(lambda tx: works_on_task(tx, session.session_id)):
            return
        # Late: most sessions work on no task.
        from pattern_acp.session.task_commands import show_task

        await show_task(session.dialogue, replayed)

    async def replace(self, session: Session, source_id: SessionId, how: Reopening) -> Session:
        """Continue where `session` cannot: with the recorded session `source_id`, under the client's id for `session`.

        Raises:
            UnknownSessionError: it was deleted meanwhile.
            LeaseHeldError: another window took it, and `how` does not say to take it over.
        """
        # Late, as all that only recorded sessions need: most processes begin with a new one.
        from pattern_acp.session.reopening import reopen_session

        client_id = session.state.client_id
        opening = self._openings[client_id]
        async with self._opening:
            replacement, _ = await reopen_session(self._constellation, self.client, source_id, opening, how)
            _begin_to_end(session)
            self._open[client_id] = replacement
        return replacement

    async def list(self, cwd: str | None, cursor: str | None, *, archived: bool | None = False) -> SessionPage:
        """A page of the sessions that have a prompt, newest first, of those archived or not; None for all of them.

        Raises:
            BadCursorError: the cursor is not one of ours.
            FolderUnusableError: no folder can be called `cwd`.
        """
        if cwd is not None and "\0" in cwd:
            raise FolderUnusableError(f"The folder {shown(cwd)} cannot exist; send an absolute path.")
        shared = self._constellation
        wanted = PageWanted(cwd, cursor, archived, shared.holder, shared.clock.now_ms())
        page = await shared.database.read(partial(read_page, wanted=wanted))
        if shared.pages_elsewhere is not None:
            page = _merged(page, await shared.pages_elsewhere(wanted))
        if shared.elsewhere is None and any(one.row.additional_directories for one in page.rows):
            # A drive that does not answer must not hold up the list.
            with anyio.move_on_after(LOOK_SECONDS):
                page = await anyio.to_thread.run_sync(_with_folders_here, page, abandon_on_cancel=True)
        return page

    async def described(self, session_id: str) -> ListedSession:
        """Return a session as a list shows it, whether it has a prompt or not; nothing is opened.

        Raises:
            UnknownSessionError: there is none, or it was deleted.
        """
        shared = self._constellation
        now = shared.clock.now_ms()

        def read(tx: Transaction) -> ListedSession | None:
            row = sessions.get_session(tx, SessionId(session_id))
            return None if row is None else with_details(tx, (row,), shared.holder, now)[0]

        found = await shared.database.read(read)
        if found is None:
            raise unknown_session(session_id)
        return found

    async def rename(self, session_id: str, title: str) -> str:
        """Give a session another title; the client of an open one is shown it. Returns it as it is stored.

        Raises:
            InvalidRequestError: the title is empty.
            UnknownSessionError: there is none, or it was deleted.
        """
        from pattern_acp.session.stored import rename_session

        shared = self._constellation
        stored = await rename_session(shared.database, session_id, title, now=shared.clock.now_ms())
        session = self.find(session_id)
        if session is not None:
            session.state.title = stored
            await session.view.show(SessionTitled(stored))
        return stored

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Close a session and put it away, or bring it back into the list.

        Raises:
            UnknownSessionError: there is none, or it was deleted.
        """
        shared = self._constellation
        known = await self.described(session_id)
        if archived:
            await self.close(session_id)
        if known.row.archived is not archived:
            from pattern_acp.session.stored import archive_session

            await archive_session(shared.database, session_id, archived=archived, now=shared.clock.now_ms())

    async def close(self, session_id: str) -> None:
        """Cancel and free the session; quiet when it is not open."""
        session = self._open.pop(SessionId(session_id), None)
        self._openings.pop(SessionId(session_id), None)
        if session is None:
            return
        _begin_to_end(session)
        with anyio.move_on_after(CLOSE_SECONDS):
            await session.wait_until_idle()
        await _wait_for_children(session)
        await _leave_handoffs((session,), self._constellation.handoff_seconds)
        await _record_close(self._constellation, session)

    async def delete(self, session_id: str) -> None:
        """Close the session and take it off every list; quiet when there is none.

        Raises:
            LeaseHeldError: another process works on it.
        """
        from pattern_acp.session.stored import CLOSE_FIRST, delete_session

        shared = self._constellation
        now = shared.clock.now_ms()
        remedy = f"{CLOSE_FIRST}, then delete it"
        await shared.database.read(
            lambda tx: leases.refuse_if_held(tx, SessionId(session_id), shared.holder, now, remedy=remedy)
        )
        await self.close(session_id)
        await delete_session(shared.database, session_id, shared.holder, now=now)

    async def cancel_all(self) -> None:
        """Cancel every turn and wait a bounded time for their ends; before shutdown."""
        for session in self._open.values():
            _begin_to_end(session)
        with anyio.move_on_after(CLOSE_SECONDS):
            for session in tuple(self._open.values()):
                await session.wait_until_idle()
        await _leave_handoffs(tuple(self._open.values()), self._constellation.handoff_seconds)

    async def _reopen(
        self,
        session_id: str,
        opening: Opening,
        how: Reopening,
        begin: Callable[[Sequence[Event]], Awaitable[None]] | None = None,
        *,
        only_read: bool = False,
    ) -> tuple[Session, Sequence[Event]]:
        already = self._open.get(SessionId(session_id)) or _under_another_id(self._open.values(), session_id)
        if already is not None and already.is_busy:
            raise SessionBusyError(
                f"Session {session_id} is answering a prompt here; wait for it or cancel it, then open it again."
            )
        # Off the table meanwhile: a prompt that comes now must not start on what is about to be replaced.
        if already is not None:
            self._open.pop(already.state.client_id, None)
        try:
            if already is not None and already.watches is not None:
                already.watches.close()
            if already is not None and already.jobs is not None:
                already.jobs.close()
                await already.jobs.wait_closed()
            if already is not None and already.workers is not None:
                already.workers.close()
                await already.workers.wait_closed()
            session, events = await _reopened(self, already, session_id, opening, how, begin, only_read=only_read)
        except BaseException:
            if already is not None:
                self._open[already.state.client_id] = already
            raise
        if already is not None:
            already.mcp.servers.close()
            if already.languages is not None:
                already.languages.started.close()
        self._open[session.state.client_id] = session
        self._openings[session.state.client_id] = opening
        return session, events


async def _reopened(
    sessions_here: Sessions,
    already: Session | None,
    session_id: str,
    opening: Opening,
    how: Reopening,
    begin: Callable[[Sequence[Event]], Awaitable[None]] | None,
    *,
    only_read: bool,
) -> tuple[Session, Sequence[Event]]:
    from pattern_acp.session.reopening import reopen_session, view_session

    shared, client = sessions_here.constellation, sessions_here.client
    if already is not None and already.session_id != already.state.client_id and not only_read:
        # The client continues in a fork under its parent's id, which is what it means by that id.
        return await reopen_session(shared, client, already.session_id, opening, how)
    if not only_read:
        try:
            return await reopen_session(shared, client, session_id, opening, how, begin)
        except LeaseHeldError:
            pass
        except DatabaseError:
            if not shared.database.damage:
                raise
    return await view_session(shared, client, session_id, opening)


def _under_another_id(sessions_here: Iterable[Session], session_id: str) -> Session | None:
    """A fork in which the client continues under its parent's id."""
    return next((each for each in sessions_here if each.session_id == session_id), None)


async def _record_close(shared: Constellation, session: Session) -> None:
    now = shared.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, session.session_id, shared.holder)
        append(tx, session.session_id, SessionClosed(), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
        leases.release(tx, session.session_id, shared.holder)

    try:
        await shared.database.write(write)
    except LeaseLostError:
        logger.info("a session was closed that another window has")
    except PatternError:
        logger.warning("the end of a session could not be recorded", exc_info=True)


async def _leave_handoffs(ended: Sequence[Session], seconds: float) -> None:
    from pattern_acp.session.activity_summary import leave_handoff

    with anyio.move_on_after(seconds):
        for session in ended:
            await leave_handoff(session.constellation, session.state)


def _begin_to_end(session: Session) -> None:
    """Cancel the turn and tell what the session started to end; does not wait."""
    session.is_closed = True
    session.cancel()
    session.mcp.servers.close()
    if session.languages is not None:
        session.languages.started.close()
    if session.watches is not None:
        session.watches.close()
    if session.jobs is not None:
        session.jobs.close()
    if session.workers is not None:
        session.workers.close()


async def _wait_for_children(session: Session) -> None:
    await session.mcp.servers.wait_closed()
    if session.languages is not None:
        await session.languages.started.wait_closed()
    if session.jobs is not None:
        await session.jobs.wait_closed()
    if session.workers is not None:
        await session.workers.wait_closed()


def unknown_session(session_id: str) -> UnknownSessionError:
    """The error for an id that names no session."""
    shown = session_id if len(session_id) <= 80 else session_id[:80] + "…"
    return UnknownSessionError(f"Session not found: {shown}")


def _with_folders_here(page: SessionPage) -> SessionPage:
    """Leave out the other folders of sessions that are not on this machine, where an editor could not open them."""

    def here(one: ListedSession) -> ListedSession:
        folders = tuple(folder for folder in one.row.additional_directories if Path(folder).is_dir())
        return replace(one, row=replace(one.row, additional_directories=folders))

    return replace(page, rows=tuple(map(here, page.rows)))
