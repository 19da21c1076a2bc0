"""The SDK's transport over the agent's pipes.

Owns: lines and JSON. The SDK's own is not used: a line of the agent that is not an object would end its reader
(reference acp.md 5.4, fault 1), and nothing would tell that the agent asked to withdraw a request. Must not know: what
the messages mean.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.lowlevel import checkpoint

from pattern_acp.cli.chat.events import AgentAsks, Inbox, Question, Updated
from pattern_acp.domain.canonical import Json
from pattern_acp.jsonrpc.transport import LineDecoder, Oversize

logger = logging.getLogger(__name__)

CHUNK = 65_536

Message = dict[str, Json]


class PipeTransport:
    """`acp.transports.Transport` over two byte streams.

    `look` sees every message before the SDK does, in wire order, and says whether the SDK is to see it.
    """

    def __init__(self, stdin: ByteSendStream, stdout: ByteReceiveStream, look: Callable[[Message], bool]) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._look = look
        self._decoder = LineDecoder()
        self._lines: deque[bytes | Oversize] = deque()
        self.ended = anyio.Event()
        """Set when the agent closed its side."""

    async def send(self, message: Mapping[str, object]) -> None:
        """Write one message.

        Raises:
            ConnectionError: the agent is gone.
        """
        line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            await self._stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise ConnectionError("The agent is gone.") from error

    async def receive(self) -> Message | None:
        """The next message for the SDK; None when the agent closed its side."""
        # The SDK starts a task for every message; each must run as far as it can before the next one is read.
        await checkpoint()
        while (line := await self._next_line()) is not None:
            message = _parse(line)
            if message is not None and self._look(message):
                return message
        self.ended.set()
        return None

    async def close(self) -> None:
        """Nothing to do: the pipes belong to the process."""

    async def _next_line(self) -> bytes | Oversize | None:
        while not self._lines:
            try:
                data = await self._stdout.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return None
            self._lines.extend(self._decoder.feed(data))
        return self._lines.popleft()


def _parse(line: bytes | Oversize) -> Message | None:
    if isinstance(line, Oversize):
        logger.warning("a line of the agent was longer than %d bytes and was left out", line.limit)
        return None
    try:
        value: Json = json.loads(line)
    except ValueError:
        logger.warning("a line of the agent was not JSON and was left out")
        return None
    return value if isinstance(value, dict) else None


class Incoming:
    """Hands updates and questions to the terminal's thread."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self._open: list[Question] = []

    def ask(self, question: Question) -> None:
        """Hand a question to the user."""
        self._open = [one for one in self._open if one.is_open]
        self._open.append(question)
        self.inbox.put(AgentAsks(question))

    def look(self, message: Message) -> bool:
        """See `PipeTransport`: updates go on as they are; the SDK does not know `$/cancel_request`."""
        if message.get("method") == "$/cancel_request":
            # The only requests that an agent waits for long are questions.
            self.withdraw()
            return False
        params = message.get("params")
        if message.get("method") == "session/update" and isinstance(params, dict):
            update = params.get("update")
            if isinstance(update, dict):
                self.inbox.put(Updated(update))
        return True

    def withdraw(self) -> None:
        """Answer open questions with `cancelled` (ACP v1, cancellation)."""
        for question in self._open:
            question.reply(None)
        self._open = []
