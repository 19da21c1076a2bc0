"""What we send: requests that wait for their answers, notifications, and answers, in one order.

Owns: ids of outgoing requests, which answer belongs to which waiter, and the order of lines. Must not know: what comes
in, except answers.
"""

import logging
from typing import TypeVar

import anyio
import msgspec
from msgspec import Struct, field

from pattern_acp.jsonrpc.decoding import Repair, decode, describe_misfit
from pattern_acp.jsonrpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.jsonrpc.messages import RequestId, Response, encode_notification, encode_request
from pattern_acp.jsonrpc.transport import Transport

T = TypeVar("T")

COURTESY_SECONDS = 1.0
"""Seconds that a line may still take which is owed to the peer while we are being cancelled: a withdrawn request, or
the answer of a request when the connection ends. Longer would hold up an exit that has 2 s (architecture.md,
invariant 9)."""

CANCEL_REQUEST = "$/cancel_request"

logger = logging.getLogger(__name__)


class _Waiter(Struct, eq=False):
    """Waits for one answer; `response` is None when none will come, `is_asked` whether the request went out."""

    request_id: int
    is_asked: bool = False
    done: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None

    def finish(self, response: Response | None) -> None:
        self.response = response
        self.done.set()

    async def wait(self) -> msgspec.Raw:
        await self.done.wait()
        if self.response is None:
            raise ConnectionClosedError("The peer closed the connection before it answered.")
        if (error := self.response.error) is not None:
            raise RemoteError(error.code, error.message, error.data)
        return self.response.result


class Outgoing:
    """Everything that one connection sends."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Fair: lines leave in the order in which they were handed over, whoever does it.
        self._writing = anyio.Lock(fast_acquire=True)
        self._last_id = 0
        self._waiters: dict[RequestId, _Waiter] = {}
        self._closed = False

    async def request(
        self, method: str, params: object, result_type: type[T], *, deadline: float | None, repair: Repair
    ) -> T:
        """See `Dispatcher.request`."""
        if self._closed:
            raise ConnectionClosedError("The connection is closed; nothing can be asked of the peer.")
        self._last_id += 1
        waiter = _Waiter(self._last_id)
        line = encode_request(waiter.request_id, method, params)
        self._waiters[waiter.request_id] = waiter
        try:
            with anyio.fail_after(deadline):
                await self.write(line)
                waiter.is_asked = True
                result = await waiter.wait()
        except (TimeoutError, anyio.get_cancelled_exc_class()):
            await self._withdraw(waiter)
            raise
        finally:
            self._waiters.pop(waiter.request_id, None)
        try:
            return decode(result, result_type, repair=repair)
        except msgspec.ValidationError as error:
            sentence = f"The peer's answer to {method} does not fit. {describe_misfit(error)}"
            raise InvalidResultError(sentence) from None

    async def write(self, line: bytes) -> None:
        """Hand a line to the transport, after all lines that came before.

        Raises:
            ConnectionClosedError: the peer is gone.
        """
        async with self._writing:
            await self._transport.send(line)

    async def answer(self, line: bytes) -> None:
        """Write a line that is owed: also, for a bounded time, when the caller is cancelled meanwhile.

        A peer that is gone is owed nothing.
        """
        try:
            await self.write(line)
        except ConnectionClosedError:
            logger.debug("The peer left before its answer.")
        except anyio.get_cancelled_exc_class():
            # The transport took nothing of the line (see `Transport.send`), so this is not a second answer.
            await self._write_within_courtesy(line)
            raise

    def resolve(self, response: Response) -> bool:
        """Hand an answer to its waiter; False when nobody waits for it (Toad answers notifications, with a null id)."""
        waiter = self._waiters.pop(response.id, None)
        if waiter is None:
            return False
        waiter.finish(response)
        return True

    def close(self) -> None:
        """Tell every waiter, now and later, that no answer will come."""
        self._closed = True
        for waiter in self._waiters.values():
            waiter.finish(None)
        self._waiters.clear()

    async def _withdraw(self, waiter: _Waiter) -> None:
        # Clients answer a withdrawal of what they were never asked with an error (see `Transport.send`).
        if self._waiters.pop(waiter.request_id, None) is not None and waiter.is_asked:
            await self._write_within_courtesy(encode_notification(CANCEL_REQUEST, {"requestId": waiter.request_id}))

    async def _write_within_courtesy(self, line: bytes) -> None:
        with anyio.move_on_after(COURTESY_SECONDS, shield=True):
            try:
                await self.write(line)
            except ConnectionClosedError:
                logger.debug("The peer left before the last line to it.")
