import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import WRITE_QUEUE_BYTES, Oversize, StdioTransport


class Ends:
    """The peer's ends of two pipes."""

    def __init__(self, transport: StdioTransport, write_fd: int, read_fd: int) -> None:
        self.transport = transport
        self.write_fd = write_fd
        self.read_fd = read_fd

    def close_input(self) -> None:
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close_output(self) -> None:
        if self.read_fd >= 0:
            os.close(self.read_fd)
            self.read_fd = -1

    async def read_all(self) -> bytes:
        """Everything until the transport closes its end."""

        def read() -> bytes:
            chunks: list[bytes] = []
            while chunk := os.read(self.read_fd, 65536):
                chunks.append(chunk)
            return b"".join(chunks)

        return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)


@asynccontextmanager
async def pipes(received: bytes = b"") -> AsyncGenerator[Ends, None]:
    our_read, their_write = os.pipe()
    their_read, our_write = os.pipe()
    ends = Ends(StdioTransport(our_read, our_write, received), their_write, their_read)
    try:
        with anyio.fail_after(30):
            async with ends.transport:
                yield ends
    finally:
        ends.close_input()
        ends.close_output()


async def receive_all(transport: StdioTransport) -> list[bytes | Oversize]:
    lines: list[bytes | Oversize] = []
    while (line := await transport.receive()) is not None:
        lines.append(line)
    return lines


async def test_lines_come_in_until_the_end_of_input():
    async with pipes() as ends:
        os.write(ends.write_fd, b"one\ntwo\r\nthr")
        assert await ends.transport.receive() == b"one"
        os.write(ends.write_fd, b"ee\nlast")
        ends.close_input()
        assert await receive_all(ends.transport) == [b"two", b"three", b"last"]
        assert await ends.transport.receive() is None


@pytest.mark.parametrize("cut", range(10))
async def test_what_was_read_before_comes_in_front(cut: int):
    written = b"one\ntwo\n"
    async with pipes(written[:cut]) as ends:
        os.write(ends.write_fd, written[cut:])
        ends.close_input()
        assert await receive_all(ends.transport) == [b"one", b"two"]


async def test_lines_go_out_in_order_and_all_of_them_before_the_end():
    expected = [b"%d %s\n" % (number, b"x" * 1000) for number in range(2000)]
    received: list[bytes] = []
    async with pipes() as ends, anyio.create_task_group() as tasks:

        async def read() -> None:
            received.append(await ends.read_all())

        tasks.start_soon(read)
        for line in expected:
            await ends.transport.send(line)
        await ends.transport.__aexit__(None, None, None)
    assert received == [b"".join(expected)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot tell whether a pipe has space")
async def test_short_lines_of_two_passes_of_the_loop_are_in_the_pipe_behind_them_in_one_write():
    async with pipes() as ends:
        os.set_blocking(ends.read_fd, False)
        for lines in ((b"one\n",), (b"two\n", b"three\n")):
            for line in lines:
                with pytest.raises(BlockingIOError):
                    os.read(ends.read_fd, 100)
                await ends.transport.send(line)
                await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            assert os.read(ends.read_fd, 100) == b"".join(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot tell whether a pipe has space")
async def test_lines_do_not_wait_for_the_end_of_a_pass_that_sends_more_than_leaves_at_once():
    async with pipes() as ends:
        os.set_blocking(ends.read_fd, False)
        for _ in range(5):
            await ends.transport.send(b"x" * 999 + b"\n")
        assert len(os.read(ends.read_fd, 10_000)) == 4_000


async def test_lines_that_leave_with_the_end_of_the_connection_are_written():
    async with pipes() as ends:
        await ends.transport.send(b"last\n")
        await ends.transport.__aexit__(None, None, None)
        assert await ends.read_all() == b"last\n"


async def test_short_and_long_lines_keep_their_order_while_the_peer_reads_slowly():
    expected = [b"%d %s\n" % (number, b"x" * (90_000 if number % 7 == 3 else number % 50)) for number in range(200)]
    received: list[bytes] = []
    async with pipes() as ends, anyio.create_task_group() as tasks:

        def read() -> bytes:
            # A few bytes at a time, so that the pipe is full again and again.
            return b"".join(iter(lambda: os.read(ends.read_fd, 3_001), b""))

        async def take() -> None:
            received.append(await anyio.to_thread.run_sync(read, abandon_on_cancel=True))

        tasks.start_soon(take)
        for line in expected:
            await ends.transport.send(line)
        await ends.transport.__aexit__(None, None, None)
    assert received == [b"".join(expected)]


async def test_a_peer_that_does_not_read_makes_senders_wait_and_loses_nothing():
    line = b"x" * 65535 + b"\n"
    sent = 0
    received: list[bytes] = []
    async with pipes() as ends:
        waits = False
        while not waits:
            with anyio.move_on_after(1.0) as scope:
                await ends.transport.send(line)
                sent += 1
            waits = scope.cancelled_caught
        assert WRITE_QUEUE_BYTES // 65536 <= sent < WRITE_QUEUE_BYTES // 65536 + 20
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                received.append(await ends.read_all())

            tasks.start_soon(read)
            await ends.transport.send(b"last\n")
            await ends.transport.__aexit__(None, None, None)
    assert received == [line * sent + b"last\n"]


async def test_a_peer_that_never_reads_cannot_hold_up_closing():
    async with pipes() as ends:
        await ends.transport.send(b"x" * 10_000_000 + b"\n")


async def test_a_peer_that_never_writes_cannot_hold_up_closing():
    async with pipes() as ends:
        with anyio.move_on_after(0.01):
            await ends.transport.receive()


async def test_a_peer_that_closed_its_reading_end_ends_the_connection():
    async with pipes() as ends:
        ends.close_output()
        await ends.transport.send(b"into the void\n")
        assert await ends.transport.receive() is None
        with pytest.raises(ConnectionClosedError):
            await ends.transport.send(b"again\n")


async def test_nothing_can_be_sent_after_closing():
    async with pipes() as ends:
        await ends.transport.__aexit__(None, None, None)
        with pytest.raises(ConnectionClosedError):
            await ends.transport.send(b"late\n")


async def test_a_sender_that_waits_learns_of_the_end():
    async with pipes() as ends, anyio.create_task_group() as tasks:
        await ends.transport.send(b"x" * 5_000_000 + b"\n")

        async def send() -> None:
            with pytest.raises(ConnectionClosedError):
                await ends.transport.send(b"more\n")

        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        ends.close_output()


async def test_a_flood_of_input_that_nobody_takes_stays_bounded_and_is_whole_in_the_end():
    async with pipes() as ends, anyio.create_task_group() as tasks:
        line = b"y" * 999 + b"\n"

        def flood() -> None:
            for _ in range(20_000):
                os.write(ends.write_fd, line)
            ends.close_input()

        tasks.start_soon(anyio.to_thread.run_sync, flood)
        assert len(await receive_all(ends.transport)) == 20_000


async def test_a_line_of_60_megabytes_comes_through():
    async with pipes() as ends, anyio.create_task_group() as tasks:
        size = 60 * 1024 * 1024

        def write() -> None:
            rest = memoryview(b"z" * size + b"\n")
            while rest:
                rest = rest[os.write(ends.write_fd, rest) :]
            ends.close_input()

        tasks.start_soon(anyio.to_thread.run_sync, write)
        lines = await receive_all(ends.transport)
        assert [len(line) for line in lines if isinstance(line, bytes)] == [size]


async def test_regular_files_work(tmp_path: Path):
    # SDK fault 10: a regular file as stdin or stdout ends it with ValueError.
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    read_fd = os.open(tmp_path / "in", os.O_RDONLY)
    write_fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    with anyio.fail_after(30):
        async with StdioTransport(read_fd, write_fd) as transport:
            assert await receive_all(transport) == [b"one", b"two"]
            await transport.send(b"answer\n")
    assert (tmp_path / "out").read_bytes() == b"answer\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sockets are no descriptors on Windows")
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "made non-blocking by the parent"])
async def test_sockets_work(*, blocking: bool):
    ours, theirs = socket.socketpair()
    ours.setblocking(blocking)
    theirs.settimeout(30)
    write_fd = os.dup(ours.fileno())
    with anyio.fail_after(30):
        async with StdioTransport(ours.detach(), write_fd) as transport:
            theirs.sendall(b"hello\n")
            assert await transport.receive() == b"hello"
            await transport.send(b"x" * 3_000_000 + b"\n")
            size = await anyio.to_thread.run_sync(lambda: len(theirs.makefile("rb").readline()))
            assert size == 3_000_001
            theirs.shutdown(socket.SHUT_WR)
            assert await transport.receive() is None
    theirs.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
async def test_terminals_work():
    import pty

    controller, terminal = pty.openpty()
    with anyio.fail_after(30):
        async with StdioTransport(terminal, os.dup(terminal)) as transport:
            os.write(controller, b"typed\n")
            assert await transport.receive() == b"typed"
            await transport.send(b"shown\n")
            os.write(controller, b"\x04")
            assert await transport.receive() is None
    os.close(controller)


async def test_input_that_cannot_be_read_counts_as_ended():
    read_fd, write_fd = os.pipe()
    other_read, other_write = os.pipe()
    with anyio.fail_after(30):
        async with StdioTransport(os.open(os.devnull, os.O_WRONLY), other_write) as transport:
            assert await transport.receive() is None
    for descriptor in (read_fd, write_fd, other_read):
        os.close(descriptor)
