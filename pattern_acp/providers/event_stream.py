"""Amazon's event stream: bytes in, events out, no I/O.

Owns: the binary framing (application/vnd.amazon.eventstream; the Smithy specification "Amazon Event Stream") as far as
Bedrock's answers need it: lengths, checksums, headers of text, and the chunk of JSON inside. Must not know: HTTP and
what the events mean.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping

import msgspec
from msgspec import field

from pattern_acp.providers.sse import MAX_EVENT_BYTES, SseEvent

_PRELUDE = struct.Struct(">III")
"""Length of the whole message, length of its headers, checksum of both; CRC-32, as every checksum here."""
_CHECKSUM = struct.Struct(">I")
_LEAST_BYTES = _PRELUDE.size + _CHECKSUM.size
_SHORT = struct.Struct(">H")
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type, where they are fixed; 6 and 7, bytes and text, say their length."""
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

    What a chunk carries is given as an event of server-sent events, and an exception as the error event of the
    Anthropic wire, so that one decoder reads both framings.
    """

    limit: int = MAX_EVENT_BYTES
    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take more bytes; give the events that they complete.

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
        # Before the lengths are believed.
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
    """The headers whose value is text; the others are read past."""
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
