"""One connection: correlation, cancellation in wire order, and the exception boundary of requests.

Owns: exactly one answer to each request, the tasks that make them, and the requests we send. Must not know: any
method's meaning, except `$/cancel_request`.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from msgspec import Struct, field

from pattern_acp.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    ConnectionClosedError,
    Invalid,
    InvalidResultError,
    Notification,
    RemoteError,
    Repair,
    Request,
    RequestId,
    Response,
    RpcError,
    decode,
    decode_params,
    describe_misfit,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    keep_misfits,
    parse,
)
from pattern_acp.jsonrpc.transport import Oversize, Transport

T = TypeVar("T")

logger = logging.getLogger(__name__)


COURTESY_SECONDS = 1.0
"""Seconds that a line may still take which is owed to the peer while we are being cancelled: a withdrawn request, or
the answer of a request when the connection ends. Longer would hold up an exit that has 2 s (architecture.md,
invariant 9)."""

CANCEL_REQUEST = "$/cancel_request"


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
        # Fair: lines leave in the order in which they were handed over, no matter who does it.
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

    async def post(self, method: str, params: object) -> None:
        """See `Dispatcher.post`."""
        self._last_id += 1
        await self.write(encode_request(self._last_id, method, params))

    async def write(self, line: bytes) -> None:
        """Hand a line to the transport, after all lines that came before.

        Raises:
            ConnectionClosedError: the peer is gone.
        """
        async with self._writing:
            await self._transport.send(line)

    async def write_all(self, lines: Iterable[bytes]) -> None:
        """Hand lines to the transport as `write` does, with no other line in between."""
        async with self._writing:
            for line in lines:
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


class RequestContext:
    """One incoming request while it runs."""

    def __init__(self, request_id: RequestId, method: str) -> None:
        self.request_id = request_id
        self.method = method
        self.scope = anyio.CancelScope()
        """Belongs to the dispatcher: the handler runs in it."""
        self.follow_ups: list[Callable[[], Awaitable[None]]] = []
        """Belongs to the dispatcher: what `after_response` got."""
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


RequestHandler: TypeAlias = Callable[[msgspec.Raw, RequestContext], Awaitable[object]]
"""Answers a request; anything that msgspec encodes, None for `{}`."""

NotificationHandler: TypeAlias = Callable[[msgspec.Raw], None]
"""Acts on a notification at once, before the next line is read."""

Answer: TypeAlias = Callable[[], Awaitable[object]]
"""A request handler with its arguments."""

InOrderHook: TypeAlias = Callable[[msgspec.Raw, RequestContext], Answer | None]
"""The part of a request that happens in wire order, before its task starts and before the next line is read. It may
return what continues with the request instead of its handler, so that parameters are decoded once."""

Translate: TypeAlias = Callable[[Exception], RpcError | None]
"""The error to answer with, or None for an error that nobody foresaw."""

EOF_GRACE = 0.5
"""Seconds that requests in flight may still take when the peer has closed its side: enough to answer what was piped in
at once, well inside the 2 s in which the process has to be gone (architecture.md, invariant 9)."""


class _CancelRequest(msgspec.Struct, rename="camel"):
    request_id: int | str | None


class Dispatcher:
    """Serves one peer over a transport, and asks it in turn."""

    def __init__(
        self,
        transport: Transport,
        *,
        requests: Mapping[str, RequestHandler],
        notifications: Mapping[str, NotificationHandler],
        translate: Translate,
        in_order: Mapping[str, InOrderHook] | None = None,
        on_end: Callable[[], None] | None = None,
        eof_grace: float = EOF_GRACE,
    ) -> None:
        """A connection that is not served yet; `on_end` is called once when nothing more is taken from the peer."""
        self._transport = transport
        self._requests = requests
        self._notifications = notifications
        self._in_order = in_order or {}
        self._on_end = on_end
        self._translate = translate
        self._eof_grace = eof_grace
        self._outgoing = Outgoing(transport)
        self._in_flight: dict[RequestId, RequestContext] = {}
        self._idle = anyio.Event()
        self._receiving = anyio.CancelScope()

    def end(self) -> None:
        """Take nothing more, as if the peer had closed its side: requests in flight still get their answers."""
        self._receiving.cancel()

    async def run(self) -> None:
        """Serve until the peer is gone or `end` is called; then end every request in flight and return."""
        try:
            async with anyio.create_task_group() as tasks:
                with self._receiving:
                    while (item := await self._transport.receive()) is not None:
                        await self._take(item, tasks)
                        await anyio.lowlevel.checkpoint()
                if self._on_end is not None:
                    self._on_end()
                self._outgoing.close()
                await self._wait_until_idle()
                tasks.cancel_scope.cancel()
        finally:
            self._outgoing.close()

    async def request(
        self,
        method: str,
        params: object,
        result_type: type[T],
        *,
        deadline: float | None,
        repair: Repair = keep_misfits,
    ) -> T:
        """Ask the peer. `deadline` is in seconds from now, for sending and answering together; None waits for ever.

        A caller that gives up (deadline or cancellation) withdraws the request; its late answer is dropped.

        Raises:
            TimeoutError: no answer within the deadline.
            RemoteError: the peer answered with an error.
            InvalidResultError: the peer's result does not fit `result_type`.
            ConnectionClosedError: the peer is gone.
        """
        return await self._outgoing.request(method, params, result_type, deadline=deadline, repair=repair)

    async def post(self, method: str, params: object) -> None:
        """Ask the peer without waiting for its answer, which is dropped; the request is never withdrawn.

        Raises:
            ConnectionClosedError: the peer is gone.
        """
        await self._outgoing.post(method, params)

    async def notify(self, method: str, params: object) -> None:
        """Tell the peer; returns when the line is on its way, in order with everything else that is sent.

        Raises:
            ConnectionClosedError: the peer is gone.
        """
        await self._outgoing.write(encode_notification(method, params))

    async def notify_all(self, method: str, params: Iterable[object]) -> None:
        """Tell the peer several things as `notify` does, with nothing in between.

        Raises:
            ConnectionClosedError: the peer is gone.
        """
        await self._outgoing.write_all(encode_notification(method, each) for each in params)

    async def _take(self, item: bytes | Oversize, tasks: anyio.abc.TaskGroup) -> None:
        if isinstance(item, Oversize):
            error = RpcError(INVALID_REQUEST, f"The line is longer than {item.limit} bytes; send less at once.")
            await self._outgoing.answer(encode_error(None, error))
            return
        message = parse(item)
        match message:
            case Request():
                await self._begin(message, tasks)
            case Notification():
                self._act(message.method, message.params)
            case Response():
                if not self._outgoing.resolve(message):
                    logger.debug("Ignored an answer that nobody waits for.")
            case Invalid():
                await self._outgoing.answer(encode_error(message.id, message.error))

    async def _begin(self, request: Request, tasks: anyio.abc.TaskGroup) -> None:
        """Start a request's task, or refuse it at once."""
        context = RequestContext(request.id, request.method)
        try:
            answer: Answer = partial(self._find_handler(request), request.params, context)
            if (hook := self._in_order.get(request.method)) is not None:
                answer = hook(request.params, context) or answer
        except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the peer gets its answer
            await self._outgoing.answer(encode_error(request.id, self._explain(error, request.method)))
            return
        self._in_flight[request.id] = context
        tasks.start_soon(self._serve, request, answer, context, tasks, name=f"request {request.method}")

    def _find_handler(self, request: Request) -> RequestHandler:
        if request.id in self._in_flight:
            raise RpcError(INVALID_REQUEST, "A request with this id is still running; use another id.")
        handler = self._requests.get(request.method)
        if handler is not None:
            return handler
        if request.method in self._notifications:
            return self._act_and_confirm
        raise RpcError(METHOD_NOT_FOUND, "There is no such method.", {"method": request.method[:200]})

    async def _act_and_confirm(self, params: msgspec.Raw, context: RequestContext) -> None:
        # Some peers put a null id on what is a notification; they get what a request gets.
        self._notifications[context.method](params)

    async def _serve(
        self, request: Request, answer: Answer, context: RequestContext, tasks: anyio.abc.TaskGroup
    ) -> None:
        """Run a request to its one answer."""
        line: bytes | None = None
        try:
            with context.scope:
                line = await self._outcome(request, answer)
        finally:
            if not context.is_answered:
                await self._outgoing.answer(line or _cancelled(request))
            del self._in_flight[request.id]
            if not self._in_flight:
                self._idle.set()
        for act in context.follow_ups:
            tasks.start_soon(_follow_up, act, request.method)

    async def _outcome(self, request: Request, answer: Answer) -> bytes:
        try:
            return encode_result(request.id, await answer())
        except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the peer gets its answer
            return encode_error(request.id, self._explain(error, request.method))
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == float("-inf"):
                raise
            # Nobody cancelled us: something the handler waited for was cancelled (SDK fault 3). The task ends here.
            logger.warning("The handler of %s was cancelled from inside.", request.method)
            return encode_error(request.id, _internal_error())

    def _explain(self, error: Exception, method: str) -> RpcError:
        """The error to answer with; what was not foreseen goes to the log and not to the peer."""
        error = _unwrap(error)
        if isinstance(error, RpcError):
            return error
        if (translated := self._translate(error)) is not None:
            return translated
        logger.error("The request %s failed.", method, exc_info=error)
        return _internal_error()

    def _act(self, method: str, params: msgspec.Raw) -> None:
        if method == CANCEL_REQUEST:
            self._cancel(params)
        elif (handler := self._notifications.get(method)) is not None:
            try:
                handler(params)
            except Exception:
                logger.exception("The notification %s failed.", method)

    def _cancel(self, params: msgspec.Raw) -> None:
        try:
            request_id = decode_params(params, _CancelRequest).request_id
        except RpcError as error:
            logger.warning("Ignored a cancellation. %s", error.message)
            return
        if (context := self._in_flight.get(request_id)) is not None:
            _call_off(context.cancel)

    async def _wait_until_idle(self) -> None:
        """Let short requests answer and long ones wind down, for a bounded time."""
        for context in list(self._in_flight.values()):
            _call_off(context.wind_down)
        with anyio.move_on_after(self._eof_grace):
            while self._in_flight:
                self._idle = anyio.Event()
                await self._idle.wait()


async def _follow_up(act: Callable[[], Awaitable[None]], method: str) -> None:
    try:
        await act()
    except ConnectionClosedError:
        logger.debug("The peer left before what follows %s.", method)
    except Exception:
        logger.exception("What follows the answer to %s failed.", method)


def _cancelled(request: Request) -> bytes:
    return encode_error(request.id, RpcError(REQUEST_CANCELLED, "The request was cancelled."))


def _internal_error() -> RpcError:
    return RpcError(INTERNAL_ERROR, "Internal error; see the log.")


def _unwrap(error: Exception) -> Exception:
    """The one error inside a task group's group."""
    match error:
        case ExceptionGroup(exceptions=(Exception() as only,)):
            return _unwrap(only)
        case _:
            return error


def _call_off(cancel: Callable[[], None]) -> None:
    try:
        cancel()
    except Exception:
        logger.exception("A request could not be called off.")
