"""The frame of a subscription: one of a limited number, whose events follow the answer and end with a reason.

Owns: which subscriptions a connection has, the tasks that send, and the last word of each. Must not know: what is
followed (`acp.memory_feed`, `acp.session_feed`).
"""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import anyio
import anyio.abc

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.schema_session import Wire
from pattern_acp.domain.ids import IdFactory
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, ConnectionClosedError, RpcError

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

    def require_place(self) -> None:
        """Check that one more fits.

        Raises:
            RpcError: the connection has as many as it may have.
        """
        if self._senders is None or len(self._ends) >= self._limit:
            raise RpcError(INVALID_PARAMS, f"There may be {self._limit} subscriptions; end one of them first.")

    def begin(
        self,
        context: RequestContext,
        send: Callable[[Tell[E]], Coroutine[object, object, None]],
        end: Callable[[], None],
    ) -> wire.SubscribeResponse:
        """Begin a subscription behind the answer to the request; `send` runs until `end` is called, or by itself."""
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
        """End a subscription; its last event still comes.

        Raises:
            RpcError: there is none.
        """
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
            # The process ends: a client that still reads is told, within a moment.
            with (
                anyio.CancelScope(shield=True),
                anyio.move_on_after(LAST_WORD_SECONDS),
                suppress(ConnectionClosedError),
            ):
                await tell(wire.Done(reason="shutdown"))
            raise
        finally:
            self._ends.pop(subscription_id)()
