"""A local HTTP server that plays scripted answers in the real formats of the vendors.

Owns: the server and the faults it can play. In a process: `async with serve_models([...]) as server`. On its own, for
end-to-end tests and benchmarks: `python -m tests.support.model_server SCRIPT.json [--record FILE]`, which prints
its address as the first line of stdout and serves until it is ended.

`POST …/v1/messages` answers as Anthropic, `POST …/chat/completions` and `POST …/responses` as OpenAI's two APIs, `POST
…:streamGenerateContent` as Gemini, and the addresses of Vertex AI and Bedrock as those clouds do for Anthropic's
models, each request with the next reply of the script; `GET …/models` and `GET /api/tags` list
`models`. A script file is a JSON list of replies, or an object `{"replies": [...], "repeat": true, "models":
["m"]}`; a reply is an object (`Reply`) or just its list of steps.
"""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.providers.scripted import Pause, ScriptStep
from tests.support.amazon import bedrock_frames
from tests.support.model_streams import CallIds, Frame, anthropic_frames, openai_frames
from tests.support.newer_model_streams import gemini_frames, responses_frames

HEAD_BYTES = 64 * 1024
"""The longest head of a request; ours have a few hundred bytes."""

BEDROCK = "/invoke-with-response-stream"


NO_HEADERS: Mapping[str, str] = {}


class Reply(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The answer to one request, and what goes wrong with it.

    `body` replaces the stream by text of `content_type`; `raw` replaces its frames. `cut_after` closes the connection
    and `stall_after` goes silent after so many frames (0: after the head). `bytes_per_write` cuts the stream into small
    writes, `write_delay_ms` apart. `closes` ends the connection behind the whole answer, as idle ones are ended.
    `headers` go with any of it.
    """

    steps: list[ScriptStep] = msgspec.field(default_factory=list[ScriptStep])
    status: int = 200
    retry_after: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    body: str | None = None
    content_type: str = "application/json"
    raw: str | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    chunk: int = 0
    bytes_per_write: int = 0
    write_delay_ms: int = 0
    closes: bool = False


class ServerScript(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A script file."""

    replies: list[Reply | list[ScriptStep]]
    repeat: bool = False
    models: list[str] = msgspec.field(default_factory=lambda: ["test-model"])


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Json]:
        """The body as an object."""
        return cast("dict[str, Json]", msgspec.json.decode(self.body, type=dict[str, object]))


@dataclass(slots=True)
class ModelServer:
    """A running server. `requests` holds the POST requests so far, in order; replies can be added while it runs."""

    replies: list[Reply]
    repeat: bool = False
    models: Sequence[str] = ("test-model",)
    record: Path | None = None
    window: int | None = None
    """Tokens of every model, as vLLM lists them; None: the list says nothing of it."""
    lists: int = 0
    """How often the models were listed."""
    ended: int = 0
    """Connections that were closed."""
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])
    port: int = 0
    connections: int = 0
    _ids: CallIds = field(default_factory=CallIds)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`: a base URL for every wire, which adds `/v1` or `/v1beta`."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, stream: SocketStream) -> None:
        """Serve one connection until the client leaves or a fault ends it."""
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while await self._answer(await _read_request(reader), stream):
                    pass
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                # The client left, which is its right at any moment.
                pass
        self.ended += 1

    async def wait_ended(self, count: int) -> None:
        """Wait until so many connections have ended, and whoever waits at their other ends could notice."""
        while self.ended < count:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()

    async def _answer(self, request: RecordedRequest, stream: SocketStream) -> bool:
        """Answer one request; whether the connection goes on."""
        if request.method == "GET":
            return await _send_whole(stream, *self._list(request.path))
        self._keep(request)
        render = _renderer(request)
        if render is None:
            return await _send_whole(stream, 404, b'{"error":{"message":"Not found.","type":"not_found_error"}}')
        reply = self._next_reply()
        if reply.body is not None or reply.status != 200:
            body = (reply.body or "").encode()
            more = {"retry-after": reply.retry_after} if reply.retry_after else {}
            return await _send_whole(stream, reply.status, body, reply.content_type, {**reply.headers, **more})
        model = str(request.json().get("model", ""))
        frames = render(reply.steps, model, self._ids, reply.chunk)
        is_bedrock = request.path.endswith(BEDROCK)
        frames = bedrock_frames(frames) if is_bedrock else frames
        kind = "application/vnd.amazon.eventstream" if is_bedrock else "text/event-stream; charset=utf-8"
        frames = iter([reply.raw.encode()]) if reply.raw is not None else frames
        goes_on = await _send_stream(stream, reply, frames, kind)
        return goes_on and not reply.closes

    def _next_reply(self) -> Reply:
        index = len(self.requests) - 1
        if self.repeat and self.replies:
            index %= len(self.replies)
        if index < len(self.replies):
            return self.replies[index]
        return Reply([ScriptStep(text="The script has no more replies.")])

    def _keep(self, request: RecordedRequest) -> None:
        self.requests.append(request)
        if self.record is not None:
            with self.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"path": request.path, "body": request.json()}) + "\n")

    def _list(self, path: str) -> tuple[int, bytes]:
        plain = path.partition("?")[0]
        if plain.endswith("/models"):
            self.lists += 1
            if plain.startswith("/v1beta/"):
                return 200, json.dumps({"models": [_gemini_model(name) for name in self.models]}).encode()
            more = {} if self.window is None else {"max_model_len": self.window}
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} | more for name in self.models]
            return 200, json.dumps({"object": "list", "data": models}).encode()
        if plain == "/api/tags":
            return 200, json.dumps({"models": [{"name": name} for name in self.models]}).encode()
        return 404, b'{"error":{"message":"Not found.","type":"not_found_error"}}'


def _gemini_model(name: str) -> JsonObject:
    return {"name": f"models/{name}", "inputTokenLimit": 1000, "supportedGenerationMethods": ["generateContent"]}


def _renderer(request: RecordedRequest) -> Callable[[Sequence[ScriptStep], str, CallIds, int], Iterator[Frame]] | None:
    """How the API that a request was sent to answers."""
    path = request.path.partition("?")[0]
    if path.endswith(("/messages", "/messages/count_tokens", ":streamRawPredict", "count-tokens:rawPredict", BEDROCK)):
        return anthropic_frames
    if path.endswith("/chat/completions"):
        return openai_frames
    if path.endswith("/responses"):
        tools = cast("list[dict[str, Json]]", request.json().get("tools") or [])
        return partial(responses_frames, plain=[str(tool["name"]) for tool in tools if tool["type"] == "custom"])
    return gemini_frames if path.endswith(":streamGenerateContent") else None


@asynccontextmanager
async def serve_models(
    replies: Sequence[Reply | Sequence[ScriptStep]],
    *,
    repeat: bool = False,
    models: Sequence[str] = ("test-model",),
    port: int = 0,
    record: Path | None = None,
    window: int | None = None,
) -> AsyncGenerator[ModelServer, None]:
    """A server on loopback for as long as the context is open."""
    whole = [reply if isinstance(reply, Reply) else Reply(list(reply)) for reply in replies]
    server = ModelServer(whole, repeat, models, record, window)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    server.port = listener.extra_attributes[SocketAttribute.local_port]()
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, server.handle, tasks))
        yield server
        tasks.cancel_scope.cancel()


async def _read_request(reader: BufferedByteReceiveStream) -> RecordedRequest:
    head = (await reader.receive_until(b"\r\n\r\n", HEAD_BYTES)).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.receive_exactly(int(headers.get("content-length") or 0))
    return RecordedRequest(method, path, headers, body)


def _header_lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())


async def _send_whole(
    stream: SocketStream,
    status: int,
    body: bytes,
    content_type: str = "application/json",
    more: Mapping[str, str] = NO_HEADERS,
) -> bool:
    extra = _header_lines(more)
    head = f"HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    await stream.send(head.encode("latin-1") + body)
    return True


async def _send_stream(stream: SocketStream, reply: Reply, frames: Iterator[Frame], kind: str) -> bool:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n"
    await stream.send(f"{head}{_header_lines(reply.headers)}\r\n".encode("latin-1"))
    sent = 0
    async with aclosing(_writes(reply, frames)) as pieces:
        async for piece, is_frame_start in pieces:
            if is_frame_start:
                if sent == reply.cut_after:
                    return False
                if sent == reply.stall_after:
                    await anyio.sleep_forever()
                sent += 1
            await stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    if reply.cut_after is not None:
        return False
    await stream.send(b"0\r\n\r\n")
    return True


async def _writes(reply: Reply, frames: Iterator[Frame]) -> AsyncGenerator[tuple[bytes, bool], None]:
    """The pieces to write, each with whether a frame starts with it."""
    for frame in frames:
        if isinstance(frame, Pause):
            await (anyio.sleep_forever() if frame.ms is None else anyio.sleep(frame.ms / 1000))
            continue
        size = reply.bytes_per_write or max(len(frame), 1)
        for start in range(0, len(frame), size):
            if start and reply.write_delay_ms:
                await anyio.sleep(reply.write_delay_ms / 1000)
            yield frame[start : start + size], start == 0


def load_server_script(path: Path) -> ServerScript:
    """Read a script file.

    Raises:
        OSError: it cannot be read.
        msgspec.MsgspecError: it is no script.
    """
    data = path.read_bytes()
    if data.lstrip()[:1] == b"{":
        return msgspec.json.decode(data, type=ServerScript)
    return ServerScript(msgspec.json.decode(data, type=list[Reply | list[ScriptStep]]))


async def _serve_for_ever(script: ServerScript, port: int, record: Path | None) -> None:
    replies = script.replies
    async with serve_models(replies, repeat=script.repeat, models=script.models, port=port, record=record) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def main() -> None:
    """Serve a script file until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.model_server", description="A scripted model.")
    parser.add_argument("script", type=Path, help="JSON file of replies")
    parser.add_argument("--port", type=int, default=0, help="port on loopback (default: a free one)")
    parser.add_argument("--record", type=Path, help="append each request's body to this file, one JSON line each")
    options = parser.parse_args()
    try:
        anyio.run(_serve_for_ever, load_server_script(options.script), options.port, options.record)
    except KeyboardInterrupt:
        return


@asynccontextmanager
async def real_http() -> AsyncGenerator[HttpClient, None]:
    """The client that the agent has, with the limits and the clock that it has."""
    http = HttpClient(Deadlines(), SystemClock())
    try:
        yield http
    finally:
        await http.aclose()


if __name__ == "__main__":
    main()
