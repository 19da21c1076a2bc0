"""What a background command has written.

Owns: keeping the newest bytes within a limit, telling what was not read yet and how much of that is gone, and judging
whether the last line asks for something. Must not know: processes, who reads.
"""

import re

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.workspace.terminal import CommandOutput

OUTPUT_BYTES = 1_000_000
"""Bytes of output kept of one background command."""

_OVERLAP = 400
"""Characters by which the place in a shortened output is found again."""

_TAIL = 2_000
"""Bytes at the end in which the last line is looked for."""

_ESCAPES = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>])")

_PROMPT = late_pattern(
    r"(?:\[[yY]/[nN](?:/\w+)*\]|\([yY](?:es)?/[nN]o?(?:/[^)]*)?\)|\(END\)|--More--|(?:pass(?:word|phrase|code)|username|"
    r"login|token|pin)\b[^:]*:|press\s+\S.*|hit\s+(?:enter|any)\b.*|^\?\s\S.*|:\s\([^()]*\)|^\(\w+\)|[?:>$#»])\s*$",
    re.IGNORECASE,
)
"""Ends of lines that wait for an answer: a choice, a default, a secret, a pager, a shell or interpreter."""


class NewOutput(Struct, frozen=True):
    """Output since the last reading, and how many bytes before it are not kept any more."""

    text: str
    bytes_dropped: int = 0


class JobOutput:
    """The newest `limit` bytes of output as UTF-8, and how far it was read."""

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._first = 0
        """Number of the first byte that is kept."""
        self._read = 0
        self.new_lines = 0
        """Line ends since the last reading."""

    @property
    def bytes_written(self) -> int:
        """All bytes so far, kept or not."""
        return self._first + len(self._kept)

    @property
    def bytes_unread(self) -> int:
        """Bytes since the last reading, kept or not."""
        return self.bytes_written - self._read

    def append(self, text: str) -> None:
        """Take more output."""
        self.new_lines += text.count("\n")
        self._kept += text.encode("utf-8", "surrogatepass")
        surplus = len(self._kept) - self._limit
        if surplus > 0:
            while surplus < len(self._kept) and self._kept[surplus] & 0xC0 == 0x80:
                surplus += 1  # a character is not cut in two
            del self._kept[:surplus]
            self._first += surplus

    def take_whole(self, output: CommandOutput) -> bool:
        """Take what is new in an output that is given as a whole each time; whether there was anything."""
        known = self._text(self._first)
        whole = output.text
        if not output.truncated and whole.startswith(known) and not self._first:
            fresh = whole[len(known) :]
        else:
            fresh = _behind(known[-_OVERLAP:], whole)
        if fresh:
            self.append(fresh)
        return bool(fresh)

    def take_new(self) -> NewOutput:
        """What was not read yet, which then counts as read."""
        start = max(self._read, self._first)
        new = NewOutput(self._text(start), start - self._read)
        self._read = self.bytes_written
        self.new_lines = 0
        return new

    def last_line(self) -> str:
        """The last line that holds anything, without control sequences."""
        lines = self._tail().splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def ends_with_prompt(self) -> bool:
        """Whether the output ends in a line that looks as if it asked for an answer."""
        return ends_with_prompt(self._tail())

    def _tail(self) -> str:
        return _plain(self._kept[-_TAIL:].decode("utf-8", "replace"))

    def _text(self, start: int) -> str:
        return self._kept[start - self._first :].decode("utf-8", "replace")


def ends_with_prompt(output: str) -> bool:
    """Whether output ends in a line that looks as if it asked for an answer."""
    tail = _plain(output[-_TAIL:])
    # A prompt leaves the cursor behind it; what ends its line is being told, not asked.
    return not tail.endswith("\n") and _PROMPT.search(tail.rsplit("\n", 1)[-1]) is not None


def _behind(end: str, whole: str) -> str:
    """What of `whole` follows the text that ends in `end`; `whole` may have lost its own beginning."""
    place = whole.rfind(end) if end else -1
    if place >= 0:
        return whole[place + len(end) :]
    shared = next((size for size in range(min(len(end), len(whole)), 0, -1) if end.endswith(whole[:size])), 0)
    return whole[shared:]


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text).replace("\r\n", "\n")
