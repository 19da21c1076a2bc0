"""Server-sent events: bytes in, events out, no I/O.

Owns: the event stream format (WHATWG HTML, section 9.2.6) as far as a client of a model needs it; `id` and `retry` are
read past, since nobody reconnects to a model's answer. Must not know: HTTP and what events mean. Why it is our own:
docs/adr/0003-sse-parser.md.
"""

import re

from msgspec import Struct, field

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Most bytes of one event, and of one line. Some servers send a whole tool call in one event, and a call may hold a
whole file; more than this is a server that never ends its line, and would fill the memory."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class SseTooLargeError(ValueError):
    """One event or line is longer than `MAX_EVENT_BYTES`."""


class SseEvent(Struct, frozen=True):
    """One event: its type (empty when not given) and its data with lines joined by a line feed."""

    event: str
    data: str


class SseParser(Struct):
    """Parses one stream; the chunks may be cut anywhere, also inside a character or a line end."""

    limit: int = MAX_EVENT_BYTES
    _rest: bytearray = field(default_factory=bytearray)
    _searched: int = 0
    _is_start: bool = True
    _event: str = ""
    _data: list[bytes] = field(default_factory=list[bytes])
    _size: int = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take more bytes; give the events that they complete.

        Raises:
            SseTooLargeError: one event or line is longer than the limit; the stream cannot be read further.
        """
        self._rest += chunk
        if self._is_start and not self._skip_bom():
            return []
        events: list[SseEvent] = []
        for line in self._take_lines():
            event = self._take_line(line)
            if event is not None:
                events.append(event)
        if len(self._rest) > self.limit:
            raise SseTooLargeError(f"A line is longer than {self.limit} bytes.")
        return events

    def end(self) -> list[SseEvent]:
        """Take the end of the stream.

        The specification drops an event without its closing empty line; servers that close right after the last data
        line exist, and their event is whole, so it is given.
        """
        line, self._rest = bytes(self._rest), bytearray()
        last = [self._take_line(line.removesuffix(b"\r")), self._take_line(b"")]
        return [event for event in last if event is not None]

    def _skip_bom(self) -> bool:
        """Pass over a byte order mark; False while it cannot be told yet whether there is one."""
        if len(self._rest) < len(_BOM) and _BOM.startswith(bytes(self._rest)):
            return False
        if self._rest.startswith(_BOM):
            del self._rest[: len(_BOM)]
        self._is_start = False
        return True

    def _take_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        start = 0
        for match in _LINE_END.finditer(self._rest, self._searched):
            if match.group() == b"\r" and match.end() == len(self._rest):
                # The line feed of a CRLF may be the next byte.
                self._searched = match.start() - start
                break
            lines.append(bytes(self._rest[start : match.start()]))
            start = match.end()
        else:
            self._searched = len(self._rest) - start
        del self._rest[:start]
        return lines

    def _take_line(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self.limit:
                raise SseTooLargeError(f"An event is longer than {self.limit} bytes.")
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        event, data = self._event, self._data
        self._event, self._data, self._size = "", [], 0
        if not data:
            return None
        return SseEvent(event, b"\n".join(data).decode("utf-8", "replace"))
