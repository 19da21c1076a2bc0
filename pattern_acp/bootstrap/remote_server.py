"""Serves ACP to many clients over WebSockets: who may connect, which connection continues, and their ends.

Owns: addresses to listen on, the handshake's verdict, limits, and one agent a connection over one `Root`. Must not
know: how lines travel (`jsonrpc.links`), or what a token is (`credentials.store`).
"""

import ipaddress
import logging
import secrets
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, TaskGroup
from anyio.streams.tls import TLSListener
from msgspec import Struct

from pattern_acp.acp.agent import Agent
from pattern_acp.bootstrap.opening import open_file
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.serve import end_at_last, ending_signals, translate
from pattern_acp.bootstrap.services import LazyServices
from pattern_acp.bootstrap.sessions import Root, open_client, open_root
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.text_limits import one_line
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.links import BUFFER_BYTES, CannotResumeError, ResumableLink
from pattern_acp.jsonrpc.messages import ProtocolError
from pattern_acp.jsonrpc.websocket import (
    HANDSHAKE_SECONDS,
    MESSAGE_LIMIT,
    PING_SECONDS,
    Acceptance,
    Refusal,
    Upgrade,
    WebSocket,
    accept,
    offered_token,
)

PATHS = ("", "/", "/acp")
"""Paths that are served; the field's own form is /acp."""

CONNECTION_HEADER = "Acp-Connection-Id"
"""The name that the field's draft of remote transports has for a connection."""

RECEIVED_HEADER = "Pattern-Received"
"""Number of messages that the sender of the header has received; the one who sends it can continue after a cut."""

MACHINE_HEADER = "Pattern-Machine"
"""Name of the client's machine, by which projects at the same path of two machines are two."""

SUBPROTOCOL = "acp"

LOOK_SECONDS = 2.0
"""Between two looks for connections that nobody came back to."""

CLOSE_SECONDS = 2.5
"""For ending all connections at a shutdown."""

LAST_RESORT_SECONDS = 5.0

logger = logging.getLogger(__name__)


class AddressUnusableError(ProtocolError):
    """An address cannot be listened on."""

    failure_code = "remote.address-unusable"


class Address(Struct, frozen=True):
    """The place to listen on: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_of_this_machine(self) -> bool:
        """True when nobody on another machine can connect."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`. Raises AddressUnusableError where it is none of these."""
    if text.startswith("unix:") and text != "unix:":
        return Address(path=text.removeprefix("unix:"))
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise AddressUnusableError(
            f"{text!r} is no address to listen on; give 127.0.0.1:PORT, [::1]:PORT or unix:PATH."
        )
    return Address(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


class ClientLimits(Struct, frozen=True):
    """ClientLimits of what clients can cost."""

    clients: int = 64
    """Connections at once, those included that were cut and may come back."""
    handshakes: int = 64
    """Peers at once that have not shown a token yet."""
    message_bytes: int = MESSAGE_LIMIT
    client_bytes: int = BUFFER_BYTES
    """Bytes that may wait for one client in each direction."""
    handshake_seconds: float = HANDSHAKE_SECONDS
    first_message_seconds: float = 60.0
    """Longest that a client may stay without a word; one that knows the token and says nothing takes a place."""
    linger_seconds: float = 3600.0
    """Time for coming back after a cut: a turn continues meanwhile, until it asks or the buffer is full."""
    ping_seconds: float = PING_SECONDS


class Admission(Struct, frozen=True):
    """Conditions of a handshake."""

    fits: Callable[[str], bool]
    """Tells whether a token is the right one."""
    origins: tuple[str, ...] = ()
    """Pages that may connect; a client that is no page names none."""
    is_local: bool = False
    """True if clients use the files and commands of this machine; otherwise each uses its own through ACP alone."""


class _Connection:
    """One client, over one WebSocket or several after another."""

    def __init__(self, connection_id: str, link: ResumableLink, machine: str, now: float) -> None:
        self.machine = machine
        self.connection_id = connection_id
        self.link = link
        self.begun_at = now
        self.cut_at = now
        self.dispatcher: Dispatcher | None = None


class RemoteServer:
    """Serves connections until `stop`."""

    def __init__(self, root: Root, admission: Admission, limits: ClientLimits) -> None:
        self._root = root
        self._admission = admission
        self._limits = limits
        self._connections: dict[str, _Connection] = {}
        self._handshakes = 0
        self._clock = SystemClock()
        self._one_left = anyio.Event()
        self._stopping = anyio.Event()

    @property
    def clients(self) -> int:
        """Number of connections."""
        return len(self._connections)

    async def run(self, listeners: Sequence[Listener[Any]]) -> None:
        """Serve what connects to the listeners, which are closed at the end."""
        async with anyio.create_task_group() as tasks:

            async def handle(stream: ByteStream) -> None:
                await self._handle(stream, tasks)

            try:
                async with anyio.create_task_group() as accepting:
                    for listener in listeners:
                        accepting.start_soon(listener.serve, handle, tasks)
                    accepting.start_soon(self._look_after)
                    await self._stopping.wait()
                    accepting.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    for listener in listeners:
                        await listener.aclose()
            await self._end_all()
            tasks.cancel_scope.cancel()

    def stop(self) -> None:
        """End every connection as if its client had left; the client may come back to the next start."""
        self._stopping.set()

    async def _end_all(self) -> None:
        for connection in self._connections.values():
            if connection.dispatcher is not None:
                connection.dispatcher.end()
        with anyio.move_on_after(CLOSE_SECONDS):
            await self.wait_until_empty()

    async def wait_until_empty(self) -> None:
        """Wait until no connection is left."""
        while self._connections:
            await self._one_left.wait()

    async def _handle(self, stream: ByteStream, tasks: TaskGroup) -> None:
        try:
            await self._serve_stream(stream, tasks)
        except Exception:
            # The boundary of one peer: whatever it sent, the others are served.
            logger.exception("A connection failed.")
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)

    async def _serve_stream(self, stream: ByteStream, tasks: TaskGroup) -> None:
        if self._handshakes >= self._limits.handshakes:
            return
        admitted = await self._admit(stream)
        if admitted is None:
            return
        found, socket, taken_by_peer = admitted
        if found.connection_id not in self._connections:
            self._connections[found.connection_id] = found
            tasks.start_soon(self._serve_agent, found, name="connection")
        try:
            await found.link.carry(socket, taken_by_peer, ping_seconds=self._limits.ping_seconds)
        except CannotResumeError:
            logger.warning("A client counts other messages than we do; its connection ends.")
            found.link.end()
        finally:
            found.cut_at = self._clock.monotonic()

    async def _admit(self, stream: ByteStream) -> tuple[_Connection, WebSocket, int] | None:
        """Do the handshake; with the connection that continues, and the number of messages that its client has."""
        found: _Connection | None = None
        taken_by_peer = 0
        socket: WebSocket | None = None

        def decide(upgrade: Upgrade) -> Acceptance | Refusal:
            nonlocal found, taken_by_peer
            refusal = self._refusal(upgrade)
            if refusal is not None:
                return refusal
            named = upgrade.headers.get(RECEIVED_HEADER.lower(), "")
            taken_by_peer = int(named) if named.isdecimal() and len(named) < 20 else 0
            found = self._connection_for(upgrade, resumable=bool(named))
            if found is None and CONNECTION_HEADER.lower() in upgrade.headers:
                return Refusal(410, "This connection has ended; begin a new one.")
            if found is None:
                return Refusal(503, f"{self._limits.clients} clients are connected, which is the limit here.")
            headers = {CONNECTION_HEADER: found.connection_id}
            if found.link.is_resumable:
                # From here on nothing counts that the WebSocket before this one may still bring.
                headers[RECEIVED_HEADER] = str(found.link.detach())
            return Acceptance(headers, SUBPROTOCOL if SUBPROTOCOL in upgrade.subprotocols else "")

        self._handshakes += 1
        try:
            with anyio.move_on_after(self._limits.handshake_seconds):
                socket = await accept(stream, decide, limit=self._limits.message_bytes)
        finally:
            self._handshakes -= 1
        if found is None or socket is None or found.link.is_ended:
            return None
        return found, socket, taken_by_peer

    def _refusal(self, upgrade: Upgrade) -> Refusal | None:
        path = upgrade.path.partition("?")[0]
        if path not in PATHS:
            return Refusal(404, "There is nothing here; ACP is served at /acp.")
        if not self._admission.fits(offered_token(upgrade)):
            return Refusal(401, "The token is missing or wrong; `pattern-acp serve --new-token` makes a new one.")
        origin = upgrade.headers.get("origin")
        if origin is not None and origin not in self._admission.origins:
            return Refusal(403, "Pages of this origin may not connect; start the server with --origin for it.")
        return None

    def _connection_for(self, upgrade: Upgrade, *, resumable: bool) -> _Connection | None:
        named = upgrade.headers.get(CONNECTION_HEADER.lower(), "")
        if named:
            known = self._connections.get(named)
            return known if known is not None and known.link.is_resumable and not known.link.is_ended else None
        if self.clients >= self._limits.clients:
            return None
        link = ResumableLink(resumable=resumable, buffer_bytes=self._limits.client_bytes)
        machine = one_line(upgrade.headers.get(MACHINE_HEADER.lower(), ""), 60)
        return _Connection(secrets.token_urlsafe(24), link, machine, self._clock.monotonic())

    async def _serve_agent(self, connection: _Connection) -> None:
        root, process = self._root, self._root.process
        shared = root.for_one_more(None if self._admission.is_local else connection.machine)
        services = LazyServices(process, lambda dispatcher: open_client(root, shared, dispatcher))
        connection.dispatcher = dispatcher = Agent(connection.link, services, translate).dispatcher
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(services.run, name="services")
                await dispatcher.run()
                services.stop()
        except Exception:
            # The boundary of one connection: a fault of ours there must not end the others.
            logger.exception("A connection ended with a fault.")
        finally:
            connection.link.end()
            del self._connections[connection.connection_id]
            self._one_left.set()
            self._one_left = anyio.Event()

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(min(LOOK_SECONDS, self._limits.linger_seconds, self._limits.first_message_seconds))
            now = self._clock.monotonic()
            for connection in tuple(self._connections.values()):
                link = connection.link
                is_silent = link.received == 0 and now - connection.begun_at > self._limits.first_message_seconds
                if is_silent or (not link.is_attached and now - connection.cut_at > self._limits.linger_seconds):
                    logger.info("A connection of which nothing came any more was ended.")
                    link.end()


async def listen(address: Address, context: ssl.SSLContext | None, seconds: float) -> tuple[Listener[Any], str]:
    """Listen on an address; with the URL that clients connect to.

    Raises:
        AddressUnusableError: it cannot be listened on.
    """
    try:
        if address.path:
            await _refuse_if_served(address.path)
            listener = await anyio.create_unix_listener(address.path, mode=0o600)
            return listener, f"unix:{await anyio.Path(address.path).absolute()}"
        made = await anyio.create_tcp_listener(local_host=address.host, local_port=address.port)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        shown = address.path or f"{address.host}:{address.port}"
        raise AddressUnusableError(f"Nothing can listen on {shown} ({reason}); choose another address.") from error
    port = made.extra(SocketAttribute.local_port)  # noqa: S610  anyio's
    host = f"[{address.host}]" if ":" in address.host else address.host
    if context is None:
        return made, f"ws://{host}:{port}/acp"
    return TLSListener(made, context, standard_compatible=False, handshake_timeout=seconds), f"wss://{host}:{port}/acp"


async def _refuse_if_served(path: str) -> None:
    try:
        async with await anyio.connect_unix(path):
            pass
    except OSError:
        # Nobody listens there; what is left of a socket is replaced.
        return
    raise AddressUnusableError(f"Another server listens on {path}; end it, or choose another path.")


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Read a certificate and its key.

    Raises:
        AddressUnusableError: they cannot be read, or do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "not in PEM form"
        raise AddressUnusableError(
            f"The certificate {certificate} cannot be used with its key ({reason}); give both as PEM files."
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("it has a password")


def origin_of(text: str) -> str:
    """Read the origin of a page, such as https://example.org. Raises AddressUnusableError where it is none."""
    parts = urlsplit(text)
    if text == "null" or (parts.scheme in {"http", "https"} and parts.netloc and parts.path in {"", "/"}):
        return text.removesuffix("/")
    raise AddressUnusableError(
        f"{text!r} is no origin; give the beginning of the page's address, as http://localhost:3000."
    )


async def serve_clients(
    process: Process,
    address: Address,
    admission: Admission,
    *,
    limits: ClientLimits | None = None,
    context: ssl.SSLContext | None = None,
    ready: Callable[[RemoteServer, str], None],
) -> None:
    """Serve clients until the process is asked to end, or the server that `ready` is called with is stopped.

    Raises:
        AddressUnusableError: the address cannot be listened on.
        PatternError: the constellation cannot be used.
    """
    allowed = limits or ClientLimits()
    for problem in process.loaded.problems:
        logger.warning("%s", problem)
    # First, since it is what fails most; who connects meanwhile waits.
    listener, url = await listen(address, context, allowed.handshake_seconds)
    async with listener, open_file(process) as opened, open_root(process, opened) as root:
        server = RemoteServer(root, admission, allowed)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, server.stop, name="signals")
            ready(server, url)
            await server.run([listener])
            tasks.cancel_scope.cancel()
    if address.path:
        await anyio.Path(address.path).unlink(missing_ok=True)


async def _stop_on_signal(stop: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    try:
        with anyio.open_signal_receiver(*ending_signals()) as signals:
            async for _ in signals:
                logger.info("Told to end.")
                end_at_last(LAST_RESORT_SECONDS)
                stop()
    except NotImplementedError:
        # Windows has no signal receiver on this loop; Ctrl+C ends the process there.
        return
