"""Joins streamed text into fewer, larger chunks.

Text goes out at once when nothing went out for 40 ms, otherwise when 40 ms have passed or 400 characters have gathered;
anything else that is shown sends waiting text first, so that order is kept (zed#60134: many small updates cost editors
memory; agent-shell#519: text must not be missing between tool calls).
"""

from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct, field

from pattern_acp.acp.line_budget import CHUNK_CHARACTERS, pieces
from pattern_acp.domain.clock import Clock
from pattern_acp.jsonrpc.errors import ConnectionClosedError

FLUSH_SECONDS = 0.04
FLUSH_CHARACTERS = 400


class Chunk(Struct, frozen=True):
    """Text of one message; `thought` tells reasoning from answer."""

    message_id: str
    text: str
    thought: bool


class FlushTimer(Struct):
    """One task a connection that sends waiting text when its time has come."""

    _due: "list[ChunkBatch]" = field(default_factory=list["ChunkBatch"])
    _wake: anyio.Event = field(default_factory=anyio.Event)

    def schedule(self, batch: "ChunkBatch") -> None:
        """Send what `batch` holds in 40 ms, unless something else does before."""
        if batch not in self._due:
            self._due.append(batch)
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await self._wake.wait()
            await anyio.sleep(FLUSH_SECONDS)
            self._wake = anyio.Event()
            due, self._due = self._due, []
            try:
                for batch in due:
                    await batch.flush()
            except ConnectionClosedError:
                return


class ChunkBatch:
    """Waiting text of one session, in order with everything else the session shows."""

    def __init__(self, send: Callable[[Chunk], Awaitable[None]], timer: FlushTimer, clock: Clock) -> None:
        self._send = send
        self._timer = timer
        self._clock = clock
        self._lock = anyio.Lock(fast_acquire=True)
        self._waiting: list[Chunk] = []
        self._size = 0
        self._sent_at = float("-inf")

    async def add(self, chunk: Chunk) -> None:
        """Take more text; a call that ends by cancellation has taken all of it or none."""
        self._waiting += [Chunk(chunk.message_id, piece, chunk.thought) for piece in pieces(chunk.text)]
        self._size += len(chunk.text)
        quiet = self._clock.monotonic() - self._sent_at >= FLUSH_SECONDS
        if quiet or self._size >= FLUSH_CHARACTERS:
            await self.flush()
        else:
            self._timer.schedule(self)

    async def flush(self) -> None:
        """Send all waiting text now."""
        async with self._lock:
            await self._flush_locked()

    async def then(self, act: Callable[[], Awaitable[None]]) -> None:
        """Send waiting text, then `act`, with nothing in between."""
        async with self._lock:
            await self._flush_locked()
            await act()

    async def _flush_locked(self) -> None:
        while self._waiting:
            chunk, count = self._joined()
            await self._send(chunk)
            del self._waiting[:count]
            self._size -= len(chunk.text)
            self._sent_at = self._clock.monotonic()

    def _joined(self) -> tuple[Chunk, int]:
        first = self._waiting[0]
        count, size = 0, 0
        for chunk in self._waiting:
            size += len(chunk.text)
            is_same = (chunk.message_id, chunk.thought) == (first.message_id, first.thought)
            if count and (not is_same or size > CHUNK_CHARACTERS):
                break
            count += 1
        text = "".join(chunk.text for chunk in self._waiting[:count])
        return Chunk(first.message_id, text, first.thought), count
