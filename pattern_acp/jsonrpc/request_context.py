"""What a request's handler knows about its own request."""

from collections.abc import Awaitable, Callable

import anyio

from pattern_acp.jsonrpc.messages import RequestId


class RequestContext:
    """One incoming request while it runs."""

    def __init__(self, request_id: RequestId, method: str) -> None:
        self.request_id = request_id
        self.method = method
        self.scope = anyio.CancelScope()
        """Belongs to the dispatcher: the handler runs in it."""
        self.follow_ups: list[Callable[[], Awaitable[None]]] = []
        """Belongs to the dispatcher: what `after_response` was given."""
        self.is_answered = False
        """Set by what prepares a request that had its answer before the dispatcher saw it; it gets no other one."""
        self._own_cancel: Callable[[], None] | None = None

    def on_cancel(self, act: Callable[[], None]) -> None:
        """Call `act` when the peer withdraws the request or goes away, instead of cancelling the handler.

        The handler then answers in its own way (session/prompt answers `cancelled`). `act` may be called again.
        """
        self._own_cancel = act

    def after_response(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` in a task of the connection, strictly after the response was handed to the transport."""
        self.follow_ups.append(act)

    def cancel(self) -> None:
        """The peer withdrew the request."""
        if self._own_cancel is None:
            self.scope.cancel()
        else:
            self._own_cancel()

    def wind_down(self) -> None:
        """The peer is gone: end the handler in its own way when it has one; others may still finish."""
        if self._own_cancel is not None:
            self._own_cancel()
