"""Lines that a person pastes while something else is waited for.

Owns: reading stdin beside the event loop without holding up its end. Must not know: what the lines mean.
"""

import os
import sys
import threading

import anyio
from anyio.from_thread import run_sync
from anyio.lowlevel import current_token

CHUNK_BYTES = 4096
"""A terminal gives a line at most at a time; none is longer than this on Linux."""


class PastedLines:
    """Lines of stdin, stripped, none empty. Made within an event loop; reading begins with the first call."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](16)
        self._token = current_token()
        self._reading = False

    async def next(self) -> str:
        """The next line; waits for good once the input has ended."""
        if not self._reading and sys.stdin is not None:
            self._reading = True
            # A daemon that reads the descriptor itself: a thread that waits in a file object holds up the exit.
            threading.Thread(target=self._read, args=(sys.stdin.fileno(),), daemon=True).start()
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            await anyio.sleep_forever()
            raise

    def _read(self, descriptor: int) -> None:
        rest = b""
        try:
            while data := os.read(descriptor, CHUNK_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._hand_over(line)
            self._hand_over(rest)
            run_sync(self._send.close, token=self._token)
        except (OSError, RuntimeError, anyio.RunFinishedError):
            # The terminal went away, or nobody waits any more.
            return

    def _hand_over(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text:
            run_sync(self._offer, text, token=self._token)

    def _offer(self, text: str) -> None:
        try:
            self._send.send_nowait(text)
        except anyio.WouldBlock:
            # More lines than anybody pastes for one question.
            return
