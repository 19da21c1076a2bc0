"""`_pattern/memory/subscribe` and `unsubscribe`: memory live over ACP.

Owns: which connection has which subscriptions, and the translation of their events. Must not know: how changes are
noticed (`memory/feed.py`). There is nothing here that writes, so a plugin cannot write as the user.
"""

from base64 import b64encode
from functools import partial
from typing import assert_never

from msgspec import Struct

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.subscriptions import Subscriptions, Tell
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext
from pattern_acp.memory import feed
from pattern_acp.memory.feed import MemoryFeed, Subscription, Watch
from pattern_acp.memory.permissions import Isolation
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.registry import Sessions

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
