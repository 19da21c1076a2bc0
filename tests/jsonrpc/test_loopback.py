import anyio
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import LOOPBACK_LINES, loopback_pair


async def test_each_end_receives_what_the_other_sends():
    one, two = loopback_pair()
    await one.send(b"to two\n")
    await two.send(b"to one\n")
    assert (await one.receive(), await two.receive()) == (b"to one", b"to two")


async def test_what_is_on_its_way_arrives_before_the_end():
    one, two = loopback_pair()
    await one.send(b"last\n")
    one.close_sending()
    assert (await two.receive(), await two.receive()) == (b"last", None)
    await two.send(b"still possible\n")
    assert await one.receive() == b"still possible"


async def test_nothing_can_be_sent_once_closed():
    one, two = loopback_pair()
    async with two:
        pass
    with pytest.raises(ConnectionClosedError):
        await one.send(b"late\n")


async def test_a_full_direction_makes_the_sender_wait():
    one, two = loopback_pair()
    for _ in range(LOOPBACK_LINES):
        await one.send(b"x\n")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.send, b"one more\n")
            await anyio.wait_all_tasks_blocked()
            assert await two.receive() == b"x"
