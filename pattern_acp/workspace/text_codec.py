"""Bytes of a file to text and back.

Owns: which encodings count as text: UTF-8, with or without a byte order mark, and UTF-16 with one. Guessing further
(Latin-1, Shift JIS) would write a wrong guess back. Line endings pass through untouched. Must not know: files, paths.
Needs the standard library only, since the search worker loads it alone.
"""

import codecs
from typing import Literal, TypeAlias

from pattern_acp.workspace.errors import NotTextError

TextEncoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]
"""`utf-8-sig` and both UTF-16 forms carry a byte order mark in the file."""

_MARKS: tuple[tuple[bytes, TextEncoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_OF = {encoding: mark for mark, encoding in _MARKS}


def is_utf32(data: bytes) -> bool:
    """Whether the data starts with a UTF-32 mark; its little-endian form starts with that of UTF-16."""
    return data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))


def bom_encoding(data: bytes) -> TextEncoding | None:
    """The encoding that the byte order mark at the start of `data` names, if there is one."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    return None


def decode_text(data: bytes) -> tuple[str, TextEncoding]:
    """The text without its byte order mark, and the encoding to write it back with.

    Raises:
        NotTextError: the bytes are none of the known encodings.
    """
    encoding = bom_encoding(data) or "utf-8"
    body = data[len(_MARK_OF.get(encoding, b"")) :]
    try:
        text = body.decode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeDecodeError as error:
        raise NotTextError("It is neither UTF-8 nor UTF-16 text.") from error
    if "\0" in text or is_utf32(data):
        raise NotTextError("It holds NUL characters, so it is not text.")
    return text, encoding


def encode_text(text: str, encoding: TextEncoding) -> bytes:
    """The bytes to store, with the encoding's byte order mark; a mark at the start of `text` is not doubled.

    Raises:
        NotTextError: the text could not be read back: it holds NUL or half of a surrogate pair.
    """
    if "\0" in text:
        raise NotTextError("The text holds NUL characters, so it cannot be kept in a text file.")
    mark = _MARK_OF.get(encoding, b"")
    body = text.removeprefix("\ufeff") if mark else text
    try:
        return mark + body.encode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeEncodeError as error:
        raise NotTextError("The text holds half of a surrogate pair, so it cannot be kept in a text file.") from error
