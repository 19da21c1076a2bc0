"""A web server on loopback that plays what a test says.

Owns: bytes on a socket. Must not know: who fetches.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream


@dataclass(frozen=True, slots=True)
class Answer:
    """What one path answers. `hangs`: nothing comes after the body, and the connection stays open."""

    body: bytes = b""
    content_type: str = "text/plain"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False
    repeat: int = 1
    """How often the body is sent."""


@dataclass(slots=True)
class WebServer:
    """A running server. `asked` has the head of every request."""

    port: int
    answers: dict[str, Answer]
    asked: list[str] = field(default_factory=list[str])

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """The URL of a path."""
        return f"http://{host}:{self.port}{path}"

    async def serve(self, stream: SocketStream) -> None:
        """Answer one request."""
        async with stream:
            try:
                head = await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", 64_000)
                self.asked.append(head.decode("latin-1"))
                await self._answer(stream, self.answers.get(head.split()[1].decode(), Answer(status=404)))
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                return

    async def _answer(self, stream: SocketStream, answer: Answer) -> None:
        lines = [f"HTTP/1.1 {answer.status} Answer", "Connection: close"]
        lines += [f"Content-Type: {answer.content_type}"] if answer.content_type else []
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        await stream.send("\r\n".join([*lines, "", ""]).encode())
        for _ in range(answer.repeat):
            await stream.send(answer.body)
        if answer.hangs:
            await anyio.sleep_forever()


@asynccontextmanager
async def web_server(answers: Mapping[str, Answer]) -> AsyncGenerator[WebServer, None]:
    """A server of these paths, until the context ends."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 (anyio, not Django)
    server = WebServer(port, dict(answers))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.serve)
        yield server
        tasks.cancel_scope.cancel()
