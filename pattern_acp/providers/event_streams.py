"""Server-sent events and Amazon's event stream: bytes in, events out, no I/O.

Owns: both formats (WHATWG HTML, section 9.2.6; `application/vnd.amazon.eventstream`) as far as a client of a model
needs them; `id` and `retry` are skipped, since nobody reconnects to a model's answer. Must not know: HTTP and what
events mean. Why it is our own: docs/adr/0003-sse-parser.md.
"""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Limit on bytes of one event, and of one line. Some servers send a whole tool call in one event, and a call may
contain a whole file; a longer line never ends, and would fill the memory."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class SseTooLargeError(ValueError):
    """One event or line is longer than `MAX_EVENT_BYTES`."""


class SseEvent(Struct, frozen=True):
    """One event: its type (empty if missing) and its data with lines joined by a line feed."""

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
        """Add bytes; return the events that they complete.

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
        """End the stream and return its last events.

        The specification drops an event without its closing empty line; servers that close right after the last data
        line exist, and their event is complete, so it is returned.
        """
        line, self._rest = bytes(self._rest), bytearray()
        last = [self._take_line(line.removesuffix(b"\r")), self._take_line(b"")]
        return [event for event in last if event is not None]

    def _skip_bom(self) -> bool:
        """Skip a byte order mark; return False while it is uncertain whether there is one."""
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


_PRELUDE = struct.Struct(">III")
"""Length of the whole message, length of its headers, checksum of both; CRC-32, as every checksum here."""
_CHECKSUM = struct.Struct(">I")
_LEAST_BYTES = _PRELUDE.size + _CHECKSUM.size
_SHORT = struct.Struct(">H")
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type, if they are fixed; 6 and 7, bytes and text, carry their length."""
_TEXT = 7


class EventStreamError(ValueError):
    """The bytes are no event stream, or were damaged on the way; the stream cannot be read further."""


class _Chunk(msgspec.Struct):
    bytes: str = ""


class _Exception(msgspec.Struct):
    message: str = ""
    original: str = msgspec.field(default="", name="originalMessage")


class EventStreamParser(msgspec.Struct):
    """Parses one stream; the chunks may be cut anywhere.

    The contents of a chunk become an event of server-sent events, and an exception the error event of the Anthropic
    wire, so that one decoder reads both framings.
    """

    limit: int = MAX_EVENT_BYTES
    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Add bytes; return the events that they complete.

        Raises:
            EventStreamError: a checksum or a length is wrong, or a message is longer than the limit.
        """
        self._rest += chunk
        events: list[SseEvent] = []
        while (message := self._take()) is not None:
            event = _event(*message)
            if event is not None:
                events.append(event)
        return events

    def end(self) -> list[SseEvent]:
        """Take the end of the stream: half a message is no event."""
        return []

    def _take(self) -> tuple[Mapping[str, str], bytes] | None:
        """The headers and the payload of the next message, once it is whole."""
        if len(self._rest) < _PRELUDE.size:
            return None
        length, headers, checksum = _PRELUDE.unpack_from(self._rest)
        # Before the lengths are trusted.
        if zlib.crc32(self._rest[: _PRELUDE.size - _CHECKSUM.size]) != checksum:
            raise EventStreamError("The lengths of a message do not match their checksum.")
        if length > self.limit or length < _LEAST_BYTES + headers:
            raise EventStreamError(f"A message cannot be {length} bytes long.")
        if len(self._rest) < length:
            return None
        message = bytes(self._rest[:length])
        del self._rest[:length]
        if zlib.crc32(message[: -_CHECKSUM.size]) != _CHECKSUM.unpack(message[-_CHECKSUM.size :])[0]:
            raise EventStreamError("A message does not match its checksum.")
        start = _PRELUDE.size + headers
        return _headers(message[_PRELUDE.size : start]), message[start : -_CHECKSUM.size]


def _headers(data: bytes) -> Mapping[str, str]:
    """The headers with text values; others are skipped."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name, kind = data[at + 1 : name_end].decode("utf-8", "replace"), data[name_end]
            at = name_end + 1
            size = _SIZES.get(kind)
            if size is None:
                size, at = _SHORT.unpack_from(data, at)[0], at + _SHORT.size
            if kind == _TEXT:
                found[name] = data[at : at + size].decode("utf-8", "replace")
            at += size
    except (IndexError, struct.error) as cause:
        raise EventStreamError("The headers of a message are broken.") from cause
    return found


def _event(headers: Mapping[str, str], payload: bytes) -> SseEvent | None:
    kind = headers.get(":message-type", "")
    if kind == "exception":
        return _failure(headers.get(":exception-type", ""), _message(payload))
    if kind == "error":
        return _failure(headers.get(":error-code", ""), headers.get(":error-message", ""))
    if kind != "event" or headers.get(":event-type") != "chunk":
        # Kinds that are not known are passed over, as in every stream.
        return None
    try:
        chunk = msgspec.json.decode(payload, type=_Chunk)
        return SseEvent("", base64.b64decode(chunk.bytes, validate=True).decode("utf-8", "replace"))
    except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error, ValueError) as cause:
        raise EventStreamError("A chunk holds nothing that can be read.") from cause


def _message(payload: bytes) -> str:
    try:
        found = msgspec.json.decode(payload, type=_Exception)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return found.original or found.message


def _failure(kind: str, message: str) -> SseEvent:
    failure = {"type": "error", "error": {"type": kind or "error", "message": message}}
    return SseEvent("error", msgspec.json.encode(failure).decode())
