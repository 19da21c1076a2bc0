import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import msgspec
import pytest

from pattern_acp.jsonrpc.dispatcher import Dispatcher, InOrderHook, NotificationHandler, RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    ConnectionClosedError,
    InvalidResultError,
    RemoteError,
    RpcError,
    decode_params,
)
from pattern_acp.jsonrpc.transport import LOOPBACK_LINES, LoopbackTransport, loopback_pair
from tests.support.passing_time import passing

Line = dict[str, Any]


class Echo(msgspec.Struct):
    text: str = ""
    count: int | None = None


class Peer:
    """The other side, speaking plain JSON."""

    def __init__(self, transport: LoopbackTransport, dispatcher: Dispatcher) -> None:
        self.transport = transport
        self.dispatcher = dispatcher

    async def send(self, **members: object) -> None:
        await self.send_bytes(json.dumps({"jsonrpc": "2.0", **members}).encode())

    async def send_bytes(self, line: bytes) -> None:
        await self.transport.send(line + b"\n")

    async def receive(self) -> Line:
        line = await self.transport.receive()
        assert isinstance(line, bytes)
        return cast("Line", json.loads(line))

    async def ask(self, request_id: object, method: str, params: object = None) -> Line:
        await self.send(id=request_id, method=method, params=params)
        return await self.receive()


@asynccontextmanager
async def serving(
    requests: Mapping[str, RequestHandler] | None = None,
    notifications: Mapping[str, NotificationHandler] | None = None,
    *,
    in_order: Mapping[str, InOrderHook] | None = None,
    translate: Callable[[Exception], RpcError | None] = lambda error: None,
    eof_grace: float = 0.05,
) -> AsyncGenerator[Peer, None]:
    ours, theirs = loopback_pair()
    handlers: dict[str, RequestHandler] = {"echo": echo, **(requests or {})}
    dispatcher = Dispatcher(
        ours,
        requests=handlers,
        notifications=notifications or {},
        in_order=in_order,
        translate=translate,
        eof_grace=eof_grace,
    )
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispatcher.run)
            yield Peer(theirs, dispatcher)
            theirs.close()


async def echo(params: msgspec.Raw, context: RequestContext) -> object:
    return decode_params(params, Echo)


async def wait_for_ever(params: msgspec.Raw, context: RequestContext) -> object:
    await anyio.sleep_forever()


def raising(error: BaseException) -> RequestHandler:
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        raise error

    return handler


def returning(result: object) -> RequestHandler:
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        return result

    return handler


def code(line: Line) -> int:
    return cast("int", line["error"]["code"])


async def test_a_request_is_answered_under_its_id():
    async with serving() as peer:
        for request_id in (1, "one", None, 2**40):
            answer = await peer.ask(request_id, "echo", {"text": "hi"})
            assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {"text": "hi", "count": None}}


async def test_a_result_of_none_is_an_empty_object():
    async with serving({"m": returning(None)}) as peer:
        assert (await peer.ask(1, "m"))["result"] == {}


async def test_a_result_that_cannot_be_written_is_an_internal_error():
    async with serving({"m": returning(object())}) as peer:
        assert code(await peer.ask(1, "m")) == INTERNAL_ERROR


async def test_an_unknown_request_is_refused_and_an_unknown_notification_is_ignored():
    async with serving() as peer:
        await peer.send(method="nothing")
        assert code(await peer.ask(1, "nothing")) == METHOD_NOT_FOUND
        assert (await peer.ask(2, "echo"))["id"] == 2


async def test_bad_lines_are_answered_with_a_null_id_and_the_connection_goes_on():
    async with serving() as peer:
        for line, expected in ((b"nonsense", PARSE_ERROR), (b"[]", INVALID_REQUEST), (b"42", INVALID_REQUEST)):
            await peer.send_bytes(line)
            answer = await peer.receive()
            assert (answer["id"], code(answer)) == (None, expected)
        assert (await peer.ask(1, "echo"))["id"] == 1


async def test_parameters_that_do_not_fit_are_named():
    async with serving() as peer:
        error = (await peer.ask(1, "echo", {"text": 5}))["error"]
        sentence = "The parameter `text` must be a string, not an integer."
        assert error == {"code": INVALID_PARAMS, "message": sentence, "data": {"code": "protocol.params-invalid"}}


async def test_an_error_nobody_foresaw_goes_to_the_log_and_not_to_the_peer(caplog: pytest.LogCaptureFixture):
    async with serving({"m": raising(ValueError("a planted detail"))}) as peer:
        answer = await peer.ask(1, "m")
    expected = {"code": INTERNAL_ERROR, "message": "Internal error; see the log.", "data": {"code": "agent.fault"}}
    assert answer["error"] == expected
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [(logging.ERROR, True)]


async def test_a_domain_error_is_translated():
    def translate(error: Exception) -> RpcError | None:
        return RpcError(-32000, "Sign in.", {"why": "no key"}) if isinstance(error, KeyError) else None

    group = ExceptionGroup("tasks", [KeyError("k")])
    async with serving({"m": raising(KeyError("k")), "group": raising(group)}, translate=translate) as peer:
        expected = {"code": -32000, "message": "Sign in.", "data": {"why": "no key", "code": "auth.required"}}
        assert (await peer.ask(1, "m"))["error"] == expected
        assert (await peer.ask(2, "group"))["error"] == expected


async def test_a_handler_cancelled_from_inside_is_still_answered():
    # SDK fault 3: no answer at all, and the client hangs.
    async with serving({"m": raising(anyio.get_cancelled_exc_class()())}) as peer:
        assert code(await peer.ask(1, "m")) == INTERNAL_ERROR
        assert (await peer.ask(2, "echo"))["id"] == 2


async def test_a_withdrawn_request_is_cancelled_and_answered_once():
    async with serving({"m": wait_for_ever}) as peer:
        await peer.send(id="a", method="m")
        await peer.send(method="$/cancel_request", params={"requestId": "a"})
        await peer.send(method="$/cancel_request", params={"requestId": "a"})
        answer = await peer.receive()
        assert (answer["id"], code(answer)) == ("a", REQUEST_CANCELLED)
        assert (await peer.ask(2, "echo"))["id"] == 2


async def test_ids_of_different_types_are_different_requests():
    async with serving({"m": wait_for_ever}) as peer:
        await peer.send(id=1, method="m")
        await peer.send(id="1", method="m")
        await peer.send(method="$/cancel_request", params={"requestId": "1"})
        assert (await peer.receive())["id"] == "1"


@pytest.mark.parametrize("params", [{"requestId": 99}, {"requestId": {}}, {}, [], None])
async def test_a_cancellation_of_nothing_is_ignored(params: object):
    async with serving() as peer:
        await peer.send(method="$/cancel_request", params=params)
        assert (await peer.ask(1, "echo"))["id"] == 1


async def test_a_handler_may_answer_a_withdrawal_in_its_own_way():
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        withdrawn = anyio.Event()
        context.on_cancel(withdrawn.set)
        await withdrawn.wait()
        return {"stopReason": "cancelled"}

    async with serving({"m": handler}) as peer:
        await peer.send(id=1, method="m")
        await peer.send(id=2, method="echo")
        assert (await peer.receive())["id"] == 2
        await peer.send(method="$/cancel_request", params={"requestId": 1})
        assert (await peer.receive())["result"] == {"stopReason": "cancelled"}


async def test_a_withdrawal_in_the_very_next_line_finds_what_was_registered():
    started: list[str] = []
    cancelled: list[str] = []

    def hook(params: msgspec.Raw, context: RequestContext) -> None:
        started.append(context.method)
        context.on_cancel(lambda: cancelled.append(context.method))

    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        return {"cancelled": list(cancelled)}

    ours, theirs = loopback_pair()
    await theirs.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
    await theirs.send(b'{"jsonrpc":"2.0","method":"note"}\n')
    theirs.close_sending()
    seen: list[list[str]] = []
    dispatcher = Dispatcher(
        ours,
        requests={"m": handler},
        notifications={"note": lambda params: seen.append(list(started))},
        in_order={"m": hook},
        translate=lambda error: None,
    )
    with anyio.fail_after(30):
        await dispatcher.run()
    assert seen == [["m"]]


async def test_what_an_in_order_hook_refuses_is_answered_and_does_not_run():
    ran: list[bool] = []

    def hook(params: msgspec.Raw, context: RequestContext) -> None:
        raise RpcError(-32002, "There is no such session.")

    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        ran.append(True)

    async with serving({"m": handler}, in_order={"m": hook}) as peer:
        assert code(await peer.ask(1, "m")) == -32002
    assert ran == []


async def test_an_id_in_use_is_refused_for_the_second_request():
    async with serving({"m": wait_for_ever}) as peer:
        await peer.send(id=1, method="m")
        assert code(await peer.ask(1, "echo")) == INVALID_REQUEST
        await peer.send(method="$/cancel_request", params={"requestId": 1})
        assert code(await peer.receive()) == REQUEST_CANCELLED
        assert (await peer.ask(1, "echo"))["result"]


async def test_notifications_act_in_wire_order_before_later_requests_start():
    order: list[str] = []

    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        order.append("request")

    def note(params: msgspec.Raw) -> None:
        order.append("note")

    async with serving({"m": handler}, {"n": note}) as peer:
        await peer.send(method="n")
        await peer.send(method="n")
        await peer.ask(1, "m")
    assert order == ["note", "note", "request"]


async def test_a_failing_notification_is_logged_and_not_answered(caplog: pytest.LogCaptureFixture):
    def fail(params: msgspec.Raw) -> None:
        raise ValueError

    async with serving(notifications={"n": fail}) as peer:
        await peer.send(method="n")
        assert (await peer.ask(1, "echo"))["id"] == 1
    assert len(caplog.records) == 1


async def test_a_notification_that_carries_an_id_acts_and_is_confirmed():
    acted: list[str] = []
    async with serving(notifications={"n": lambda params: acted.append("n")}) as peer:
        assert (await peer.ask(None, "n"))["result"] == {}
    assert acted == ["n"]


async def test_what_follows_a_response_is_written_after_it():
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        async def follow() -> None:
            await peer.dispatcher.notify("after", {})

        context.after_response(follow)
        return {}

    async with serving({"m": handler}) as peer:
        assert (await peer.ask(1, "m"))["id"] == 1
        assert (await peer.receive())["method"] == "after"


async def test_a_follow_up_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture):
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        async def follow() -> None:
            raise ValueError

        context.after_response(follow)
        return {}

    async with serving({"m": handler}) as peer:
        await peer.ask(1, "m")
        assert (await peer.ask(2, "echo"))["id"] == 2
    assert len(caplog.records) == 1


async def test_requests_run_side_by_side():
    release = anyio.Event()

    async def first(params: msgspec.Raw, context: RequestContext) -> object:
        await release.wait()

    async def second(params: msgspec.Raw, context: RequestContext) -> object:
        release.set()

    async with serving({"first": first, "second": second}) as peer:
        await peer.send(id=1, method="first")
        await peer.send(id=2, method="second")
        assert {(await peer.receive())["id"], (await peer.receive())["id"]} == {1, 2}


async def answer_next(peer: Peer, answer: Callable[[Line], Awaitable[None]]) -> None:
    await answer(await peer.receive())


async def test_an_outgoing_request_gets_its_typed_answer():
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def answer(line: Line) -> None:
            assert line["params"] == {"a": 1}
            await peer.send(id=None, error={"code": -1, "message": "to nobody"})
            await peer.send(id=999, result={})
            await peer.send(id=line["id"], result={"text": "yes", "unknown": 1})

        tasks.start_soon(answer_next, peer, answer)
        assert await peer.dispatcher.request("m", {"a": 1}, Echo, deadline=30) == Echo("yes")


async def test_a_null_result_fits_a_type_whose_members_are_all_optional():
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def answer(line: Line) -> None:
            await peer.send(id=line["id"], result=None)

        tasks.start_soon(answer_next, peer, answer)
        assert await peer.dispatcher.request("m", {}, Echo, deadline=None) == Echo()


async def test_an_answer_that_is_an_error_is_raised():
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def answer(line: Line) -> None:
            await peer.send(id=line["id"], error={"code": -32002, "message": "gone", "data": {"x": 1}})

        tasks.start_soon(answer_next, peer, answer)
        with pytest.raises(RemoteError) as caught:
            await peer.dispatcher.request("m", {}, Echo, deadline=30)
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32002, "gone", {"x": 1})


async def test_an_answer_that_does_not_fit_is_its_own_error():
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def answer(line: Line) -> None:
            await peer.send(id=line["id"], result={"text": 5})

        tasks.start_soon(answer_next, peer, answer)
        with pytest.raises(InvalidResultError):
            await peer.dispatcher.request("m", {}, Echo, deadline=30)


async def test_a_request_past_its_deadline_is_withdrawn_and_its_late_answer_dropped():
    async with serving() as peer:
        async with passing(2):
            with pytest.raises(TimeoutError):
                await peer.dispatcher.request("m", {}, Echo, deadline=2)
        sent, withdrawn = await peer.receive(), await peer.receive()
        assert withdrawn == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": sent["id"]}}
        await peer.send(id=sent["id"], result={})
        assert (await peer.ask(1, "echo"))["id"] == 1


async def test_a_cancelled_caller_withdraws_its_request():
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def ask() -> None:
            await peer.dispatcher.request("m", {}, Echo, deadline=None)

        tasks.start_soon(ask)
        await peer.receive()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert (await peer.receive())["method"] == "$/cancel_request"


async def test_a_request_that_never_went_out_is_not_withdrawn():
    async with serving() as peer:
        for _ in range(LOOPBACK_LINES):
            await peer.dispatcher.notify("full", {})
        with pytest.raises(TimeoutError):
            await peer.dispatcher.request("m", {}, Echo, deadline=0.01)
        for _ in range(LOOPBACK_LINES):
            assert (await peer.receive())["method"] == "full"
        assert (await peer.ask(1, "echo"))["id"] == 1


async def test_the_peer_leaving_fails_who_waits_and_ends_what_runs():
    outcomes: list[str] = []

    async def asks(params: msgspec.Raw, context: RequestContext) -> object:
        try:
            await peer.dispatcher.request("m", {}, Echo, deadline=None)
        except ConnectionClosedError:
            outcomes.append("closed")

    async def runs(params: msgspec.Raw, context: RequestContext) -> object:
        try:
            await anyio.sleep_forever()
        finally:
            outcomes.append("ended")

    async with serving({"asks": asks, "runs": runs}) as peer:
        await peer.send(id=1, method="runs")
        await peer.send(id=2, method="asks")
        assert (await peer.receive())["method"] == "m"
        peer.transport.close_sending()
    assert outcomes == ["closed", "ended"]
    with pytest.raises(ConnectionClosedError):
        await peer.dispatcher.request("m", {}, Echo, deadline=None)
    with pytest.raises(ConnectionClosedError):
        await peer.dispatcher.notify("m", {})


async def test_what_was_asked_before_the_end_of_input_is_still_answered():
    async with serving(eof_grace=30) as peer:
        for number in range(20):
            await peer.send(id=number, method="echo")
        peer.transport.close_sending()
        assert [(await peer.receive())["id"] for _ in range(20)] == list(range(20))


async def test_the_end_of_input_asks_a_handler_to_end_in_its_own_way():
    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        over = anyio.Event()
        context.on_cancel(over.set)
        await over.wait()
        return {"stopReason": "cancelled"}

    async with serving({"m": handler}, eof_grace=30) as peer:
        await peer.send(id=1, method="m")
        await peer.ask(2, "echo")
        peer.transport.close_sending()
        assert (await peer.receive())["result"] == {"stopReason": "cancelled"}


async def test_ending_the_connection_still_answers_what_runs():
    ours, theirs = loopback_pair()
    started = anyio.Event()

    async def handler(params: msgspec.Raw, context: RequestContext) -> object:
        started.set()
        await anyio.sleep_forever()

    dispatcher = Dispatcher(ours, requests={"m": handler}, notifications={}, translate=lambda error: None)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dispatcher.run)
            await theirs.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
            await started.wait()
            tasks.cancel_scope.cancel()
        line = await theirs.receive()
    assert isinstance(line, bytes)
    assert code(json.loads(line)) == REQUEST_CANCELLED


async def test_lines_leave_in_the_order_in_which_they_were_written_also_when_the_peer_is_slow():
    count = LOOPBACK_LINES * 2
    async with serving() as peer, anyio.create_task_group() as tasks:

        async def tell(number: int) -> None:
            await peer.dispatcher.notify("n", {"number": number})

        for number in range(count):
            tasks.start_soon(tell, number)
        await anyio.wait_all_tasks_blocked()
        assert [(await peer.receive())["params"]["number"] for _ in range(count)] == list(range(count))


async def test_an_answer_waits_as_long_as_the_peer_takes_to_read():
    async def chatty(params: msgspec.Raw, context: RequestContext) -> object:
        for number in range(LOOPBACK_LINES * 2):
            await peer.dispatcher.notify("n", {"number": number})

    async with serving({"m": chatty}) as peer:
        await peer.send(id=1, method="m")
        await anyio.wait_all_tasks_blocked()
        lines = [await peer.receive() for _ in range(LOOPBACK_LINES * 2 + 1)]
        assert lines[-1]["id"] == 1
