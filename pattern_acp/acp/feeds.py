"""`_pattern/session/subscribe` and `_pattern/memory/subscribe`: what follows a session or memory live over ACP.

Owns: which connection has which subscriptions, the tasks that send, and how each ends. Must not know: how changes are
noticed (`session.watching`, `memory.feed`). There is nothing here that writes: who follows cannot steer.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from functools import partial
from typing import Generic, TypeAlias, TypeVar, assert_never

import anyio
import anyio.abc
from msgspec import Struct, convert

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.client import EditorClient
from pattern_acp.acp.schema import Wire
from pattern_acp.domain.clock import IdFactory, SessionId
from pattern_acp.domain.errors import PatternError
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, ConnectionClosedError, RpcError
from pattern_acp.memory import feed
from pattern_acp.memory.blocks import Isolation
from pattern_acp.memory.feed import MemoryFeed, Subscription, Watch
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import Session

LAST_WORD_SECONDS = 0.2
"""Time for the last event of a subscription when the process ends."""

E = TypeVar("E")

Tell: TypeAlias = Callable[[E | wire.Done], Awaitable[None]]
"""Sends the next event of one subscription."""


class Nothing(Wire, frozen=True, kw_only=True):
    """An empty answer."""


class Subscriptions(Generic[E]):
    """The subscriptions of one connection to one kind of thing."""

    def __init__(self, ids: IdFactory, tell: Callable[[str, E | wire.Done], Awaitable[None]], limit: int) -> None:
        """`tell` sends an event under the id of its subscription."""
        self._ids = ids
        self._tell = tell
        self._limit = limit
        self._ends: dict[str, Callable[[], None]] = {}
        self._senders: anyio.abc.TaskGroup | None = None

    async def run(self, work: Callable[[], Awaitable[None]] = anyio.sleep_forever) -> None:
        """Own what sends, beside `work`, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._senders = tasks
            try:
                await work()
            finally:
                self._senders = None

    def has(self, subscription_id: str) -> bool:
        """Tell whether a subscription is one of these, and has not ended."""
        return subscription_id in self._ends

    def require_place(self) -> None:
        """Check that one more fits. Raises RpcError where the connection has as many as it may have."""
        if self._senders is None or len(self._ends) >= self._limit:
            raise RpcError(INVALID_PARAMS, f"There may be {self._limit} subscriptions; end one of them first.")

    def begin(
        self,
        context: RequestContext,
        send: Callable[[Tell[E]], Coroutine[object, object, None]],
        end: Callable[[], None],
    ) -> wire.SubscribeResponse:
        """Begin a subscription behind the answer to the request; `send` runs until `end` is called, or on its own."""
        subscription_id = self._ids.new("sub")
        self._ends[subscription_id] = end

        async def follow() -> None:
            self.start(partial(self._send, subscription_id, send))

        # The client has to know the subscription before its first event comes.
        context.after_response(follow)
        return wire.SubscribeResponse(subscription_id=subscription_id)

    def start(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run something beside the subscriptions, for as long as they may run."""
        if self._senders is not None:
            self._senders.start_soon(work)

    async def unsubscribe(self, request: wire.UnsubscribeRequest, context: RequestContext, /) -> Nothing:
        """End a subscription; its last event still comes. Raises RpcError where there is none."""
        del context
        end = self._ends.get(request.subscription_id)
        if end is None:
            raise RpcError(INVALID_PARAMS, "There is no such subscription; it may have ended.")
        end()
        return Nothing()

    async def _send(self, subscription_id: str, send: Callable[[Tell[E]], Coroutine[object, object, None]]) -> None:
        tell = partial(self._tell, subscription_id)
        try:
            with suppress(ConnectionClosedError):
                await send(tell)
        except anyio.get_cancelled_exc_class():
            # The process ends: a client that still reads learns of it, within a moment.
            with (
                anyio.CancelScope(shield=True),
                anyio.move_on_after(LAST_WORD_SECONDS),
                suppress(ConnectionClosedError),
            ):
                await tell(wire.Done(reason="shutdown"))
            raise
        finally:
            self._ends.pop(subscription_id)()


MOST_SUBSCRIPTIONS = 32
"""Limit of one connection: each subscription is compared at every change."""


class _Open(Struct, frozen=True):
    session_id: SessionId
    subscription: Subscription


class MemoryEvents:
    """The subscriptions of one connection."""

    def __init__(self, sessions: Sessions, dispatcher: Dispatcher) -> None:
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._feed = MemoryFeed(sessions.constellation.database)
        self._subscriptions = Subscriptions(sessions.constellation.ids, self._tell, MOST_SUBSCRIPTIONS)
        self._open: list[_Open] = []
        self.unsubscribe = self._subscriptions.unsubscribe
        """`_pattern/memory/unsubscribe`."""
        self.has = self._subscriptions.has

    async def run(self) -> None:
        """Look on and send, until cancelled."""
        await self._subscriptions.run(self._feed.run)

    async def subscribe(self, request: wire.SubscribeRequest, context: RequestContext, /) -> wire.SubscribeResponse:
        """`_pattern/memory/subscribe`: what is there follows the answer, and then what changes."""
        session = self._sessions.get(request.session_id)
        self._subscriptions.require_place()
        owners = memory_owner(session.state).owners
        isolation = Isolation(session.state.settings.memory.isolation)
        watch = Watch(owners, isolation, frozenset(request.without_sessions))
        subscription = await self._feed.subscribe(watch, request.since)
        opened = _Open(session.session_id, subscription)
        self._open.append(opened)

        async def send(tell: Tell[wire.MemoryEvent]) -> None:
            try:
                while (event := await subscription.next()) is not None:
                    await tell(translated(event))
            finally:
                self._open.remove(opened)

        return self._subscriptions.begin(context, send, partial(self._feed.unsubscribe, subscription))

    def end_of(self, session_id: SessionId) -> None:
        """A session was closed: nobody looks on at it any more."""
        for opened in self._open:
            if opened.session_id == session_id:
                self._feed.unsubscribe(opened.subscription, "session_closed")

    async def _tell(self, subscription_id: str, event: wire.MemoryEvent) -> None:
        await self._dispatcher.notify(wire.EVENT, wire.EventNotification(subscription_id=subscription_id, event=event))


def translated(event: feed.FeedEvent) -> wire.MemoryEvent:
    """An event as it goes over the wire."""
    match event:
        case feed.BlockAvailable(info, version, text):
            return wire.BlockAvailable(block=_facts(info), version=version, text=text)
        case feed.Delta():
            return wire.Delta(
                block_id=event.block_id,
                label=event.label,
                version=event.version,
                actor=event.actor.value,
                origin=event.origin.value,
                operation=event.operation,
                reason=event.reason,
                at_ms=event.at_ms,
                session_id=event.session,
                update=b64encode(event.update).decode("ascii"),
                text=event.text,
            )
        case feed.MetadataChanged(info):
            return wire.MetadataChanged(block=_facts(info))
        case feed.BlockGone(block_id, label):
            return wire.BlockGone(block_id=block_id, label=label)
        case feed.Done(reason):
            return wire.Done(reason=reason)
        case _:
            assert_never(event)


def _facts(info: feed.BlockInfo) -> wire.BlockFacts:
    return convert(info, wire.BlockFacts, from_attributes=True)


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
        self.has = self._subscriptions.has

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
