"""The process that matches lines for `search`.

Owns: reading portions of file names from stdin, writing what was found in each file to its own stdout, and going
through large files without loading them whole. Must not import anything outside the standard library and
`text_codec`, and must not know about ignore rules or limits of display.
"""

import codecs
import json
import os
import re
import stat
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, TypedDict, cast

from pattern_acp.workspace.text_codec import EncodingScan, bom_encoding, is_utf32, is_western

Skipped: TypeAlias = Literal["binary", "too large", "unreadable"]
"""Reason why a file is not searched; "too large" is one with a line that no memory should have to hold."""

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_SMALL_BYTES = 65_536
"""Size that most files of text are below."""

_CHUNK_BYTES = 1_000_000

_WIDE = ("utf-16-le", "utf-16-be")

_MOST_LINE_CHARS = 10_000_000
"""Longest line of a file that is read in portions; a file with a longer one is not text that lines are searched in."""


class LineRequest(TypedDict):
    """A search, the first line of stdin. `limit` is matching lines a file, names are relative to `root`.

    Each further line is a portion, `[number, names]`, where "" names root itself; with a third item, the text of the
    one file of the portion. Files over `whole_bytes` are read bit by bit. `literal` is a text of ASCII that each line
    that matches has in it, "" where none is known. `spans_lines`: the pattern is matched with whole texts.
    """

    pattern: str
    ignore_case: bool
    literal: str
    context: int
    limit: int
    whole_bytes: int
    root: str
    spans_lines: bool


class FileSkippedError(Exception):
    """The file is not searched, and why."""

    def __init__(self, reason: Skipped) -> None:
        super().__init__(reason)
        self.reason: Skipped = reason


def main() -> int:
    """Serve portions until stdin ends; the exit code is 0 unless something unforeseen happened.

    A line of the answer is `[portion, index, lines]`, `[portion, index, reason]` for a file that was skipped, or
    `[portion]` at the end of a portion.
    """
    request = cast("LineRequest", json.loads(sys.stdin.buffer.readline()))
    out = sys.stdout.buffer
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = re.IGNORECASE if request["ignore_case"] else re.NOFLAG
            expression = re.compile(request["pattern"], flags | (re.MULTILINE if request["spans_lines"] else re.NOFLAG))
    except (re.error, OverflowError, RecursionError) as error:
        out.write(json.dumps(str(error)).encode() + b"\n")
        return 0
    needed = Needed(request["literal"], ignore_case=request["ignore_case"])
    find = lines_of_spans if request["spans_lines"] else matching_lines
    for portion_line in sys.stdin.buffer:
        number, names, *texts = cast("tuple[int, list[str], str]", json.loads(portion_line))
        for index, name in enumerate(names):
            path = f"{request['root']}/{name}" if name else request["root"]
            try:
                lines = _lines_of_text(texts[0]) if texts else lines_of(path, needed, request["whole_bytes"])
                # Nearly always there are none, since most files lack what is needed.
                found = list(find(lines, expression, request["context"], request["limit"])) if lines else None
            except FileSkippedError as skipped:
                found = skipped.reason
            if found:
                out.write(json.dumps([number, index, found]).encode() + b"\n")
                # What was found is shown even where a later file takes all the time there is.
                out.flush()
        out.write(json.dumps([number]).encode() + b"\n")
        out.flush()
    return 0


class Needed:
    """A text without which no line matches, so that most files need not be decoded."""

    def __init__(self, literal: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._bytes = (literal.lower() if ignore_case else literal).encode("ascii")
        self.overlap = max(0, len(self._bytes) - 1)
        """Bytes of the end of a portion in which it may begin."""

    def is_in(self, data: bytes) -> bool:
        """Return whether data in an encoding that has ASCII's bytes may match."""
        return self._bytes in (data.lower() if self._ignore_case else data)


def lines_of(path: str, needed: Needed, whole_bytes: int) -> Iterable[str]:
    """Return the lines of a file without their ends; none where `needed` is not in it. Foreign bytes become U+FFFD.

    Raises:
        FileSkippedError: it cannot be searched, which may also come out in the middle of a large file.
    """
    data = _small_file(path, whole_bytes)
    if data is None:
        return _lines_of_large(path, needed)
    if b"\0" in data:
        # UTF-16 without a NUL has no character of ASCII in it, and so nothing that is needed.
        encoding = _encoding_of_start(data)
        if encoding not in _WIDE:
            raise FileSkippedError("binary")
        return _lines_of_text(data[2:].decode(encoding, "replace"))
    if not needed.is_in(data):
        return ()
    encoding = bom_encoding(data)
    if encoding in _WIDE:
        return _lines_of_text(data[2:].decode(encoding, "replace"))
    try:
        return _lines_of_text(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return _lines_of_text(data.decode("cp1252" if is_western(data) else "utf-8-sig", "replace"))


def _small_file(path: str, whole_bytes: int) -> bytes | None:
    """Return the bytes of the file, none when it has gone; None when it is large."""
    try:
        # A pipe would wait for its other end.
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        # It was there a moment ago; now there is nothing to leave out.
        return b""
    except (OSError, ValueError) as error:
        raise FileSkippedError("unreadable") from error
    try:
        data = os.read(descriptor, _SMALL_BYTES)
        if len(data) == _SMALL_BYTES or not data:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileSkippedError("unreadable")
            if found.st_size > whole_bytes:
                return None
        while more := os.read(descriptor, _CHUNK_BYTES):
            data += more
    except OSError as error:
        raise FileSkippedError("unreadable") from error
    finally:
        os.close(descriptor)
    return data


def _encoding_of_start(head: bytes) -> str | None:
    if is_utf32(head):
        raise FileSkippedError("binary")
    return bom_encoding(head)


def _lines_of_text(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _lines_of_large(path: str, needed: Needed) -> Iterator[str]:
    """The lines of a file, read twice: to know what it is, and to give its lines where there may be one to find."""
    encoding = _large_encoding(path, needed)
    if encoding:
        yield from _without_last(_split(_decoded(path, encoding)))


def _large_encoding(path: str, needed: Needed) -> str:
    """Return the codec of the file; "" where nothing in it can match."""
    scan, before, is_wanted, is_first = EncodingScan(), b"", False, True
    for data in _chunks(path):
        if is_first and _encoding_of_start(data) in _WIDE:
            return "utf-16"
        is_first = False
        if b"\0" in data:
            raise FileSkippedError("binary")
        scan.feed(data)
        is_wanted = is_wanted or needed.is_in(before + data)
        before = data[-needed.overlap :] if needed.overlap else b""
    scan.feed(b"", is_last=True)
    return (scan.encoding or "utf-8").replace("utf-8", "utf-8-sig") if is_wanted else ""


def _chunks(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb", buffering=0) as file:
            while data := file.read(_CHUNK_BYTES):
                yield data
    except OSError as error:
        raise FileSkippedError("unreadable") from error


def _decoded(path: str, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for data in _chunks(path):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _split(texts: Iterable[str]) -> Iterator[str]:
    """The lines of a text in portions; the last is "" when the text ends with a line's end."""
    rest = ""
    for text in texts:
        if "\n" in text:
            first, *lines = text.split("\n")
            yield rest + first
            rest = lines.pop()
            yield from lines
        else:
            rest += text
        if len(rest) > _MOST_LINE_CHARS:
            raise FileSkippedError("too large")
    yield rest


def _without_last(lines: Iterator[str]) -> Iterator[str]:
    """The lines without the empty one behind the end of the last."""
    before = next(lines, "")
    for line in lines:
        yield before
        before = line
    if before:
        yield before


def matching_lines(
    lines: Iterable[str], expression: re.Pattern[str], context: int, limit: int
) -> Iterator[tuple[int, str, int | None]]:
    """Matching lines (number, text, start of the match) with the lines around them, each line once."""
    before: deque[tuple[int, str]] = deque(maxlen=context)
    context_until = 0
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        match = expression.search(line) if limit else None
        if match is not None:
            for each, text in before:
                yield each, text, None
            before.clear()
            yield number, line, match.start()
            context_until, limit = number + context, limit - 1
        elif number <= context_until:
            yield number, line, None
        elif not limit:
            return
        elif context:
            before.append((number, line))


def lines_of_spans(
    lines: Iterable[str], expression: re.Pattern[str], context: int, limit: int
) -> Iterator[tuple[int, str, int | None]]:
    """The lines of matches that may go over several, as `matching_lines` gives those of one.

    Raises:
        FileSkippedError: the text is too large to be matched as a whole.
    """
    kept: list[str] = []
    size = 0
    for raw in lines:
        kept.append(raw.removesuffix("\r"))
        size += len(raw)
        if size > _MOST_LINE_CHARS:
            raise FileSkippedError("too large")
    text = "\n".join(kept)
    starts: dict[int, int] = {}
    number, counted = 1, 0
    for match in expression.finditer(text):
        number += text.count("\n", counted, match.start())
        counted = match.start()
        starts.setdefault(number, match.start() - text.rfind("\n", 0, match.start()) - 1)
        inside = match[0].removesuffix("\n").count("\n")
        for further in range(number + 1, number + inside + 1):
            starts.setdefault(further, 0)
        if len(starts) >= limit:
            break
    near = {other for line in starts for other in range(max(line - context, 1), min(line + context, len(kept)) + 1)}
    for line in sorted(near):
        yield line, kept[line - 1], starts.get(line)
