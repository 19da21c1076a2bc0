"""What every `Transport` does. A new implementation adds its factory to `TRANSPORTS`."""

import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import LoopbackTransport, Oversize, StdioTransport, Transport, loopback_pair


@dataclass(slots=True)
class Link:
    """A transport whose peer writes some lines, ends, and reads everything."""

    transport: Transport
    close: Callable[[], Awaitable[None]]
    """Ends the transport as its owner does."""
    heard: list[bytes] = field(default_factory=list[bytes])
    """What the peer has read, whole once the context is left."""


Factory = Callable[[Sequence[bytes], Path], AbstractAsyncContextManager[Link]]


@asynccontextmanager
async def over_descriptors(
    read_fd: int,
    write_fd: int,
    feed: Callable[[], None],
    read: Callable[[], bytes],
) -> AsyncGenerator[Link, None]:
    """`StdioTransport` between two threads of the peer."""
    transport = StdioTransport(read_fd, write_fd)

    async def close() -> None:
        await transport.__aexit__(None, None, None)

    link = Link(transport, close)

    async def listen() -> None:
        link.heard.append(await anyio.to_thread.run_sync(read))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, feed)
        tasks.start_soon(listen)
        async with transport:
            yield link


@asynccontextmanager
async def pipes(lines: Sequence[bytes], folder: Path) -> AsyncGenerator[Link, None]:
    del folder
    our_read, their_write = os.pipe()
    their_read, our_write = os.pipe()
    with os.fdopen(their_write, "wb") as outgoing, os.fdopen(their_read, "rb") as incoming:

        def feed() -> None:
            outgoing.writelines(lines)
            outgoing.close()

        async with over_descriptors(our_read, our_write, feed, incoming.read) as link:
            yield link


@asynccontextmanager
async def sockets(lines: Sequence[bytes], folder: Path) -> AsyncGenerator[Link, None]:
    del folder
    ours, theirs = socket.socketpair()
    with theirs, theirs.makefile("rb") as incoming:

        def feed() -> None:
            theirs.sendall(b"".join(lines))
            theirs.shutdown(socket.SHUT_WR)

        write_fd = os.dup(ours.fileno())
        async with over_descriptors(ours.detach(), write_fd, feed, incoming.read) as link:
            yield link


@asynccontextmanager
async def regular_files(lines: Sequence[bytes], folder: Path) -> AsyncGenerator[Link, None]:
    (folder / "in").write_bytes(b"".join(lines))
    read_fd = os.open(folder / "in", os.O_RDONLY)
    write_fd = os.open(folder / "out", os.O_WRONLY | os.O_CREAT)
    transport = StdioTransport(read_fd, write_fd)

    async def close() -> None:
        await transport.__aexit__(None, None, None)

    link = Link(transport, close)
    async with transport:
        yield link
    link.heard.append((folder / "out").read_bytes())


@asynccontextmanager
async def loopback(lines: Sequence[bytes], folder: Path) -> AsyncGenerator[Link, None]:
    del folder
    ours, theirs = loopback_pair()

    async def close() -> None:
        ours.close()

    link = Link(ours, close)

    async def feed(peer: LoopbackTransport) -> None:
        for line in lines:
            await peer.send(line)
        peer.close_sending()

    async def listen(peer: LoopbackTransport) -> None:
        while (line := await peer.receive()) is not None:
            assert isinstance(line, bytes)
            link.heard.append(line + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed, theirs)
        tasks.start_soon(listen, theirs)
        async with ours:
            yield link


TRANSPORTS: dict[str, Factory] = {"pipes": pipes, "regular files": regular_files, "loopback": loopback}
if sys.platform != "win32":
    # Sockets are no descriptors on Windows.
    TRANSPORTS["sockets"] = sockets


@pytest.fixture(params=list(TRANSPORTS))
def link_to(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Link]]:
    factory = TRANSPORTS[request.param]

    def open_link(*lines: bytes) -> AbstractAsyncContextManager[Link]:
        return factory(lines, tmp_path)

    return open_link


Open = Callable[..., AbstractAsyncContextManager[Link]]

SHORT = [b'{"id":1}', b"", "ünï — 中文 🎉".encode(), b"x" * 70_000, b'{"id":2}']


async def receive_all(transport: Transport) -> list[bytes | Oversize]:
    lines: list[bytes | Oversize] = []
    while (line := await transport.receive()) is not None:
        lines.append(line)
    return lines


async def test_lines_come_in_order_without_their_line_feed_until_the_end(link_to: Open):
    with anyio.fail_after(30):
        async with link_to(*(line + b"\n" for line in SHORT)) as link:
            received = await receive_all(link.transport)
    # Empty lines say nothing in JSON-RPC over lines, so a transport may leave them out.
    assert [line for line in received if line] == [line for line in SHORT if line]


async def test_the_end_stays_the_end(link_to: Open):
    with anyio.fail_after(30):
        async with link_to() as link:
            assert [await link.transport.receive() for _ in range(3)] == [None, None, None]


async def test_lines_go_out_whole_in_order_and_before_the_end(link_to: Open):
    lines = [b"%d %b\n" % (number, b"x" * (number * 97 % 5000)) for number in range(600)]
    with anyio.fail_after(30):
        async with link_to() as link:
            for line in lines:
                await link.transport.send(line)
            await link.close()
    assert b"".join(link.heard) == b"".join(lines)


async def test_long_lines_pass_both_ways_at_once(link_to: Open):
    long = b"y" * 3_000_000 + b"\n"
    received: list[bytes | Oversize] = []
    with anyio.fail_after(30):
        async with link_to(long, b"end\n") as link:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(link.transport.send, long)
                received += await receive_all(link.transport)
            await link.close()
    assert received == [long[:-1], b"end"]
    assert b"".join(link.heard) == long


async def test_what_was_received_last_does_not_end_sending(link_to: Open):
    with anyio.fail_after(30):
        async with link_to(b"the only request\n") as link:
            await receive_all(link.transport)
            await link.transport.send(b"the answer\n")
            await link.close()
    assert b"".join(link.heard) == b"the answer\n"


async def test_nothing_can_be_sent_after_closing(link_to: Open):
    with anyio.fail_after(30):
        async with link_to() as link:
            await link.close()
            with pytest.raises(ConnectionClosedError) as caught:
                await link.transport.send(b"late\n")
    assert caught.value.sentence.endswith(".")
    assert b"".join(link.heard) == b""


async def test_closing_twice_is_closing(link_to: Open):
    with anyio.fail_after(30):
        async with link_to() as link:
            await link.transport.send(b"once\n")
            await link.close()
            await link.close()
    assert b"".join(link.heard) == b"once\n"


async def test_a_line_that_nobody_waited_for_is_not_lost_by_a_cancelled_wait(link_to: Open):
    with anyio.fail_after(30):
        async with link_to(b"one\n", b"two\n") as link:
            received: list[bytes | Oversize | None] = []
            with anyio.CancelScope() as scope:
                scope.cancel()
                # A line that is there already may still be handed over.
                received.append(await link.transport.receive())
            assert [*received, *await receive_all(link.transport)] == [b"one", b"two"]
