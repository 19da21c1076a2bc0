"""Lines of the agent become messages for the SDK."""

import json
import queue

import anyio
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import Happening, Inbox, OfferedChoice, Question, Updated
from pattern_acp.cli.chat.transport import Incoming, Message, PipeTransport


class Bytes(ByteReceiveStream, ByteSendStream):
    """A pipe in memory."""

    def __init__(self, *chunks: bytes, broken: bool = False) -> None:
        self._chunks = list(chunks)
        self._broken = broken
        self.written = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._chunks:
            raise anyio.EndOfStream
        return self._chunks.pop(0)

    async def send(self, item: bytes) -> None:
        if self._broken:
            raise anyio.BrokenResourceError
        self.written += item

    async def aclose(self) -> None:
        return


async def received(*chunks: bytes) -> list[Message]:
    transport = PipeTransport(Bytes(), Bytes(*chunks), lambda _: True)
    found: list[Message] = []
    with anyio.fail_after(30):
        while (message := await transport.receive()) is not None:
            found.append(message)
    assert transport.ended.is_set()
    return found


async def test_messages_are_read_however_the_bytes_are_cut():
    assert await received(b'{"a":', b"1}\n\n", b'{"b":2}\n{"c"', b":3}\n") == [{"a": 1}, {"b": 2}, {"c": 3}]


async def test_lines_that_are_no_objects_are_left_out():
    assert await received(b'[]\n42\nnot json\n\xff\xfe\n{"a":1}\n') == [{"a": 1}]


async def test_a_message_is_one_line_of_ascii():
    pipe = Bytes()
    await PipeTransport(pipe, Bytes(), lambda _: True).send({"text": "é\n"})
    assert pipe.written == b'{"text":"\\u00e9\\n"}\n'
    assert json.loads(pipe.written) == {"text": "é\n"}


async def test_an_agent_that_is_gone_is_a_connection_error():
    with pytest.raises(ConnectionError):
        await PipeTransport(Bytes(broken=True), Bytes(), lambda _: True).send({})


async def test_what_is_looked_at_and_kept_does_not_reach_the_sdk():
    lines = b'{"method":"$/cancel_request"}\n{"id":1}\n'
    transport = PipeTransport(Bytes(), Bytes(lines), Incoming(queue.SimpleQueue[Happening]()).look)
    with anyio.fail_after(30):
        assert await transport.receive() == {"id": 1}


def test_updates_go_into_the_inbox_as_they_are():
    inbox: Inbox = queue.SimpleQueue[Happening]()
    update = {"sessionUpdate": "new_kind", "_meta": {"x": None}}
    message: Message = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
    assert Incoming(inbox).look(message)
    assert inbox.get_nowait() == Updated(update)


def test_a_withdrawn_request_closes_open_questions():
    incoming = Incoming(queue.SimpleQueue[Happening]())
    question = Question(schema.ToolCallUpdate(tool_call_id="c"), (OfferedChoice("a", "A", "allow_once"),))
    incoming.ask(question)
    assert not incoming.look({"method": "$/cancel_request", "params": {"requestId": 1}})
    assert question.answer.result(0) is None
