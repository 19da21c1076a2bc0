"""A command whose life a test can watch without polling: it holds a connection to the test until it dies.

Owns: the command and the connection. Must not know: who runs it.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

PROGRAM = """
import signal, socket, subprocess, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in sys.argv:
    sys.exit(subprocess.call([sys.executable, __file__, sys.argv[1], *sys.argv[3:]]))
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("the command runs", flush=True)
connection.recv(1)
"""


@dataclass(slots=True)
class WatchedCommand:
    """A command line that runs until it is ended."""

    line: str
    connected: anyio.Event
    ended: anyio.Event

    async def wait_until_started(self) -> None:
        """Wait until the command runs."""
        await self.connected.wait()

    async def wait_until_gone(self) -> None:
        """Wait until the process that the command became is dead."""
        await self.ended.wait()


@asynccontextmanager
async def watched_command(folder: Path, *words: str) -> AsyncGenerator[WatchedCommand, None]:
    """A command to run once, from a program in `folder`.

    `stubborn` among the words makes it ignore SIGTERM; `parent` first makes it a grandchild.
    """
    program = folder / "watched.py"
    program.write_text(PROGRAM, encoding="utf-8")
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        port = listener.extra_attributes[SocketAttribute.local_port]()
        line = " ".join([f'"{sys.executable}"', f'"{program}"', str(port), *words])
        command = WatchedCommand(line, anyio.Event(), anyio.Event())

        async def watch(stream: SocketStream) -> None:
            async with stream:
                command.connected.set()
                await _wait_for_end(stream)
                command.ended.set()

        tasks.start_soon(listener.serve, watch)
        yield command
        tasks.cancel_scope.cancel()


async def _wait_for_end(stream: ByteStream) -> None:
    try:
        await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return
