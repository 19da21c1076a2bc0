"""Windows of lines of files that are too large to be read whole.

Owns: finding the lines, in two passes and with the memory of a few portions whatever the size. The encodings are those
of `text_codec`. Must not know: editors, who asks.
"""

import codecs
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from pattern_acp.workspace.errors import NotTextError
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.text_codec import EncodingScan, TextEncoding, bom_encoding, is_utf32
from pattern_acp.workspace.walk import WalkStoppedError

_CHUNK_BYTES = 1_000_000


class _Found(Struct, frozen=True):
    """Encoding of a file, its number of lines, and the byte at which the window starts, where bytes can be counted."""

    encoding: str
    total: int
    offset: int = 0
    skipped: int = 0
    """Lines between `offset` and the start of the window."""


def read_window(path: str, window: LineWindow, stop: threading.Event) -> tuple[tuple[str, ...], int]:
    """Read the lines of a window, without their ends, and the number of lines in the file. Blocks.

    Raises:
        NotTextError: it is binary, or in no known encoding.
        WalkStoppedError: `stop` was set.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        head = file.read(4)
        if is_utf32(head):
            raise NotTextError("It has NUL characters, so it is not text.")
        marked = bom_encoding(head)
        file.seek(0)
        chunks = _chunks(file, stop)
        found = (
            _count_wide(chunks, window.start)
            if marked in {"utf-16-le", "utf-16-be"}
            else _count(chunks, window.start, marked)
        )
        file.seek(found.offset)
        return tuple(lines_within(_decoded(_chunks(file, stop), found.encoding), window, found.skipped)), found.total


def _chunks(file: BinaryIO, stop: threading.Event) -> Iterator[bytes]:
    while data := file.read(_CHUNK_BYTES):
        if stop.is_set():
            raise WalkStoppedError
        yield data


def _decoded(chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for data in chunks:
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _count(chunks: Iterable[bytes], start: int, marked: TextEncoding | None) -> _Found:
    scan, ended, position, offset, last = EncodingScan(), 0, 0, 0, b"\n"
    for data in chunks:
        if b"\0" in data:
            raise NotTextError("It has NUL characters, so it is not text.")
        scan.feed(data)
        here = data.count(b"\n")
        if ended < start - 1 <= ended + here:
            offset = position + _behind_newline(data, start - 1 - ended)
        ended, position, last = ended + here, position + len(data), data[-1:]
    scan.feed(b"", is_last=True)
    if scan.encoding is None or (marked and scan.encoding != "utf-8"):
        raise NotTextError("It is text in no encoding that is known here (UTF-8, UTF-16, Windows-1252).")
    total = ended + (last != b"\n")
    encoding = "utf-8-sig" if marked and not offset else scan.encoding
    return _Found(encoding, total, offset, skipped=start - 1 if start > total else 0)


def _behind_newline(data: bytes, number: int) -> int:
    position = 0
    for _ in range(number):
        position = data.index(b"\n", position) + 1
    return position


def _count_wide(chunks: Iterable[bytes], start: int) -> _Found:
    ended, last = 0, "\n"
    try:
        for text in _decoded(chunks, "utf-16"):
            if "\0" in text:
                raise NotTextError("It has NUL characters, so it is not text.")
            ended += text.count("\n")
            last = text[-1:] or last
    except UnicodeDecodeError as error:
        sentence = "It is text in no encoding that is known here (UTF-8, UTF-16, Windows-1252)."
        raise NotTextError(sentence) from error
    return _Found("utf-16", ended + (last != "\n"), skipped=start - 1)


def lines_within(texts: Iterable[str], window: LineWindow, skipped: int) -> Iterator[str]:
    """Yield the lines of a text in portions that lie in the window, `skipped` lines from its beginning.

    A line over the window's width says how much of it is cut.
    """
    head, length, ends_with_return, number, characters = "", 0, False, 0, 0

    def line() -> str:
        whole = length - ends_with_return
        text = head[: min(whole, window.width)]
        return text if whole <= window.width else f"{text} [... {whole - window.width:,} characters cut]"

    for text in texts:
        for index, piece in enumerate(text.split("\n")):
            if index:
                number += 1
                if number > skipped:
                    yield line()
                    characters += length
                    if number - skipped == window.count or characters >= window.characters:
                        return
                head, length, ends_with_return = "", 0, False
            if piece:
                head += piece[: max(0, window.width - len(head))]
                length += len(piece)
                ends_with_return = piece.endswith("\r")
    if length and number >= skipped:
        yield line()
