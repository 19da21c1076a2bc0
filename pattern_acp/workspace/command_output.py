"""What a command has written so far.

Owns: keeping the newest bytes within a limit, and turning them into text piece by piece. Must not know: processes.
"""

import codecs
from collections import deque

from pattern_acp.workspace.terminal import CommandOutput


class OutputBuffer:
    """The newest `limit` bytes of a command's output, and what of it was not handed out yet."""

    def __init__(self, limit: int) -> None:
        self._limit = max(0, limit)
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._truncated = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._fresh: deque[str] = deque()
        self._fresh_size = 0

    def append(self, data: bytes) -> None:
        """Take bytes as they came; a character may be cut between two calls."""
        self._chunks.append(data)
        self._size += len(data)
        while self._size > self._limit:
            surplus = self._size - self._limit
            oldest = self._chunks.popleft()
            self._truncated = True
            self._size -= len(oldest)
            if len(oldest) > surplus:
                self._chunks.appendleft(oldest[surplus:])
                self._size += len(oldest) - surplus
        self._add_fresh(self._decoder.decode(data))

    def finish(self) -> None:
        """No more bytes will come."""
        self._add_fresh(self._decoder.decode(b"", final=True))

    def take_fresh(self) -> str:
        """The text that was not taken yet; of more than the limit, only the newest."""
        text = "".join(self._fresh)
        self._fresh.clear()
        self._fresh_size = 0
        return text

    def output(self) -> CommandOutput:
        """All that is kept, at once; a character that the limit cut in two is left out."""
        data = b"".join(self._chunks)
        if self._truncated:
            data = data[_whole_from(data) :]
        return CommandOutput(data.decode("utf-8", "replace"), self._truncated)

    def _add_fresh(self, text: str) -> None:
        if not text:
            return
        self._fresh.append(text)
        self._fresh_size += len(text)
        # Nobody may be listening; the text is bounded like the bytes.
        while self._fresh_size > self._limit and len(self._fresh) > 1:
            self._fresh_size -= len(self._fresh.popleft())


def _whole_from(data: bytes) -> int:
    """How many bytes at the start continue a character whose first byte is gone (UTF-8: 0b10xxxxxx, at most three)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return start
