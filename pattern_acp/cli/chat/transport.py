"""The agent's pipes, and what it sends of its own accord.

Owns: lines to and from the agent, and handing updates and questions to the terminal's thread. Must not know: what the
messages mean.
"""

from collections import deque

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.lowlevel import checkpoint

from pattern_acp.cli.chat.events import AgentAsks, Inbox, Question, Updated
from pattern_acp.domain.canonical import Json
from pattern_acp.jsonrpc.errors import ConnectionClosedError
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
