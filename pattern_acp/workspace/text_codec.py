"""Bytes of a file to text and back.

Owns: which encodings count as text: UTF-8, with or without a byte order mark, UTF-16 with one, and Windows-1252 (also
for Latin-1 text) for bytes that can hardly be anything else. Each of its characters is one byte, so that unedited text
comes back exactly even if the guess is wrong. Line endings pass through untouched. Must not know: files, paths. Needs
the standard library only, since the search worker loads it alone.
"""

import codecs
from typing import Literal, TypeAlias

from pattern_acp.workspace.errors import NotTextError

TextEncoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "cp1252"]
"""`utf-8-sig` and both UTF-16 forms carry a byte order mark in the file."""

_MARKS: tuple[tuple[bytes, TextEncoding], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_OF = {encoding: mark for mark, encoding in _MARKS}

_NO_TEXT = bytes({*range(32), 127} - set(b"\t\n\f\r\x1b"))
"""Control characters that texts do not contain."""

_ASCII = bytes(range(128))

WESTERN_SHARE = 0.3
"""Largest share of characters outside ASCII in Windows-1252 text. Western texts have a tenth at most; texts in Cyrillic
or Japanese encodings have more."""


def is_utf32(data: bytes) -> bool:
    """Return whether the data starts with a UTF-32 mark; its little-endian form starts with that of UTF-16."""
    return data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))


def bom_encoding(data: bytes) -> TextEncoding | None:
    """The encoding that the byte order mark at the start of `data` names, if there is one."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    return None


def is_western(data: bytes) -> bool:
    """Return whether data that is no UTF-8 is text in Windows-1252.

    Text with well-formed characters of UTF-8 in it is UTF-8 with a fault somewhere, and nothing is guessed of it.
    """
    foreign = len(data.translate(None, _ASCII))
    if not 0 < foreign <= WESTERN_SHARE * len(data) or not _is_plain(data) or not _is_cp1252(data):
        return False
    # Whatever can be read as UTF-8 beyond ASCII is left over when all else is passed over.
    return data.decode("utf-8", "ignore").isascii()


class EncodingScan:
    """Finds the encoding of a text without a byte order mark that comes in portions, as `decode_text` would."""

    def __init__(self) -> None:
        self._strict = codecs.getincrementaldecoder("utf-8")()
        self._lenient = codecs.getincrementaldecoder("utf-8")("ignore")
        self._is_utf8 = True
        self._may_be_western = True
        self._size = 0
        self._foreign = 0

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Look at the next portion."""
        self._size += len(data)
        if data.isascii() and not is_last and not self._strict.getstate()[0] and not self._lenient.getstate()[0]:
            self._may_be_western = self._may_be_western and _is_plain(data)
            return
        if self._is_utf8:
            try:
                self._strict.decode(data, is_last)
            except UnicodeDecodeError:
                self._is_utf8 = False
                self._strict.reset()
        self._foreign += len(data.translate(None, _ASCII))
        self._may_be_western = (
            self._may_be_western
            and _is_plain(data)
            and _is_cp1252(data)
            and self._lenient.decode(data, is_last).isascii()
        )

    @property
    def encoding(self) -> TextEncoding | None:
        """Encoding of all that was seen; None for none that is known."""
        if self._is_utf8:
            return "utf-8"
        return "cp1252" if self._may_be_western and 0 < self._foreign <= WESTERN_SHARE * self._size else None


def _is_plain(data: bytes) -> bool:
    return len(data.translate(None, _NO_TEXT)) == len(data)


def _is_cp1252(data: bytes) -> bool:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    return True


def decode_text(data: bytes) -> tuple[str, TextEncoding]:
    """Decode text without its byte order mark; return it with the encoding for writing it back.

    Raises:
        NotTextError: the bytes are none of the known encodings.
    """
    encoding = bom_encoding(data) or "utf-8"
    body = data[len(_MARK_OF.get(encoding, b"")) :]
    try:
        text = body.decode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-8" and is_western(body):
            return body.decode("cp1252"), "cp1252"
        raise NotTextError("It is text in no encoding that is known here (UTF-8, UTF-16, Windows-1252).") from error
    if "\0" in text or is_utf32(data):
        raise NotTextError("It holds NUL characters, so it is not text.")
    return text, encoding


def encode_text(text: str, encoding: TextEncoding) -> bytes:
    """The bytes to store, with the encoding's byte order mark; a mark at the start of `text` is not doubled.

    Raises:
        NotTextError: the text could not be read back: it holds NUL, half of a surrogate pair, or a character that the
            encoding does not have.
    """
    if "\0" in text:
        raise NotTextError("The text holds NUL characters, so it cannot be stored in a text file.")
    mark = _MARK_OF.get(encoding, b"")
    body = text.removeprefix("\ufeff") if mark else text
    try:
        return mark + body.encode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeEncodeError as error:
        if encoding == "cp1252":
            missing = text[error.start]
            raise NotTextError(
                f"The file is in Windows-1252, which does not have the character {missing!r}; "
                "use others, or convert the file to UTF-8 with a command first."
            ) from error
        raise NotTextError("The text holds half of a surrogate pair, so it cannot be stored in a text file.") from error
