"""Connects an editor's lines with a server, again after every cut: `pattern-acp connect`.

Owns: dialling, pauses between attempts, and what happens when the server has forgotten the connection. Must not know:
the server's side, or what ACP's messages mean (`acp.seen_by_editor` does).
"""

import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Self, TypeAlias
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.tls import TLSStream

from pattern_acp.acp.schema_extensions import AT_CLIENT
from pattern_acp.acp.seen_by_editor import SeenByEditor, cancelled_id, with_offer
from pattern_acp.bootstrap.client_machine import OFFERED, ClientMachine
from pattern_acp.bootstrap.remote_server import CONNECTION_HEADER, MACHINE_HEADER, RECEIVED_HEADER
from pattern_acp.journal.leases import host_name
from pattern_acp.jsonrpc.links import CannotResumeError, ResumableLink
from pattern_acp.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ConnectionClosedError,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    RpcError,
    encode_error,
    parse,
)
from pattern_acp.jsonrpc.transport import Oversize, Transport
from pattern_acp.jsonrpc.websocket import HANDSHAKE_SECONDS, HandshakeRefusedError, WebSocket, dial

FIRST_PAUSE_SECONDS = 0.1
MOST_PAUSE_SECONDS = 5.0

FIRST_SECONDS = 20.0
"""Time for the first connection; later ones are tried until the editor leaves."""

GONE = 410
"""Status of a server that does not know the connection."""
BUSY = 503

FAREWELL_SECONDS = 1.0
"""For what the editor said last to reach the server."""

logger = logging.getLogger(__name__)

Dial: TypeAlias = Callable[[Mapping[str, str]], Awaitable[tuple[WebSocket, Mapping[str, str]]]]


class ServerUnusableError(ProtocolError):
    """The server cannot be reached, or refuses."""

    failure_code = "remote.server-unusable"


class Connector:
    """One editor, and the server that it is connected with."""

    def __init__(
        self,
        editor: Transport,
        dial_server: Dial,
        machine: ClientMachine | None = None,
        *,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        """`machine` does what a server elsewhere cannot do with the editor's files; without it nothing does."""
        self._machine = machine
        self._editor = editor
        self._dial = dial_server
        self._first_seconds = first_seconds
        self._seen = SeenByEditor()
        self._link = ResumableLink()
        self._connection_id = ""
        self._is_left = False
        self._answered = anyio.Event()
        self._first = anyio.Event()
        self.connections = 0
        """Number of WebSockets so far."""

    async def run(self) -> None:
        """Carry lines until the editor leaves.

        Raises:
            ServerUnusableError: the server is not available; the editor's requests are answered with the sentence.
        """
        failure: ServerUnusableError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_from_editor, tasks.cancel_scope, name="editor")
            if self._machine is not None:
                tasks.start_soon(self._machine.run, name="client's machine")
            try:
                await self._stay_connected(tasks)
            except ServerUnusableError as error:
                # Raised behind the group, which would make one of a group of it.
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            for line in self._seen.give_up(
                RpcError(INTERNAL_ERROR, failure.sentence, failure_code=failure.failure_code)
            ):
                await self._tell_editor(line)
            raise failure

    async def _take_from_editor(self, scope: anyio.CancelScope) -> None:
        while (item := await self._editor.receive()) is not None:
            if isinstance(item, Oversize):
                error = RpcError(INVALID_REQUEST, f"The line is longer than {item.limit} bytes; send less at once.")
                await self._tell_editor(encode_error(None, error))
                continue
            offered = item if self._machine is None else with_offer(item, OFFERED)
            for line in self._seen.from_editor(offered):
                with suppress(ConnectionClosedError):
                    # What a link takes no more is sent again over the next one, as far as somebody waits for it.
                    await self._link.send(line)
        # An editor that says nothing more learns whether the server is available: `connect URL < /dev/null` tests it.
        await self._first.wait()
        with anyio.move_on_after(FAREWELL_SECONDS):
            while self._seen.is_waiting:
                await self._answered.wait()
        self._is_left = True
        self._link.end()
        if not self._link.is_attached:
            scope.cancel()

    async def _take_from_server(self, link: ResumableLink) -> None:
        if self._machine is None:
            await self._pass_on(link, None)
            return
        seen, beside = self._seen, _Aside(link)
        served = self._machine.dispatcher(beside, seen.folders_of, seen.open_folders)
        with beside:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(served.run, name="asked of the client's machine")
                await self._pass_on(link, beside)
                tasks.cancel_scope.cancel()

    async def _pass_on(self, link: ResumableLink, beside: "_Aside | None") -> None:
        while (item := await link.receive()) is not None:
            if isinstance(item, Oversize) or (beside is not None and await beside.takes(item)):
                continue
            shown, sent = self._seen.from_agent(item)
            for line in shown:
                await self._tell_editor(line)
            with suppress(ConnectionClosedError):
                for line in sent:
                    await link.send(line)
            self._answered.set()
            self._answered = anyio.Event()

    async def _tell_editor(self, line: bytes) -> None:
        try:
            await self._editor.send(line.strip().replace(b"\n", b" ") + b"\n")
        except ConnectionClosedError:
            logger.info("The editor reads no more.")
            self._is_left = True
            self._link.end()

    async def _stay_connected(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._take_from_server, self._link, name="server")
        while not self._is_left:
            socket, headers = await self._connected(tasks)
            self.connections += 1
            self._first.set()
            self._connection_id = headers.get(CONNECTION_HEADER.lower(), "")
            taken = headers.get(RECEIVED_HEADER.lower(), "0")
            try:
                await self._link.carry(socket, int(taken) if taken.isdecimal() else 0)
            except CannotResumeError:
                await self._begin_anew(tasks)
            if self._link.is_ended and not self._is_left:
                # The server took leave: it was asked to end, and another may be started in its place.
                await self._begin_anew(tasks)

    async def _connected(self, tasks: TaskGroup) -> tuple[WebSocket, Mapping[str, str]]:
        pause, started = FIRST_PAUSE_SECONDS, anyio.current_time()
        while True:
            try:
                with anyio.fail_after(HANDSHAKE_SECONDS):
                    return await self._dial(self._headers())
            except HandshakeRefusedError as error:
                if error.status == GONE:
                    await self._begin_anew(tasks)
                    continue
                if error.status != BUSY or self._is_first_over(started):
                    raise ServerUnusableError(error.sentence) from error
            except (OSError, ConnectionClosedError, TimeoutError, anyio.BrokenResourceError) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise ServerUnusableError(
                        f"The server's certificate is not trusted ({error.verify_message}); give it, or its authority,"
                        " with --authority."
                    ) from error
                if self._is_first_over(started):
                    reason = getattr(error, "strerror", None) or "no answer"
                    raise ServerUnusableError(
                        f"The server cannot be reached ({reason}); check URL and server."
                    ) from error
                if pause == FIRST_PAUSE_SECONDS:
                    logger.warning("The server cannot be reached; trying again.")
            await anyio.sleep(pause * random.uniform(0.7, 1.0))  # noqa: S311  no secret
            pause = min(pause * 2, MOST_PAUSE_SECONDS)

    def _is_first_over(self, started: float) -> bool:
        return not self.connections and anyio.current_time() - started > self._first_seconds

    def _headers(self) -> dict[str, str]:
        headers = {RECEIVED_HEADER: str(self._link.detach())}
        if self._connection_id:
            headers[CONNECTION_HEADER] = self._connection_id
        return headers

    async def _begin_anew(self, tasks: TaskGroup) -> None:
        """Continue with a server that knows nothing of this editor."""
        self._link.end()
        self._link, self._connection_id = ResumableLink(), ""
        first, told = self._seen.begin_anew()
        for line in told:
            await self._tell_editor(line)
        for line in first:
            await self._link.send(line)
        tasks.start_soon(self._take_from_server, self._link, name="server")


class _Aside:
    """A `Transport` of the requests that a server asks the connector itself, out of a link that carries all others."""

    def __init__(self, link: ResumableLink) -> None:
        self._link = link
        self._taken: set[RequestId] = set()
        """Ids of all requests so far: one may be withdrawn when it was just answered, and the editor knows none."""
        self._send, self._receive = anyio.create_memory_object_stream[bytes](16)

    def __enter__(self) -> Self:
        """Begin nothing; the end closes what lines wait in."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self._send.close()
        self._receive.close()

    async def takes(self, line: bytes) -> bool:
        """Take a line, if it is one of them or withdraws one."""
        message = parse(line)
        if isinstance(message, Request) and message.method.startswith(AT_CLIENT):
            self._taken.add(message.id)
        elif not (isinstance(message, Notification) and cancelled_id(message) in self._taken):
            return False
        await self._send.send(line)
        return True

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        return await self._receive.receive()

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        await self._link.send(line)


def dialler(url: str, token: str, authority: str = "") -> Dial:
    """Return the function that opens a WebSocket to the server at `url`.

    Raises:
        ServerUnusableError: the URL or the file of certificates cannot be used.
    """
    if url.startswith("unix:") and len(url) > len("unix:"):
        path = url.removeprefix("unix:")
        return _dial_with(lambda: anyio.connect_unix(path), "ws://localhost/acp", token)
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "wss" else 80)
    except ValueError:
        port = 0
    host = parts.hostname or ""
    if parts.scheme not in {"ws", "wss"} or not host or not port or parts.username is not None:
        raise ServerUnusableError(f"{url!r} is no server's URL; give ws://HOST:PORT/acp, wss://HOST/acp or unix:PATH.")
    context = _trusting(authority) if parts.scheme == "wss" else None

    async def connect() -> ByteStream:
        stream = await anyio.connect_tcp(host, port)
        if context is None:
            return stream
        return await TLSStream.wrap(stream, hostname=host, ssl_context=context, standard_compatible=False)

    return _dial_with(connect, url, token)


def _dial_with(connect: Callable[[], Awaitable[ByteStream]], url: str, token: str) -> Dial:
    machine = host_name().encode("ascii", "replace").decode()

    async def open_socket(headers: Mapping[str, str]) -> tuple[WebSocket, Mapping[str, str]]:
        ours = {"Authorization": f"Bearer {token}", MACHINE_HEADER: machine}
        return await dial(await connect(), url, {**ours, **headers})

    return open_socket


def _trusting(authority: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authority:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as error:
            raise ServerUnusableError(f"{authority} is no file of certificates in PEM form.") from error
    return context
