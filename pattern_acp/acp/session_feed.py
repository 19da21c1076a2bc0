"""`_pattern/session/subscribe` and `unsubscribe`, and windows on a session that another one has: both follow it live.

Owns: which connection follows which sessions, and the ends of that. Must not know: how what others record is noticed
(`session.watching`). There is nothing here that writes: who follows cannot steer.
"""

from contextlib import nullcontext, suppress
from functools import partial

import anyio

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.client import EditorClient
from pattern_acp.acp.subscriptions import Subscriptions, Tell
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import Session

MOST_FOLLOWED = 16
"""Limit of one connection: each looks four times a second whether something was recorded."""


class SessionFeed:
    """Sessions that one connection follows."""

    def __init__(self, sessions: Sessions, client: EditorClient) -> None:
        self._sessions = sessions
        self._client = client
        self._subscriptions = Subscriptions(sessions.constellation.ids, self._tell, MOST_FOLLOWED)
        self.run = self._subscriptions.run
        """Own what follows, until cancelled."""
        self.unsubscribe = self._subscriptions.unsubscribe
        """`_pattern/session/unsubscribe`."""

    async def subscribe(
        self, request: wire.SubscribeSessionRequest, context: RequestContext, /
    ) -> wire.SubscribeResponse:
        """`_pattern/session/subscribe`: the conversation so far follows the answer, and then what is added."""
        self._subscriptions.require_place()
        session_id, scope = SessionId(request.session_id), anyio.CancelScope()
        await self._sessions.described(session_id)
        return self._subscriptions.begin(context, partial(self._send, session_id, scope), scope.cancel)

    def show_live(self, session: Session) -> None:
        """Show in a window that only reads what the window that has the session does, until it changes hands."""
        self._subscriptions.start(partial(self._show, session))

    async def _send(self, session_id: SessionId, scope: anyio.CancelScope, tell: Tell[wire.SessionUpdated]) -> None:
        # Late: most clients follow nothing.
        from pattern_acp.acp.updates import FollowedUpdates
        from pattern_acp.session.watching import SessionWatch

        shared, updates, reason = self._sessions.constellation, FollowedUpdates(), "unsubscribed"
        watched = SessionWatch(shared.database, session_id, shared.holder, shared.clock)
        try:
            with scope:
                seen = await watched.begin()
                while True:
                    for update in (update for event in seen.events for update in updates.updates_of(event)):
                        await tell(wire.SessionUpdated(update=update))
                    if seen.end:
                        reason = seen.end
                        break
                    seen = await watched.next()
        except PatternError as error:
            reason = error.failure_code
        await tell(wire.Done(reason=reason))

    async def _show(self, session: Session) -> None:
        from pattern_acp.session.watching import SessionWatch

        shared, client_id = self._sessions.constellation, session.state.client_id
        onlookers, window = self._client.onlookers, self._client.approver(client_id)
        show = self._client.view(client_id).follower()
        watched = SessionWatch(shared.database, session.session_id, shared.holder, shared.clock)
        with (
            suppress(PatternError),
            nullcontext() if onlookers is None else onlookers.looking_on(session.session_id, window),
        ):
            seen = await watched.go_on(session.state.read_to)
            while self._sessions.find(client_id) is session:
                for event in seen.events:
                    await show(event)
                if seen.end:
                    return
                seen = await watched.next()

    async def _tell(self, subscription_id: str, event: wire.SessionUpdated | wire.Done) -> None:
        told = wire.SessionEventNotification(subscription_id=subscription_id, event=event)
        await self._client.dispatcher.notify(wire.SESSION_EVENT, told)
