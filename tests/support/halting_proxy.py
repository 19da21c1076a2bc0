"""A way to a server of this machine that stops passing on what clients send, as a slow server or a cut line does."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ByteStream, SocketAttribute

STREAM_ENDS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)


class HaltingProxy:
    """Passes on a number of bytes, then nothing until `resume`; what the server sends always comes."""

    def __init__(self, server_port: int, most: int) -> None:
        self.halted = anyio.Event()
        self.url = ""
        self._server_port = server_port
        self._left = most
        self._resumed = anyio.Event()

    def resume(self) -> None:
        """Pass on everything from now on."""
        self._resumed.set()

    async def serve(self, client: ByteStream) -> None:
        """Pass on what one client and the server send each other."""
        connected = await anyio.connect_tcp("127.0.0.1", self._server_port)
        async with connected as server, client, anyio.create_task_group() as tasks:
            tasks.start_soon(self._to_server, client, server)
            with suppress(*STREAM_ENDS):
                async for data in server:
                    await client.send(data)
            tasks.cancel_scope.cancel()

    async def _to_server(self, client: ByteStream, server: ByteStream) -> None:
        with suppress(*STREAM_ENDS):
            async for data in client:
                self._left -= len(data)
                if self._left < 0 and not self._resumed.is_set():
                    self.halted.set()
                    await self._resumed.wait()
                await server.send(data)
        await server.aclose()


@asynccontextmanager
async def halting_proxy(server_port: int, most: int) -> AsyncGenerator[HaltingProxy, None]:
    """Run a proxy until the context ends, which cuts its connections."""
    proxy = HaltingProxy(server_port, most)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        proxy.url = f"nats://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610  anyio's, not Django's
        tasks.start_soon(listener.serve, proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()
