"""A server that answers every request with the same bytes, however wrong they are.

Owns: writing them, byte for byte, and silence and cuts between them. Must not know: HTTP beyond the end of a request's
head, or any wire; `tests/support/model_server.py` speaks those.
"""

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import AnyByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

from pattern_acp.providers.scripted import Pause

HEAD_BYTES = 64 * 1024

Piece = bytes | Pause
"""What is written, or how long nothing is; a pause without an end is silence."""


@dataclass(slots=True)
class FaultServer:
    """A running server; `pieces` may be changed between requests. It closes the connection behind the last one."""

    pieces: Sequence[Piece] = ()
    then: list[Sequence[Piece]] = field(default_factory=list[Sequence[Piece]])
    """What takes the place of `pieces` after each request, as long as there is something."""
    port: int = 0
    asked: int = 0
    """Requests so far."""
    requests: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    """The path and the body of each."""

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, stream: AnyByteStream) -> None:
        """Serve one connection."""
        async with stream:
            with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound):
                reader = BufferedByteReceiveStream(stream)
                head = await reader.receive_until(b"\r\n\r\n", HEAD_BYTES)
                body = await reader.receive_exactly(_length(head)) if _length(head) else b""
                self.requests.append((head.split(b" ", 2)[1].decode(), body))
                self.asked += 1
                pieces = self.pieces
                self.pieces = self.then.pop(0) if self.then else pieces
                for piece in pieces:
                    await (_wait(piece) if isinstance(piece, Pause) else stream.send(piece))


@asynccontextmanager
async def serve_faults(certificate: ssl.SSLContext | None = None) -> AsyncGenerator[FaultServer, None]:
    """A server on loopback for as long as the context is open; one of TLS with a `certificate`."""
    server = FaultServer()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.port = listener.extra_attributes[SocketAttribute.local_port]()
    secured = TLSListener(listener, certificate) if certificate else listener
    async with secured, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(secured.serve, server.handle, tasks))
        yield server
        tasks.cancel_scope.cancel()


def http_answer(body: bytes, *, status: int = 200, content_type: str = "text/event-stream", more: str = "") -> bytes:
    """A whole answer that ends with its connection, so that any of its bytes may be the last."""
    head = f"HTTP/1.1 {status} Fault\r\ncontent-type: {content_type}\r\nconnection: close\r\n{more}\r\n"
    return head.encode() + body


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def _wait(pause: Pause) -> None:
    await (anyio.sleep_forever() if pause.ms is None else anyio.sleep(pause.ms / 1000))
