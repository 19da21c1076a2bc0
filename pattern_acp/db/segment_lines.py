"""One line of a segment: rows of tables as JSON that shows when it was damaged.

Owns: the form of a line and of a value in it, and where a large value goes. Must not know: tables, files or locks.

A line is one JSON object between two newlines, so that a line that was cut off spoils no other. Its first member `c` is
the CRC-32 of the object without it, in eight hexadecimal digits: what tells a damaged line from a whole one. Bytes are
`{"b": BASE64}`; a value of more than 64 kB is `{"f": SHA256, "k": "t" or "b"}`, the name of a file that holds it and
whether it is text or bytes.
"""

import base64
import hashlib
import zlib
from collections.abc import Callable
from typing import cast

import msgspec

from pattern_acp.db.raw import SqlValue
from pattern_acp.domain.canonical import Json, JsonObject

INLINE_BYTES = 64 * 1024
"""Largest value that stands in a line."""

LINE_BYTES = 256 * 1024
"""Largest line; more than this is an error."""

_SMALL_BYTES = 1024
"""What of a line that would be too long goes into files of its own."""

_OPENING = b'{"c":"'
_CLOSING = b'",'
_BODY = len(_OPENING) + 8 + len(_CLOSING)

# Programs that split at every kind of line end would otherwise see two lines.
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))

Keep = Callable[[str, bytes], None]
"""Keeps a large value under its SHA-256, durably, before the line that names it is written."""

Fetch = Callable[[str], bytes]
"""Gives the value back.

Raises:
    SegmentDamageError: it is not there, or is not what it was.
"""


class SegmentDamageError(ValueError):
    """A line, or a file that it names, is not what was written."""


class LineTooLongError(ValueError):
    """A line would be longer than `LINE_BYTES`, whatever was kept elsewhere."""


def encode_line(line: JsonObject) -> bytes:
    """The bytes of a line, with the newline before and behind it."""
    body = msgspec.json.encode(line)
    for raw, escaped in _LINE_ENDS:
        body = body.replace(raw, escaped)
    return b"\n%b%08x%b%b\n" % (_OPENING, zlib.crc32(body), _CLOSING, body[1:])


def decode_line(raw: bytes) -> JsonObject:
    """The line of these bytes, which hold no newline.

    Raises:
        SegmentDamageError: they are not a line, or not as it was written.
    """
    body = b"{" + raw[_BODY:]
    if raw[:_BODY] != b"%b%08x%b" % (_OPENING, zlib.crc32(body), _CLOSING):
        raise SegmentDamageError("a line is not what was written")
    try:
        return cast("JsonObject", msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SegmentDamageError("a line is not what was written") from error


def encode_rows(line: Callable[[list[Json]], JsonObject], rows: list[tuple[SqlValue, ...]], keep: Keep) -> bytes:
    """The bytes of a line that holds rows; `line` puts them into it.

    Raises:
        LineTooLongError: it would be too long.
    """
    for most in (INLINE_BYTES, _SMALL_BYTES):
        encoded: list[Json] = [_encode_row(row, keep, most) for row in rows]
        found = encode_line(line(encoded))
        if len(found) <= LINE_BYTES:
            return found
    raise LineTooLongError(f"a line of {len(found):,} bytes, where {LINE_BYTES:,} are allowed")


def decode_row(row: Json, fetch: Fetch) -> tuple[SqlValue, ...]:
    """The row that `encode_rows` was given.

    Raises:
        SegmentDamageError: a value is not one, or its file is gone or damaged.
    """
    if not isinstance(row, list):
        raise SegmentDamageError("a row is not a list")
    return tuple(_decode_value(value, fetch) for value in row)


def _encode_row(row: tuple[SqlValue, ...], keep: Keep, most: int) -> list[Json]:
    # Most values are numbers and short texts, which stand as they are; a character has four bytes at most.
    short = most // 4
    return [
        value
        if value is None or type(value) is int or (type(value) is str and len(value) <= short)
        else _encode_value(value, keep, most)
        for value in row
    ]


def _encode_value(value: SqlValue, keep: Keep, most: int) -> Json:
    if isinstance(value, str | bytes):
        content = value.encode("utf-8") if isinstance(value, str) else value
        if len(content) > most:
            name = hashlib.sha256(content).hexdigest()
            keep(name, content)
            return {"f": name, "k": "t" if isinstance(value, str) else "b"}
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode("ascii")}
    return cast("Json", value)


def _decode_value(value: Json, fetch: Fetch) -> SqlValue:
    match value:
        case None | str() | int() | float():
            return value
        case {"b": str(encoded)}:
            try:
                return base64.b64decode(encoded, validate=True)
            except ValueError as error:
                raise SegmentDamageError("a value is not Base64") from error
        case {"f": str(name), "k": "t"}:
            try:
                return fetch(name).decode("utf-8")
            except UnicodeDecodeError as error:
                raise SegmentDamageError("a value is not text") from error
        case {"f": str(name), "k": "b"}:
            return fetch(name)
        case _:
            raise SegmentDamageError("a value has no form that is known")
