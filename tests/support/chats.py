"""`pattern-acp chat` and its agent in this process, over a loopback instead of pipes.

Owns: the standard streams of one chat. Must not know: what is asked or shown.
"""

import io
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct

from pattern_acp.bootstrap.process import start_process
from pattern_acp.bootstrap.serve import serve_transport
from pattern_acp.cli.arguments import EXIT_ERROR, Chat
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.chat.agent_process import AgentProcess
from pattern_acp.cli.chat.run import run
from pattern_acp.cli.command_runner import run_call
from pattern_acp.cli.output import write_failed
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.settings import Flags
from pattern_acp.domain.errors import PatternError
from pattern_acp.jsonrpc.transport import LoopbackTransport, Oversize, loopback_pair


class Done(Struct, frozen=True):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


class Sender(ByteSendStream):
    """The agent's stdin: whole lines, as the chat writes them."""

    def __init__(self, far: LoopbackTransport) -> None:
        self._far = far

    async def send(self, item: bytes) -> None:
        for line in item.splitlines(keepends=True):
            await self._far.send(line)

    async def aclose(self) -> None:
        self._far.close_sending()


class Receiver(ByteReceiveStream):
    """The agent's stdout."""

    def __init__(self, far: LoopbackTransport) -> None:
        self._far = far

    async def receive(self, max_bytes: int = 65536) -> bytes:
        del max_bytes  # the chat takes lines of any length
        line = await self._far.receive()
        if line is None or isinstance(line, Oversize):
            raise anyio.EndOfStream
        return line + b"\n"

    async def aclose(self) -> None:
        return


class Running(Struct):
    """What is asked of a process that ended, which is its exit code alone."""

    returncode: int = 0

    async def wait(self) -> int:
        return self.returncode


@asynccontextmanager
async def agent_beside(flags: Flags, environ: Mapping[str, str]) -> AsyncGenerator[AgentProcess]:
    """Serve an agent beside the chat until the context ends."""
    near, far = loopback_pair()
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def serve() -> None:
            await serve_transport(start_process(flags, environ), near, last_resort=False)
            ended.set()

        tasks.start_soon(serve)
        agent = AgentProcess(cast("Process", Running()), Sender(far), Receiver(far))
        agent.drained.set()
        try:
            yield agent
        finally:
            with anyio.CancelScope(shield=True):
                far.close_sending()
                await ended.wait()


def chat_beside(environ: Mapping[str, str], folder: Path, *words: str, stdin: str = "") -> Done:
    """Run `pattern-acp chat` with these words in `folder`."""
    arguments = parse_arguments(["chat", *words])
    if not isinstance(arguments, Chat):
        raise TypeError(arguments)
    with chdir(folder), _streams(stdin) as (out, err):
        try:
            code = run(arguments, start_process(arguments.flags, environ), lambda flags: agent_beside(flags, environ))
        except PatternError as error:
            write_failed(error, as_json=arguments.json)
            code = EXIT_ERROR
    return Done(code, _text(out), _text(err))


def sessions_beside(environ: Mapping[str, str], folder: Path, *words: str) -> str:
    """What `pattern-acp sessions` with these words prints in `folder`."""
    arguments = parse_arguments(["sessions", *words])
    if not isinstance(arguments, TypedCommand):
        raise TypeError(arguments)
    with chdir(folder), _streams("") as (out, _):
        run_call(arguments, start_process(Flags(), environ))
    return _text(out)


@contextmanager
def _streams(stdin: str) -> Generator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    usual = sys.stdin
    with redirect_stdout(out), redirect_stderr(err), _file(stdin) as file:
        sys.stdin = file
        try:
            yield out, err
        finally:
            sys.stdin = usual


@contextmanager
def _file(text: str) -> Generator[io.TextIOWrapper]:
    # A pipe, since only what has a descriptor is looked at for what is piped in.
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w", encoding="utf-8") as file:
        file.write(text)
    with os.fdopen(ours, encoding="utf-8") as file:
        yield file


def _text(stream: io.TextIOWrapper) -> str:
    return cast("io.BytesIO", stream.buffer).getvalue().decode()
