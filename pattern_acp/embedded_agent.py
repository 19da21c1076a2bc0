"""The agent inside another Python program, behind the interface of the ACP SDK.

Owns: a connection in memory between the SDK's types and the agent that editors speak to, so that both are one agent.
Must not know: what any method does.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import acp
import anyio
from anyio.lowlevel import checkpoint

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.bootstrap.serve import serve_transport
from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import Flags
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import LoopbackTransport, Oversize, loopback_pair

if TYPE_CHECKING:
    from types import CoroutineType

    from acp.client.connection import ClientSideConnection

    from pattern_acp.config.settings import Mode, ThinkingSetting

P = ParamSpec("P")
R = TypeVar("R")


def _passed(
    method: Callable[Concatenate[acp.Agent, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["PatternAgent", P], "CoroutineType[Any, Any, R]"]:
    """A method of `acp.Agent` that asks the agent through the SDK's own client."""

    @wraps(method)
    async def passed(self: "PatternAgent", *args: P.args, **kwargs: P.kwargs) -> R:
        asked: Callable[P, Awaitable[R]] = getattr(self.connection, method.__name__)
        return await asked(*args, **kwargs)

    return passed


class PatternAgent:
    """`acp.Agent`: the agent for `acp.run_agent` and `acp.AgentSideConnection`, for one client.

    It runs while its context is open::

        async with PatternAgent(model="anthropic/claude-sonnet-4-5") as agent:
            await acp.run_agent(agent)
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        constellation: str | None = None,
        persona: str | None = None,
        mode: "Mode | None" = None,
        thinking: "ThinkingSetting | None" = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start from the user's settings and the environment; None takes their value.

        Args:
            model: `PROVIDER/MODEL`; sessions are refused where it cannot be obtained.
            constellation: The constellation whose memory is used.
            persona: The persona that answers.
            mode: The mode, which decides what runs without a question.
            thinking: The amount of thinking.
            environ: The environment, instead of the process's own.
        """
        flags = Flags(model, constellation, persona, mode, thinking, exact_model=model is not None)
        self._process: Process = start_process(flags, process_environment() if environ is None else environ)
        self._stack = AsyncExitStack()
        self._far: LoopbackTransport | None = None
        self._connection: ClientSideConnection | None = None

    async def __aenter__(self) -> "PatternAgent":
        self._far = await self._stack.enter_async_context(_served(self._process))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._connection is not None:
            await self._connection.close()
        return await self._stack.__aexit__(kind, error, trace)

    def on_connect(self, conn: acp.Client) -> None:
        """Take the client that the agent asks and tells.

        Raises:
            RuntimeError: the context of the agent is not open, or it has a client already.
        """
        if self._far is None or self._connection is not None:
            raise RuntimeError("A PatternAgent serves one client, inside `async with`; make another one.")
        self._connection = acp.connect_to_agent(conn, _Messages(self._far), use_unstable_protocol=True)

    @property
    def connection(self) -> "ClientSideConnection":
        """The SDK's client of the agent.

        Raises:
            RuntimeError: no client is connected.
        """
        if self._connection is None:
            raise RuntimeError("No client is connected; give the PatternAgent to acp.run_agent.")
        return self._connection

    initialize = _passed(acp.Agent.initialize)
    authenticate = _passed(acp.Agent.authenticate)
    new_session = _passed(acp.Agent.new_session)
    load_session = _passed(acp.Agent.load_session)
    list_sessions = _passed(acp.Agent.list_sessions)
    fork_session = _passed(acp.Agent.fork_session)
    resume_session = _passed(acp.Agent.resume_session)
    close_session = _passed(acp.Agent.close_session)
    set_session_mode = _passed(acp.Agent.set_session_mode)
    set_config_option = _passed(acp.Agent.set_config_option)
    prompt = _passed(acp.Agent.prompt)
    cancel = _passed(acp.Agent.cancel)
    ext_method = _passed(acp.Agent.ext_method)
    ext_notification = _passed(acp.Agent.ext_notification)


@asynccontextmanager
async def _served(process: Process) -> AsyncGenerator[LoopbackTransport]:
    near, far = loopback_pair()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            # The program that embeds the agent owns signals and the end of the process.
            await serve_transport(process, near, last_resort=False)
            far.close()

        tasks.start_soon(serve)
        try:
            yield far
        finally:
            # The end of input: turns are cancelled and recorded, and everything is closed, within a bounded time.
            far.close()


class _Messages:
    """The SDK's transport over our own lines."""

    def __init__(self, far: LoopbackTransport) -> None:
        self._far = far

    async def send(self, message: dict[str, Any]) -> None:
        try:
            await self._far.send(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except ConnectionClosedError as error:
            raise ConnectionError("The agent has ended.") from error

    async def receive(self) -> dict[str, Any] | None:
        # The SDK starts a task for every message; each must run as far as it can before the next one is read.
        await checkpoint()
        line = await self._far.receive()
        return None if line is None or isinstance(line, Oversize) else json.loads(line)

    async def close(self) -> None:
        self._far.close()
