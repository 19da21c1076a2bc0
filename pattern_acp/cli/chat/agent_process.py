"""The agent as a child process.

Owns: its command line, its start, the draining of its stderr, and its end. The SDK's own helper is not used: it never
reads the child's stderr, so that a talkative agent stands still, and it hides most of the environment (reference acp.md
5.4, fault 13). Must not know: the protocol.
"""

import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct, field

from pattern_acp.cli.chat.errors import AgentGoneError
from pattern_acp.config.settings import Flags

STDERR_KEPT = 8_000
"""Bytes of the agent's last words that are kept for an error sentence."""

END_SECONDS = 2.5
"""The agent ends by itself within 2 s of the end of its input (invariant 9)."""

KILL_SECONDS = 0.5

LAST_WORDS_SECONDS = 2
"""Longest wait for the exit code and the last words of an agent that is gone."""


class AgentProcess(Struct):
    """A running agent."""

    process: Process
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    words: bytearray = field(default_factory=bytearray)
    """The end of what it wrote to stderr."""
    drained: anyio.Event = field(default_factory=anyio.Event)

    async def gone(self) -> AgentGoneError:
        """Why it is gone; waits a moment for its exit code and last words."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self.process.wait()
            await self.drained.wait()
        lines = [line.strip() for line in self.words.decode("utf-8", "replace").splitlines() if line.strip()]
        code = self.process.returncode
        how = "The agent ended" if code is None else f"The agent ended with exit code {code}"
        if lines:
            return AgentGoneError(f"{how}: {lines[-1]}")
        return AgentGoneError(f"{how} and did not say why; `pattern-acp doctor` tells where its log is.")


def agent_command(flags: Flags) -> tuple[str, ...]:
    """The command line of an agent with the same settings as this process."""
    given = {
        "--constellation": flags.constellation,
        "--persona": flags.persona,
        "--model": flags.model,
        "--mode": flags.mode,
        "--thinking": flags.thinking,
        "--log-level": flags.log_level,
    }
    words = [f"{name}={value}" for name, value in given.items() if value is not None]
    own = [
        *(["--exact-model"] if flags.exact_model else []),
        *([f"--max-cost={flags.max_cost}"] if flags.max_cost else []),
    ]
    words += ["acp", *own] if own else []
    # -P: nothing is imported from the folder that the user is in.
    return (sys.executable, "-P", "-m", "pattern_acp", *words)


@asynccontextmanager
async def open_agent(command: Sequence[str], environ: Mapping[str, str]) -> AsyncGenerator[AgentProcess, None]:
    """Start the agent; it is gone when the context ends.

    Raises:
        AgentGoneError: it could not be started.
    """
    agent = await _start(command, environ)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_drain, agent)
            try:
                yield agent
            finally:
                await _end(agent)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(KILL_SECONDS, shield=True):
            await agent.process.aclose()


async def _start(command: Sequence[str], environ: Mapping[str, str]) -> AgentProcess:
    # A group of its own: the terminal sends Ctrl-C to the whole foreground group, and the agent must outlive it.
    flags = subprocess.CREATE_NEW_PROCESS_GROUP if sys.platform == "win32" else 0
    try:
        process = await anyio.open_process(
            list(command), env=environ, start_new_session=sys.platform != "win32", creationflags=flags
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AgentGoneError(f"The agent could not be started: {reason}.") from error
    if process.stdin is None or process.stdout is None:
        raise AgentGoneError("The agent was started without pipes; start the chat again.")
    return AgentProcess(process, process.stdin, process.stdout)


async def _drain(agent: AgentProcess) -> None:
    stderr = agent.process.stderr
    if stderr is not None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in stderr:
                agent.words += data
                del agent.words[:-STDERR_KEPT]
    agent.drained.set()


async def _end(agent: AgentProcess) -> None:
    with anyio.CancelScope(shield=True):
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await agent.stdin.aclose()
        for seconds, insist in ((END_SECONDS, agent.process.terminate), (KILL_SECONDS, agent.process.kill)):
            with anyio.move_on_after(seconds):
                await agent.process.wait()
                return
            with contextlib.suppress(ProcessLookupError):
                insist()
        with anyio.move_on_after(KILL_SECONDS):
            await agent.process.wait()
