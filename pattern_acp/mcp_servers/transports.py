"""Transports to a server: a program's pipes, streamable HTTP, the older HTTP with server-sent events, and the client.

Owns: the streams that the `mcp` package's session reads and writes, starting the program, noticing that a server is
gone, and what a status of HTTP means for a call, a session and a login: the `mcp` package passes on words alone. Must
not know: what the messages say.
"""

import json
import logging
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, cast

import anyio
import httpx2
import mcp_types as types
import msgspec
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from msgspec import Struct
from msgspec.structs import asdict, replace
from pydantic_core import ValidationError

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import PatternError
from pattern_acp.mcp_servers.catalogue import AskClient, CannotStartError, LaunchContext, ServerError, can_login
from pattern_acp.mcp_servers.listing import ListFilter
from pattern_acp.mcp_servers.sign_in import StoredLogin
from pattern_acp.processes.groups import ChildProgram, running_program

if TYPE_CHECKING:
    from httpx2._client import UseClientDefault
    from httpx2._types import AuthTypes


BODY_SECONDS = 5.0
"""Longest wait for the body of a refusal; its status says most."""

WORDS_LIMIT = 300
_KEY = "pattern_acp_refusal"
_SESSION_HEADER = "mcp-session-id"
_SESSION_WORDS = re.compile(r"\bsession\b|\bnot initialized\b|\bsession[ _-]?id\b", re.IGNORECASE)
"""Words of a 400 by which servers older than the standard status report an unknown session."""

_MAY_PASS = frozenset({429, 503})
"""Statuses of requests that were not begun."""

_MAY_PASS_TOO = frozenset({502, 504})
"""Statuses by which a gateway gave up; it is unknown whether the request was begun."""


class HttpRefusal(Struct, frozen=True):
    """A request that a server refused by an HTTP status."""

    status: int
    had_session: bool = False
    """True if it was sent within a session that the server had issued."""
    retry_after: float | None = None
    """Seconds after which the server wants to be asked again."""
    words: str = ""
    """Words of the server beside the status."""
    is_rpc: bool = False
    """True if they came as an error of JSON-RPC."""

    @property
    def forgot_session(self) -> bool:
        """Return whether the server no longer knows our session: by 404, or by 400 for older servers."""
        is_said = self.status == 400 and _SESSION_WORDS.search(self.words) is not None
        return self.had_session and (self.status == 404 or is_said)

    @property
    def wants_login(self) -> bool:
        """Return whether the server wants the user to sign in."""
        return self.status == 401

    @property
    def concerns_login(self) -> bool:
        """Return whether it is about the login, so that another try would be the same."""
        return self.status in {401, 403}

    def may_pass(self, *, repeatable: bool) -> bool:
        """Return whether the same request may be sent again and may then succeed."""
        return self.status in _MAY_PASS or (repeatable and self.status in _MAY_PASS_TOO)

    @property
    def why(self) -> str:
        """The refusal as the end of a sentence."""
        if self.status == 401:
            return "it wants a login (HTTP status 401): run `pattern-acp mcp login`, or put a token into its `headers`"
        if self.status == 403:
            return "it refuses this login (HTTP status 403): sign in again, or look at the token in its `headers`"
        if self.is_rpc and self.words:
            return f"{self.words} (HTTP status {self.status})"
        later = f"; it wants to be asked again in {self.retry_after:.0f} s" if self.retry_after else ""
        return f"it answered with HTTP status {self.status}{f' ({self.words})' if self.words else ''}{later}"


class RefusalClient(httpx2.AsyncClient):
    """Client that answers a refused message with a JSON-RPC error which contains the refusal.

    The package passes on such an error as it is, and makes up words for any other body.
    """

    def __init__(
        self,
        *,
        headers: dict[str, str] | None,
        timeout: httpx2.Timeout | None,
        auth: httpx2.Auth | None = None,
        on_refusal: Callable[[HttpRefusal], None] = lambda _refusal: None,
    ) -> None:
        super().__init__(headers=headers, timeout=timeout, auth=auth)
        self._on_refusal = on_refusal

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        auth: "AuthTypes | UseClientDefault | None" = httpx2.USE_CLIENT_DEFAULT,
        follow_redirects: "bool | UseClientDefault" = httpx2.USE_CLIENT_DEFAULT,
    ) -> httpx2.Response:
        """See `httpx2.AsyncClient.send`."""
        response = await super().send(request, stream=stream, auth=auth, follow_redirects=follow_redirects)
        if request.method != "POST" or response.status_code < 400:
            return response
        body = b""
        try:
            with anyio.move_on_after(BODY_SECONDS):
                body = await response.aread()
        except httpx2.HTTPError:
            # The status has already come.
            pass
        finally:
            await response.aclose()
        error = _rpc_error(body)
        refusal = _refusal(request, response, body, error)
        self._on_refusal(refusal)
        # The server's own error stays: versions are agreed on by it.
        known = cast("object", error.data) if error is not None else None
        data = cast("dict[str, object]", known) if isinstance(known, dict) else {}
        code = error.code if error is not None else types.INTERNAL_ERROR
        message = error.message if error is not None else refusal.words
        error = {"code": code, "message": message, "data": {**data, _KEY: asdict(refusal)}}
        return httpx2.Response(
            response.status_code,
            headers={"content-type": "application/json"},
            content=json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(),
            request=request,
        )


def refusal_of(error: MCPError) -> HttpRefusal | None:
    """The refusal behind an error, if it is one."""
    data = cast("object", error.error.data)
    found = cast("dict[str, object]", data).get(_KEY) if isinstance(data, dict) else None
    try:
        return msgspec.convert(found, HttpRefusal) if found is not None else None
    except msgspec.ValidationError:
        return None


def _rpc_error(body: bytes) -> types.ErrorData | None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValidationError:
        return None
    return message.error if isinstance(message, types.JSONRPCError) else None


def _refusal(
    request: httpx2.Request, response: httpx2.Response, body: bytes, error: types.ErrorData | None
) -> HttpRefusal:
    wait = response.headers.get("retry-after", "")
    return HttpRefusal(
        response.status_code,
        had_session=_SESSION_HEADER in request.headers,
        retry_after=float(wait) if wait.isdecimal() and len(wait) < 7 else None,
        words=_words(error.message if error is not None else _plain(response, body)),
        is_rpc=error is not None,
    )


def _plain(response: httpx2.Response, body: bytes) -> str:
    """The text of a body that is no error of JSON-RPC; nothing of a page for browsers."""
    text = body.decode("utf-8", "replace")
    if "json" not in response.headers.get("content-type", ""):
        return "" if "<" in text else text
    try:
        found = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return text
    fields = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    inner = fields.get("error")
    fields |= cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    words = (fields.get(key) for key in ("error", "message", "detail", "error_description"))
    return ": ".join(word for word in words if isinstance(word, str))


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".")[:WORDS_LIMIT]


LINE_LIMIT = 32_000_000
"""Bytes of one line; a server that writes more without a line end counts as broken."""


class EndlessLineError(PatternError):
    """A server's line has no end."""

    failure_code = "mcp.line-too-long"


class Program(Struct):
    """A running server: lines in, lines out."""

    child: ChildProgram

    async def write_line(self, line: bytes) -> None:
        """Send one line.

        Raises:
            OSError, anyio.BrokenResourceError: the program is gone.
        """
        await self.child.stdin.send(line + b"\n")

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines that the program writes, until it closes its output.

        Raises:
            EndlessLineError: a line is longer than `LINE_LIMIT`.
        """
        buffer = bytearray()
        async for chunk in self.child.stdout:
            buffer += chunk
            if b"\n" in chunk:
                *whole, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in whole:
                    if line.strip():
                        yield line
            elif len(buffer) > LINE_LIMIT:
                raise EndlessLineError("A line of an MCP server has no end; the server is not used any more.")


@asynccontextmanager
async def running_server(settings: McpServerSettings, launch: LaunchContext) -> AsyncGenerator[Program, None]:
    """Start a server's program; leaving the context ends it and all that it started.

    Raises:
        CannotStartError: there is no such program, or the system does not start it.
    """
    environment = {**launch.ports.environment, **settings.env}
    command = await to_thread.run_sync(find_command, settings.command, launch.cwd, environment)
    ports = replace(launch.ports, environment=environment)
    async with running_program([command, *settings.args], launch.cwd, ports, CannotStartError) as program:
        yield Program(program)


def find_command(command: str, cwd: str, environment: Mapping[str, str]) -> str:
    """Find the program that a command names, as its own process would. Raises CannotStartError where there is none."""
    path = next((value for name, value in environment.items() if name.upper() == "PATH"), "")
    found = shutil.which(command, path=path)
    if found is None and ("/" in command or "\\" in command):
        found = shutil.which(f"{cwd}/{command}")
    if found is None:
        raise CannotStartError(f"there is no program {command!r}" if command else "it names no command")
    return found


logger = logging.getLogger(__name__)

Incoming = SessionMessage | Exception

HTTP_SECONDS = 30.0
STREAM_SECONDS = 600.0
"""Longest silence on a stream of events."""


class MessageSource(Protocol):
    """Source of messages from the server."""

    async def receive(self) -> Incoming:
        """Return the next message."""
        ...

    async def aclose(self) -> None:
        """Stop receiving."""
        ...


class MessageSink(Protocol):
    """Sink of messages to the server."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        ...

    async def aclose(self) -> None:
        """Stop sending."""
        ...

    async def __aenter__(self) -> Self:
        """Return itself."""
        ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        """Close it."""
        ...


class WatchedSource:
    """A `MessageSource` that reports its end: the server is gone. Its messages are filtered."""

    def __init__(self, inner: MessageSource, ended: anyio.Event, sieve: ListFilter) -> None:
        self._inner = inner
        self._ended = ended
        self._sieve = sieve
        self._scope = anyio.CancelScope()
        self._is_over = False

    def end(self) -> None:
        """End the messages, as if the server had ended."""
        self._is_over = True
        self._scope.cancel()

    async def receive(self) -> Incoming:
        """See `Reading.receive`."""
        try:
            with anyio.CancelScope() as self._scope:
                if not self._is_over:
                    return self._sieve.sift(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended.set()
            raise
        self._ended.set()
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        """See `Reading.aclose`."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class TrackedSink:
    """A `MessageSink` that shows requests to the filter, so that it knows their answers."""

    def __init__(self, inner: MessageSink, sieve: ListFilter) -> None:
        self._inner = inner
        self._sieve = sieve

    async def send(self, item: SessionMessage, /) -> None:
        """See `Writing.send`."""
        self._sieve.note(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """See `Writing.aclose`."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class ServerStreams:
    """Both directions to a server, and its process if we started one."""

    def __init__(
        self,
        ended: anyio.Event,
        reading: MessageSource,
        writing: MessageSink,
        program: ChildProgram | None = None,
        *,
        refusals: Sequence[HttpRefusal] = (),
        is_new: bool = False,
    ) -> None:
        """`is_new`: it is reached in a way that only servers without a handshake have."""
        self.is_new = is_new
        self.sieve = ListFilter()
        self.ended = ended
        self.reading = WatchedSource(reading, ended, self.sieve)
        self.writing = TrackedSink(writing, self.sieve)
        self.program = program
        self._refusals = refusals

    @property
    def refusal(self) -> HttpRefusal | None:
        """The reason why the server accepts no more messages, if its transport has no answers that could say so."""
        return self._refusals[0] if self._refusals else None


@asynccontextmanager
async def open_streams(settings: McpServerSettings, launch: LaunchContext) -> AsyncGenerator[ServerStreams, None]:
    """Open a server's transport.

    Raises:
        CannotStartError: it cannot be started, or the transport is not one of the four.
        OSError, httpx2.HTTPError: it cannot be reached.
    """
    ended = anyio.Event()
    if settings.transport == "stdio":
        async with running_server(settings, launch) as program, _pipes(program) as (reading, writing):
            yield ServerStreams(ended, reading, writing, program.child)
    elif settings.transport == "http":
        timeout = httpx2.Timeout(HTTP_SECONDS, read=STREAM_SECONDS)
        async with (
            RefusalClient(headers=dict(settings.headers), timeout=timeout, auth=_login(settings, launch)) as client,
            streamable_http_client(settings.url, http_client=client) as (reading, writing),
        ):
            yield ServerStreams(ended, reading, writing)
    elif settings.transport == "sse":
        refusals: list[HttpRefusal] = []

        def client_of(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return RefusalClient(headers=headers, timeout=timeout, auth=auth, on_refusal=refused)

        def refused(refusal: HttpRefusal) -> None:
            # The package sends no more messages after it, so any caller would wait for the time limit.
            refusals.append(replace(refusal, had_session=True))
            link.reading.end()

        headers = dict(settings.headers)
        async with sse_client(
            settings.url,
            headers,
            HTTP_SECONDS,
            STREAM_SECONDS,
            httpx_client_factory=client_of,
            auth=_login(settings, launch),
        ) as (reading, writing):
            link = ServerStreams(ended, reading, writing, refusals=refusals)
            yield link
    elif settings.transport == "acp" and launch.ask_client is not None:
        async with _relayed(settings.server_id, launch.ask_client) as (reading, writing):
            yield ServerStreams(ended, reading, writing, is_new=True)
    else:
        raise CannotStartError(f"the transport {settings.transport!r} is not known")


def _login(settings: McpServerSettings, launch: LaunchContext) -> StoredLogin | None:
    return StoredLogin(settings, launch.logins) if launch.logins is not None and can_login(settings) else None


MOST_HEARD = 1_000
"""Messages of a server of the client that may wait to be read; further notifications are dropped."""


@asynccontextmanager
async def _relayed(
    server_id: str, ask: AskClient
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]], None]:
    """Carry each request to a server of the client, and its answer back."""
    incoming, reading = anyio.create_memory_object_stream[Incoming](MOST_HEARD)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    running: dict[types.RequestId, anyio.CancelScope] = {}

    def heard(method: str, params: JsonObject) -> None:
        note = types.JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params))
        try:
            incoming.send_nowait(SessionMessage(note))
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            logger.warning("A notification of an MCP server of the client was dropped.")

    async def relay(request: types.JSONRPCRequest) -> None:
        with anyio.CancelScope() as running[request.id]:
            try:
                answer = await ask(server_id, request.method, cast("JsonObject", request.params or {}), heard)
            except ServerError as error:
                answer = {"error": {"code": types.INTERNAL_ERROR, "message": error.sentence}}
            await incoming.send(parsed_line(json.dumps({"jsonrpc": "2.0", "id": request.id, **answer}).encode()))
        running.pop(request.id, None)

    with incoming, reading, writing, outgoing:
        async with anyio.create_task_group() as tasks:

            async def take() -> None:
                async for item in outgoing:
                    match item.message:
                        case types.JSONRPCRequest():
                            tasks.start_soon(relay, item.message)
                        case types.JSONRPCNotification(method="notifications/cancelled", params=params):
                            scope = running.get((params or {}).get("requestId", ""))
                            if scope is not None:
                                scope.cancel()
                        case _:
                            # There is no way to carry any other.
                            pass

            tasks.start_soon(take)
            yield reading, writing
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _pipes(
    program: Program,
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]], None]:
    incoming, reading = anyio.create_memory_object_stream[Incoming](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    with incoming, reading, writing, outgoing:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, program, incoming)
            tasks.start_soon(_write, program, outgoing, incoming)
            tasks.start_soon(program.child.listen_to_stderr, partial(logger.debug, "An MCP server says: %s"))
            yield reading, writing
            tasks.cancel_scope.cancel()


async def _read(program: Program, incoming: MemoryObjectSendStream[Incoming]) -> None:
    with incoming:
        try:
            async for line in program.lines():
                await incoming.send(parsed_line(line))
        except (OSError, EndlessLineError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.warning("The pipe of an MCP server broke.")


async def _write(
    program: Program,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[Incoming],
) -> None:
    try:
        async for message in outgoing:
            await program.write_line(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        # No request is possible any more; pending ones get an error.
        incoming.close()


def parsed_line(line: bytes) -> SessionMessage | Exception:
    """Parse a line; an unreadable one is an exception.

    Two odd forms are accepted: half of a character outside the first 65,536, as JavaScript leaves it where a text is
    cut, and bytes that are no UTF-8. An answer that makes no sense becomes an error for its request, which would
    otherwise wait for its time limit.
    """
    try:
        return _message(line)
    except ValueError as error:
        reason = error
    content = _content(line)
    if content:
        try:
            return _message(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(content, ensure_ascii=False)))
        except ValueError:
            pass
    number = content.get("id")
    if isinstance(number, int | str) and "method" not in content:
        nonsense = types.ErrorData(code=types.INVALID_REQUEST, message="its answer makes no sense")
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=nonsense))
    # Servers print to stdout by mistake; the line is left out and the server continues.
    logger.warning("An MCP server wrote a line that is no message.")
    return reason


def _content(line: bytes) -> dict[str, object]:
    """The object of a line, whatever it means; empty when it is none."""
    try:
        content = cast("object", json.loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", content) if isinstance(content, dict) else {}


def _message(line: str | bytes) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
