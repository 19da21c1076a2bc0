"""`_pattern/session/subscribe` and `unsubscribe`, and windows on a session that another one has: both follow it live.

Owns: which connection follows which sessions, and the ends of that. Must not know: how what others record is noticed
(`session.watching`). There is nothing here that writes: who follows cannot steer.
"""

from contextlib import suppress

import anyio
import anyio.abc
from msgspec import Struct

from pattern_acp.acp import schema
from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.memory_feed import LAST_WORD_SECONDS, Nothing
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, ConnectionClosedError, RpcError
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import Session

MOST_FOLLOWED = 16
"""Limit of one connection: each looks four times a second whether something was recorded."""


class _Followed(Struct, frozen=True):
    session_id: SessionId
    scope: anyio.CancelScope


class SessionFeed:
    """Sessions that one connection follows."""

    def __init__(self, sessions: Sessions, dispatcher: Dispatcher) -> None:
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._open: dict[str, _Followed] = {}
        self._senders: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Own what follows, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._senders = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._senders = None

    async def subscribe(
        self, request: wire.SubscribeSessionRequest, context: RequestContext, /
    ) -> wire.SubscribeResponse:
        """`_pattern/session/subscribe`: the conversation so far follows the answer, and then what is added."""
        if self._senders is None or len(self._open) >= MOST_FOLLOWED:
            raise RpcError(INVALID_PARAMS, f"{MOST_FOLLOWED} sessions may be followed; end one subscription first.")
        session_id = SessionId(request.session_id)
        shared = self._sessions.constellation
        await self._sessions.described(session_id)
        subscription_id = shared.ids.new("sub")
        followed = self._open[subscription_id] = _Followed(session_id, anyio.CancelScope())

        async def begin() -> None:
            if self._senders is not None:
                self._senders.start_soon(self._send, subscription_id, followed)

        # The client has to know the subscription before its first event comes.
        context.after_response(begin)
        return wire.SubscribeResponse(subscription_id=subscription_id)

    async def unsubscribe(self, request: wire.UnsubscribeRequest, context: RequestContext, /) -> Nothing:
        """`_pattern/session/unsubscribe`."""
        del context
        followed = self._open.get(request.subscription_id)
        if followed is None:
            raise RpcError(INVALID_PARAMS, "There is no such subscription; it may have ended.")
        followed.scope.cancel()
        return Nothing()

    def show_live(self, session: Session) -> None:
        """Show in a window that only reads what the window that has the session does, until it changes hands."""
        if self._senders is not None:
            self._senders.start_soon(self._show, session)

    async def _send(self, subscription_id: str, followed: _Followed) -> None:
        # Late: most clients follow nothing.
        from pattern_acp.acp.updates import FollowedUpdates
        from pattern_acp.session.watching import SessionWatch

        shared, updates, reason = self._sessions.constellation, FollowedUpdates(), "unsubscribed"
        watched = SessionWatch(shared.database, followed.session_id, shared.holder, shared.clock)
        try:
            with followed.scope:
                seen = await watched.begin()
                while True:
                    for update in (update for event in seen.events for update in updates.updates_of(event)):
                        await self._tell(subscription_id, wire.SessionUpdated(update=update))
                    if seen.end:
                        reason = seen.end
                        break
                    seen = await watched.next()
            await self._tell(subscription_id, wire.Done(reason=reason))
        except ConnectionClosedError:
            return
        except PatternError as error:
            with suppress(ConnectionClosedError):
                await self._tell(subscription_id, wire.Done(reason=error.failure_code))
        except anyio.get_cancelled_exc_class():
            # The process ends: a client that still reads is told, within a moment.
            with (
                anyio.CancelScope(shield=True),
                anyio.move_on_after(LAST_WORD_SECONDS),
                suppress(ConnectionClosedError),
            ):
                await self._tell(subscription_id, wire.Done(reason="shutdown"))
            raise
        finally:
            self._open.pop(subscription_id, None)

    async def _show(self, session: Session) -> None:
        from pattern_acp.acp.updates import FollowedUpdates
        from pattern_acp.session.watching import SessionWatch

        shared, updates, client_id = self._sessions.constellation, FollowedUpdates(), session.state.client_id
        watched = SessionWatch(shared.database, session.session_id, shared.holder, shared.clock)
        with suppress(PatternError):
            seen = await watched.go_on(session.state.read_to)
            while self._sessions.find(client_id) is session:
                for update in (update for event in seen.events for update in updates.updates_of(event)):
                    shown = schema.SessionNotification(session_id=client_id, update=update)
                    await self._dispatcher.notify("session/update", shown)
                if seen.end:
                    return
                seen = await watched.next()

    async def _tell(self, subscription_id: str, event: wire.SessionUpdated | wire.Done) -> None:
        told = wire.SessionEventNotification(subscription_id=subscription_id, event=event)
        await self._dispatcher.notify(wire.SESSION_EVENT, told)
