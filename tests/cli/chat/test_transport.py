"""Lines of the agent, and what of them goes to the terminal's thread."""

import queue

import anyio
import msgspec
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream

from pattern_acp.acp import schema
from pattern_acp.cli.chat.agent_process import Incoming, PipeTransport
from pattern_acp.cli.chat.events import Happening, Inbox, OfferedChoice, Question, Updated
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import Oversize


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


async def received(*chunks: bytes) -> list[bytes | Oversize]:
    transport = PipeTransport(Bytes(), Bytes(*chunks))
    found: list[bytes | Oversize] = []
    with anyio.fail_after(30):
        while (line := await transport.receive()) is not None:
            found.append(line)
    return found


async def test_lines_are_read_however_the_bytes_are_cut():
    assert await received(b'{"a":', b"1}\n\n", b'{"b":2}\n{"c"', b":3}\n") == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


async def test_an_agent_that_is_gone_is_a_closed_connection():
    with pytest.raises(ConnectionClosedError):
        await PipeTransport(Bytes(broken=True), Bytes()).send(b"{}\n")


def test_updates_go_into_the_inbox_as_they_are():
    inbox: Inbox = queue.SimpleQueue[Happening]()
    Incoming(inbox).take_update(
        msgspec.Raw(b'{"sessionId": "s", "update": {"sessionUpdate": "new_kind", "_meta": {"x": null}}}')
    )
    assert inbox.get_nowait() == Updated({"sessionUpdate": "new_kind", "_meta": {"x": None}})


def test_no_update_of_the_session_before_reaches_the_next_one():
    inbox: Inbox = queue.SimpleQueue[Happening]()
    incoming = Incoming(inbox)
    mode = b'{"sessionId": "%s", "update": {"sessionUpdate": "current_mode_update", "currentModeId": "edit"}}'
    incoming.take_update(msgspec.Raw(mode % b"one"))
    incoming.follow("one")
    assert inbox.qsize() == 1
    incoming.follow("two")
    incoming.take_update(msgspec.Raw(mode % b"one"))
    assert inbox.empty()
    incoming.take_update(msgspec.Raw(mode % b"two"))
    assert inbox.qsize() == 1


def test_a_withdrawal_closes_open_questions():
    incoming = Incoming(queue.SimpleQueue[Happening]())
    question = Question(schema.ToolCallUpdate(tool_call_id="c"), (OfferedChoice("a", "A", "allow_once"),))
    incoming.ask(question)
    incoming.withdraw()
    assert question.answer.result(0) is None
