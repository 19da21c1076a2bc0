"""The program as a server of many clients, in this process, and clients over real sockets."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream

from pattern_acp.bootstrap.client_machine import ClientMachine
from pattern_acp.bootstrap.connector import Connector
from pattern_acp.bootstrap.remote_server import (
    Address,
    Admission,
    ClientLimits,
    RemoteServer,
    serve_clients,
)
from pattern_acp.config.settings import Flags
from pattern_acp.jsonrpc.dispatcher import RequestHandler
from pattern_acp.jsonrpc.links import ResumableLink
from pattern_acp.jsonrpc.transport import loopback_pair
from pattern_acp.jsonrpc.websocket import WebSocket, dial
from tests.support.editor import FakeEditor, JsonDict, PermissionAnswer
from tests.support.serving import Home

TOKEN = "pat_of-the-test"


@dataclass(slots=True)
class ServedRemotely:
    """A running server. `url` is where clients connect."""

    server: RemoteServer
    url: str
    port: int
    streams: list[ByteStream] = field(default_factory=list[ByteStream])

    async def stream(self) -> ByteStream:
        """A connection to it on which nothing was said yet."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        self.streams.append(stream)
        return stream


@asynccontextmanager
async def served_remotely(
    home: Home,
    *,
    is_local: bool = True,
    limits: ClientLimits | None = None,
    origins: tuple[str, ...] = (),
    flags: Flags | None = None,
) -> AsyncGenerator[ServedRemotely, None]:
    """A server on a port of its own, until the block ends."""
    ready = anyio.Event()
    found: list[ServedRemotely] = []

    def note(server: RemoteServer, url: str) -> None:
        found.append(ServedRemotely(server, url, int(url.rpartition(":")[2].partition("/")[0])))
        ready.set()

    async def serve() -> None:
        await serve_clients(
            home.process(flags or Flags()),
            Address("127.0.0.1", 0),
            Admission(lambda token: token == TOKEN, origins, is_local),
            limits=limits,
            ready=note,
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(30):
            await ready.wait()
        yield found[0]
        for stream in found[0].streams:
            await anyio.aclose_forcefully(stream)
        found[0].server.stop()


@asynccontextmanager
async def remote_editor(
    served: ServedRemotely,
    *,
    capabilities: JsonDict | None = None,
    permission: PermissionAnswer | None = None,
    also: Mapping[str, RequestHandler] | None = None,
    introduction: JsonDict | None = None,
) -> AsyncGenerator[FakeEditor, None]:
    """An ordinary client, which knows nothing of going on after a cut; introduced."""
    socket, _ = await dial(await served.stream(), served.url, {"Authorization": f"Bearer {TOKEN}"})
    link = ResumableLink(resumable=False)
    editor = FakeEditor(link, capabilities=capabilities, permission=permission, also=also)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.carry, socket, 0)
        tasks.start_soon(editor.dispatcher.run)
        await editor.initialize(introduction)
        yield editor
        link.end()
        tasks.cancel_scope.cancel()


class CuttableDial:
    """Dials a server like `pattern-acp connect`, and can cut what it dialled."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url = url
        self.token = token
        self.streams: list[ByteStream] = []
        self.cuts = 0

    async def __call__(self, headers: Mapping[str, str]) -> tuple[WebSocket, Mapping[str, str]]:
        """See `connector.Dial`."""
        port = int(self.url.rpartition(":")[2].partition("/")[0])
        stream = await anyio.connect_tcp("127.0.0.1", port)
        self.streams.append(stream)
        return await dial(stream, self.url, {"Authorization": f"Bearer {self.token}", **headers})

    async def cut(self) -> None:
        """Cut the connection that there is, without a farewell."""
        self.cuts += 1
        await anyio.aclose_forcefully(self.streams[-1])


@asynccontextmanager
async def connected_remotely(
    dial_server: CuttableDial,
    *,
    files: Mapping[str, str] | None = None,
    capabilities: JsonDict | None = None,
    permission: PermissionAnswer | None = None,
    machine: ClientMachine | None = None,
    introduction: JsonDict | None = None,
) -> AsyncGenerator[FakeEditor, None]:
    """An editor behind `pattern-acp connect`; introduced."""
    near, far = loopback_pair()
    editor = FakeEditor(far, files=files, capabilities=capabilities, permission=permission)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Connector(near, dial_server, machine).run)
        tasks.start_soon(editor.dispatcher.run)
        await editor.initialize(introduction)
        yield editor
        far.close_sending()
        near.close_sending()
        tasks.cancel_scope.cancel()
    for stream in dial_server.streams:
        await anyio.aclose_forcefully(stream)
