"""Messages of the protocol over the pipes of one server.

Owns: pygls, which nothing else imports, and the tasks that read and write. Must not know: what is said, apart from what
a server may ask of us.
"""

import json
import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from lsprotocol import types
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol, default_converter

from pattern_acp.lsp.model import LanguageServerError
from pattern_acp.processes.child_program import ChildProgram

logger = logging.getLogger(__name__)

HEADER_LIMIT = 4096
MESSAGE_LIMIT = 64_000_000
"""Bytes of one message; a server that announces more is taken for broken."""

for _name in ("pygls.protocol.json_rpc", "pygls.client", "pygls.feature_manager"):
    # It logs every message whole, and those hold the person's files.
    logging.getLogger(_name).setLevel(logging.CRITICAL)

HEARD = frozenset(
    {
        types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
        types.WINDOW_LOG_MESSAGE,
        types.WINDOW_SHOW_MESSAGE,
        types.WINDOW_WORK_DONE_PROGRESS_CREATE,
        types.WORKSPACE_CONFIGURATION,
        types.WORKSPACE_WORKSPACE_FOLDERS,
        types.CLIENT_REGISTER_CAPABILITY,
        types.CLIENT_UNREGISTER_CAPABILITY,
    }
)
"""What a server may tell or ask; other notifications are dropped, other requests refused. A server never edits."""


class _Protocol(JsonRPCProtocol):
    """JSON-RPC with the message types of LSP, and nothing of what pygls does for servers."""

    def get_message_type(self, method: str) -> type[Any] | None:
        return _types_of(method)[0]

    def get_result_type(self, method: str) -> type[Any] | None:
        return _types_of(method)[1]


def _types_of(method: str) -> tuple[type[Any] | None, type[Any] | None]:
    known = cast("Mapping[str, tuple[type[Any] | None, ...]]", types.METHOD_TO_TYPES).get(method)
    return (known[0], known[1]) if known is not None else (None, None)


class _Outgoing:
    """What pygls writes to: bytes that a task of ours sends on."""

    def __init__(self) -> None:
        self._send, self.receive = anyio.create_memory_object_stream[bytes](math.inf)

    def write(self, data: bytes) -> None:
        try:
            self._send.send_nowait(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("A message came too late for its language server.")

    def close(self) -> None:
        self._send.close()
        self.receive.close()


class Channel:
    """One server's pipes. `run` reads and writes them; messages may be sent while it runs."""

    def __init__(self, name: str, program: ChildProgram, answers: Mapping[str, Callable[[Any], object]]) -> None:
        self.ended = anyio.Event()
        self._name = name
        self._program = program
        self._outgoing = _Outgoing()
        self._pending: dict[int, Future[Any]] = {}
        self._requests = 0
        client = JsonRPCClient(_Protocol, default_converter)
        self._protocol = client.protocol
        self._protocol.set_writer(self._outgoing)
        for method in HEARD:
            # Partial, since pygls writes attributes on what it is given.
            client.feature(method)(partial(answers.get(method, _agree)))

    async def run(self) -> None:
        """Serve the pipes until the server closes them."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                log = partial(logger.info, "The language server %s says: %s", self._name)
                tasks.start_soon(self._program.listen_to_stderr, log)
                await self._read()
                tasks.cancel_scope.cancel()
        finally:
            self.ended.set()
            self._outgoing.close()

    def notify(self, method: str, params: object) -> None:
        """Send what needs no answer."""
        self._protocol.notify(method, params)

    async def request(self, method: str, params: object) -> object:
        """The answer to a request, in the types of lsprotocol. A request that is given up is cancelled.

        Raises:
            LanguageServerError: the server refused, or ended.
        """
        self._requests += 1
        number = self._requests
        future = self._pending[number] = self._protocol.send_request(method, params, msg_id=number)
        done = anyio.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._fail_at_end, future)
                await done.wait()
                tasks.cancel_scope.cancel()
            return future.result()
        except JsonRpcException as error:
            said = " ".join(str(error.message).split())[:200]
            raise LanguageServerError(f"The language server {self._name} says: {said}") from error
        finally:
            del self._pending[number]
            if not future.done():
                self.notify(types.CANCEL_REQUEST, types.CancelParams(number))

    async def _fail_at_end(self, future: "Future[Any]") -> None:
        await self.ended.wait()
        if not future.done():
            future.set_exception(LanguageServerError(f"The language server {self._name} ended meanwhile."))

    async def _write(self) -> None:
        try:
            async for data in self._outgoing.receive:
                await self._program.stdin.send(data)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("The language server %s does not read any more.", self._name)

    async def _read(self) -> None:
        stream = BufferedByteReceiveStream(self._program.stdout)
        try:
            while True:
                self._take(await stream.receive_exactly(await _length(stream)))
        except (OSError, ValueError, anyio.DelimiterNotFound):
            logger.warning("What the language server %s writes is no message.", self._name)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("The language server %s closed its output.", self._name)

    def _take(self, body: bytes) -> None:
        message: Any = json.loads(body)
        method = message.get("method")
        if method is not None and "id" not in message and method not in HEARD:
            return
        try:
            self._protocol.handle_message(cast("Any", self._protocol.structure_message(message)))
        except JsonRpcException as error:
            logger.warning("A message of the language server %s is not understood.", self._name)
            pending = self._pending.get(message.get("id"))
            if method is None and pending is not None and not pending.done():
                pending.set_exception(error)


async def _length(stream: BufferedByteReceiveStream) -> int:
    """The bytes of the next message, from its header (LSP 3.17, "Header Part").

    Raises:
        ValueError: there is no such header, or it says too much.
    """
    header = await stream.receive_until(b"\r\n\r\n", HEADER_LIMIT)
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and 0 <= int(value) <= MESSAGE_LIMIT:
            return int(value)
    raise ValueError(header)


def _agree(_params: object) -> None:
    """Take note of what needs no answer."""
