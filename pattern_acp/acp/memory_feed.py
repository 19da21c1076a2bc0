"""`_pattern/memory/subscribe` and `unsubscribe`: memory live over ACP.

Owns: which connection has which subscriptions, and the translation of their events. Must not know: how changes are
noticed (`memory/feed.py`). There is nothing here that writes, so a plugin cannot write as the user.
"""

from base64 import b64encode
from contextlib import suppress
from typing import assert_never

import anyio
import anyio.abc
from msgspec import Struct

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.schema_session import Wire
from pattern_acp.domain.ids import IdFactory, SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, ConnectionClosedError, RpcError
from pattern_acp.memory import feed
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.feed import MemoryFeed, Subscription, Watch
from pattern_acp.memory.permissions import Isolation
from pattern_acp.session.registry import Sessions

MOST_SUBSCRIPTIONS = 32
"""Limit of one connection: each subscription is compared at every change."""

LAST_WORD_SECONDS = 0.2
"""Time for the last event of a subscription when the process ends."""


class Nothing(Wire, frozen=True, kw_only=True):
    """An empty answer."""


class _Open(Struct, frozen=True):
    session_id: SessionId
    subscription: Subscription


class MemoryEvents:
    """The subscriptions of one connection."""

    def __init__(self, sessions: Sessions, dispatcher: Dispatcher) -> None:
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._ids: IdFactory = sessions.constellation.ids
        self._feed = MemoryFeed(sessions.constellation.database)
        self._open: dict[str, _Open] = {}
        self._senders: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Look on and send, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._senders = tasks
            try:
                await self._feed.run()
            finally:
                self._senders = None

    async def subscribe(self, request: wire.SubscribeRequest, context: RequestContext, /) -> wire.SubscribeResponse:
        """`_pattern/memory/subscribe`: what is there follows the answer, and then what changes."""
        session = self._sessions.get(request.session_id)
        if self._senders is None or len(self._open) >= MOST_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"There may be {MOST_SUBSCRIPTIONS} subscriptions; end one of them first.")
        owners = (Scope.PERSONA, session.state.persona.name), (Scope.PROJECT, session.state.project_key)
        isolation = Isolation(session.state.settings.memory.isolation)
        watch = Watch(owners, isolation, frozenset(request.without_sessions))
        subscription = await self._feed.subscribe(watch, request.since)
        subscription_id = self._ids.new("sub")
        self._open[subscription_id] = _Open(session.session_id, subscription)

        async def begin() -> None:
            if self._senders is not None:
                self._senders.start_soon(self._send, subscription_id, subscription)

        # The client has to know the subscription before its first event comes.
        context.after_response(begin)
        return wire.SubscribeResponse(subscription_id=subscription_id)

    async def unsubscribe(self, request: wire.UnsubscribeRequest, context: RequestContext, /) -> Nothing:
        """`_pattern/memory/unsubscribe`."""
        del context
        opened = self._open.get(request.subscription_id)
        if opened is None:
            raise RpcError(INVALID_PARAMS, "There is no such subscription; it may have ended.")
        self._feed.unsubscribe(opened.subscription)
        return Nothing()

    def end_of(self, session_id: SessionId) -> None:
        """A session was closed: nobody looks on at it any more."""
        for opened in self._open.values():
            if opened.session_id == session_id:
                self._feed.unsubscribe(opened.subscription, "session_closed")

    async def _send(self, subscription_id: str, subscription: Subscription) -> None:
        try:
            while (event := await subscription.next()) is not None:
                await self._tell(subscription_id, translated(event))
        except ConnectionClosedError:
            self._feed.unsubscribe(subscription, "shutdown")
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
    return wire.BlockFacts(
        block_id=info.block_id,
        label=info.label,
        scope=info.scope,
        description=info.description,
        permission=info.permission,
        limit=info.limit,
        tier=info.tier,
        pinned=info.pinned,
    )
