"""The agent as a child process, and what it sends on its own.

Owns: its command line, its start, the lines to and from it, the draining of its stderr, handing updates and questions
to the terminal's thread, its end, and the errors that end a chat. The SDK's own helper is not used: it never
reads the child's stderr, so that a talkative agent stands still, and it hides most of the environment (reference acp.md
5.4, fault 13). Must not know: what the messages mean.
"""

import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint
from msgspec import Struct, field

from pattern_acp.cli.chat.events import AgentAsks, Inbox, Question, Updated
from pattern_acp.config.settings import Flags
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import PatternError
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import LineDecoder, Oversize

CHUNK = 65_536


class PipeTransport:
    """`jsonrpc.transport.Transport` over two byte streams."""

    def __init__(self, stdin: ByteSendStream, stdout: ByteReceiveStream) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._decoder = LineDecoder()
        self._lines: deque[bytes | Oversize] = deque()

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        try:
            await self._stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise ConnectionClosedError("The agent is gone.") from error

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        await checkpoint()
        while not self._lines:
            try:
                data = await self._stdout.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return None
            self._lines.extend(self._decoder.feed(data))
        return self._lines.popleft()


class _Notification(msgspec.Struct, rename="camel"):
    session_id: str
    update: dict[str, Json]


class Incoming:
    """Hands updates and questions to the terminal's thread."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.session_id = ""
        """The session whose updates are shown; empty for any."""
        self._open: list[Question] = []

    def follow(self, session_id: str) -> None:
        """Show the updates of this session from now on; unseen ones of the session before are dropped.

        Called while the terminal's thread waits for the session and takes nothing.
        """
        before, self.session_id = self.session_id, session_id
        if before in {"", session_id}:
            return
        for _ in range(self.inbox.qsize()):
            happening = self.inbox.get_nowait()
            if not isinstance(happening, Updated):
                self.inbox.put(happening)

    def ask(self, question: Question) -> None:
        """Hand a question to the user."""
        self._open = [one for one in self._open if one.is_open]
        self._open.append(question)
        self.inbox.put(AgentAsks(question))

    def take_update(self, params: msgspec.Raw) -> None:
        """Hand an update on as it is on the wire, of whatever kind.

        Raises:
            msgspec.ValidationError: it is none.
        """
        told = msgspec.json.decode(params, type=_Notification)
        if self.session_id in {"", told.session_id}:
            self.inbox.put(Updated(told.update))

    def withdraw(self) -> None:
        """Answer open questions with `cancelled` (ACP v1, cancellation)."""
        for question in self._open:
            question.reply(None)
        self._open = []


class ChatError(PatternError):
    """The chat cannot start or continue; its sentence is for the user."""

    failure_code = "chat.not-possible"


class AgentGoneError(ChatError):
    """The agent process ended, or never started."""

    failure_code = "chat.agent-gone"


class AgentRefusedError(ChatError):
    """The agent answered a request with an error."""

    failure_code = "chat.agent-refused"
    is_shown = False
    """True if the agent has said it in the chat before."""


STDERR_KEPT = 8_000
"""Bytes of the agent's last words that are stored for an error sentence."""

END_SECONDS = 2.5
"""The agent ends on its own within 2 s of the end of its input (invariant 9)."""

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
    """Start the agent; it is gone when the context ends. Raises AgentGoneError where it could not be started."""
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
