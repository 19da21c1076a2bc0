"""Following a session of any process on the constellation, read-only.

Owns: looking for what another process records, and the reason of the end. Must not know: how anything is shown.
"""

import anyio
from msgspec import Struct

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, SessionId
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import Event, MessagePartial, MessageRecorded
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.journal.leases import Holder
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.sessions import SessionStatus, with_details

LOOK_SECONDS = 0.25
"""Longest time between two looks; text of a running message is committed once a second."""

ENDS = {SessionStatus.IDLE: "closed", SessionStatus.INTERRUPTED: "interrupted"}
"""Reasons of an end: the session was closed, or its process ended in the middle of a turn."""

DELETED = "deleted"


class Seen(Struct, frozen=True):
    """New events of one look, and the reason why there will be no more; empty while a process has the session."""

    events: tuple[Event, ...]
    end: str = ""


class SessionWatch:
    """One look after the other at a session; it never writes."""

    def __init__(self, database: Database, session_id: SessionId, asking: Holder, clock: Clock) -> None:
        """`asking` is this process, whose own sessions count as well."""
        self._database, self._session_id, self._asking, self._clock = database, session_id, asking, clock
        self._newest = 0

    async def begin(self) -> Seen:
        """Return the whole conversation so far. Raises MissingSessionError where there is no such session."""

        def look(tx: Transaction) -> Seen:
            end = self._end(tx)
            if end == DELETED:
                raise MissingSessionError(self._session_id)
            recorded = read_history(tx, self._session_id)
            self._newest = max((entry.session_seq for entry in recorded), default=0)
            return Seen(tuple(entry.event for entry in active_events(recorded)), end)

        return await self._database.read(look)

    async def go_on(self, read_to: int) -> Seen:
        """Return what was recorded behind event number `read_to`, and the text of messages that had not ended there."""

        def look(tx: Transaction) -> Seen:
            end = self._end(tx)
            recorded = read_stream(tx, self._session_id) if end != DELETED else []
            self._newest = max((entry.session_seq for entry in recorded), default=read_to)
            before = [entry.event for entry in recorded if entry.session_seq <= read_to]
            ended = {event.message.message_id for event in before if isinstance(event, MessageRecorded)}
            begun = [event for event in before if isinstance(event, MessagePartial) and event.message_id not in ended]
            since = [entry.event for entry in recorded if entry.session_seq > read_to]
            return Seen((*begun, *since), end)

        return await self._database.read(look)

    async def next(self) -> Seen:
        """Return what was recorded since, once there is some of it or an end."""
        while True:
            writes = self._database.writes
            seen = await self._database.read(self._look)
            if not seen.events and not seen.end:
                # What this process records is seen at once, since the session may be one of its own.
                with anyio.move_on_after(LOOK_SECONDS):
                    await self._database.next_write(writes)
                continue
            return seen

    def _look(self, tx: Transaction) -> Seen:
        end = self._end(tx)
        if end == DELETED:
            return Seen((), end)
        recorded = read_stream(tx, self._session_id, after=self._newest)
        self._newest = max((self._newest, *(entry.session_seq for entry in recorded)))
        return Seen(tuple(entry.event for entry in recorded), end)

    def _end(self, tx: Transaction) -> str:
        row = sessions.get_session(tx, self._session_id)
        if row is None:
            return DELETED
        (listed,) = with_details(tx, (row,), self._asking, self._clock.now_ms())
        return ENDS.get(listed.status, "")
