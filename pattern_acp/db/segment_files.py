"""The files of segments: where they are, appending to them, and reading them whatever was cut off or damaged.

Owns: names, framing, rolling, the note about a torn line, and the lock between processes. Must not know: what a line
says beyond the numbers of the events in it, or any table. Everything here blocks.

Beside the constellation, `segments/0001/seg-000000000001.jsonl` is the first segment of the first *generation*; the
number is that of the first event in it, from its birth. A segment is only ever added to, and never renamed. A line that
was cut off stays where it is: the one who writes next notes its place and hash, so that a reader tells it from damage.
A generation is written again as a whole where the rows of the one before no longer are those of the constellation.
"""

import base64
import contextlib
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct, field

from pattern_acp.db.raw import SqlValue
from pattern_acp.domain.canonical import Json, JsonObject

INLINE_BYTES = 64 * 1024
"""Largest value that is in a line."""

LINE_BYTES = 256 * 1024
"""Largest line; more than this is an error."""

_SMALL_BYTES = 1024
"""A function that stores a part of a line that would be too long in a file of its own."""

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
    """A line would be longer than `LINE_BYTES`, whatever was stored elsewhere."""


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
    """The row that `encode_rows` encoded.

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


FOLDER = "segments"
"""The folder of segments, beside the constellation."""

SEGMENT_BYTES = 10_000_000
"""Size from which on a new segment is begun."""

_PIECE_BYTES = 1_000_000
"""Lines that are written at once, and so are in memory."""

_TAIL_BYTES = 600_000
"""The end of a segment that is read to find its last event: lines have 256 kB at most."""

_LOCK = "lock"
_LOCK_PAUSE_SECONDS = 0.02
_VALUES = "blobs"
_NAME = "seg-{:012}.jsonl"


class Torn(Struct, frozen=True):
    """A piece of a line that was cut off: where it begins, its bytes, and their SHA-256."""

    at: int
    size: int
    sha256: str


class SegmentReading(Struct):
    """The findings besides lines while segments were read."""

    torn: int = 0
    """Lines that were cut off when they were written: expected after a crash, at most one each time."""
    damaged: list[str] = field(default_factory=list[str])
    """The places of lines that are not what was written, such as `seg-000000000001.jsonl, byte 4711`."""


class SegmentPosition(Struct, frozen=True):
    """The end of a segment: its file and size. While both are the same, nobody wrote there."""

    segment: Path
    size: int

    @property
    def is_unchanged(self) -> bool:
        """True when the segment is still there and of that size."""
        try:
            return self.segment.stat().st_size == self.size
        except OSError:
            return False


class Tail(Struct, frozen=True):
    """The end of a generation: the number of its last event, 0 without one, and its row as it was written."""

    seq: int = 0
    row: tuple[Json, ...] = ()


def generations(path: Path) -> list[Path]:
    """The folders of the generations of the constellation at `path`, oldest first."""
    folder = path.parent / FOLDER
    if not folder.is_dir():
        return []
    return sorted(each for each in folder.iterdir() if each.name.isdecimal() and each.is_dir())


def next_generation(path: Path) -> Path:
    """The folder of a new generation, which is not made yet."""
    known = generations(path)
    return path.parent / FOLDER / f"{int(known[-1].name) + 1 if known else 1:04}"


def segments(generation: Path) -> list[Path]:
    """The segments of a generation, oldest first."""
    return sorted(generation.glob("seg-*.jsonl"))


def size_of(generation: Path) -> int:
    """Bytes of all that a generation holds."""
    return sum(each.stat().st_size for each in generation.rglob("*") if each.is_file())


@contextlib.contextmanager
def only_writer(path: Path, *, seconds: float = 0.0) -> Generator[bool]:
    """Be the one process that changes the segments of a constellation. False: another one is, `seconds` later too.

    Raises:
        OSError: the folder cannot be used.
    """
    folder = path.parent / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Late: a start has no use for it. The system gives a lock back when its holder is killed.
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK, timeout=seconds, poll_interval=_LOCK_PAUSE_SECONDS, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def delete_segments(path: Path, *, seconds: float) -> bool:
    """Delete all segments of a constellation, since words were forgotten. False: another process was in the way.

    They are written again from what the constellation still holds.

    Raises:
        OSError: a file cannot be deleted.
    """
    if not generations(path):
        return True
    with only_writer(path, seconds=seconds) as locked:
        if locked:
            for each in generations(path):
                shutil.rmtree(each)
        return locked


class SegmentWriter:
    """Appends to one generation. Only under `only_writer`; `close` makes what was written last."""

    def __init__(self, generation: Path, header: JsonObject, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`header` is the first line of every segment that is begun here.

        Raises:
            OSError: the folder cannot be used.
        """
        (generation / _VALUES).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.generation = generation
        self._header = header
        self._segment_bytes = segment_bytes
        self._descriptor: int | None = None
        self._path = generation
        self._size = 0
        known = segments(generation)
        if known:
            self._go_on(known[-1])

    def write(self, first_seq: int, lines: Iterable[bytes]) -> None:
        """Append lines, of which the first event is `first_seq`, to the newest segment or to a new one.

        Raises:
            OSError: they could not be written; a piece of one may have been.
        """
        if self._descriptor is None or self._size >= self._segment_bytes:
            self._begin(first_seq)
        piece, size = list[bytes](), 0
        for line in lines:
            piece.append(line)
            size += len(line)
            if size >= _PIECE_BYTES:
                self._append(b"".join(piece))
                piece, size = [], 0
        self._append(b"".join(piece))

    @property
    def place(self) -> SegmentPosition:
        """The place of the next line."""
        return SegmentPosition(self._path, self._size)

    def keep(self, name: str, content: bytes) -> None:
        """Keep a large value in a file of its own, durably, unless it is there already.

        Raises:
            OSError: it could not be written.
        """
        target = self.generation / _VALUES / name
        if target.exists():
            return
        part = target.with_suffix(".part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(target)

    def close(self) -> None:
        """Make everything last, and let go of the file; harmless when closed. Raises OSError where the disk failed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _begin(self, first_seq: int) -> None:
        self.close()
        self._open(self.generation / _NAME.format(first_seq))
        self._append(encode_line({**self._header, "first": first_seq}))

    def _go_on(self, newest: Path) -> None:
        piece = _torn_end(newest)
        self._open(newest)
        if piece is not None:
            note: dict[str, Json] = {"at": piece.at, "bytes": piece.size, "sha256": piece.sha256}
            self._append(encode_line({"torn": note}))

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o600)
        self._path = path
        self._size = os.fstat(self._descriptor).st_size

    def _append(self, content: bytes) -> None:
        if self._descriptor is None:
            raise ValueError("A segment was written to after it was closed.")
        _write_all(self._descriptor, content)
        self._size += len(content)


def read_value(generation: Path, name: str) -> bytes:
    """A large value that a line names. Raises SegmentDamageError where it is not there, or is not what it was."""
    try:
        content = (generation / _VALUES / name).read_bytes() if name.isalnum() else b""
    except OSError as error:
        raise SegmentDamageError(f"the file {name[:12]} cannot be read") from error
    if hashlib.sha256(content).hexdigest() != name:
        raise SegmentDamageError(f"the file {name[:12]} is not what it was")
    return content


def read_lines(segment: Path, reading: SegmentReading, *, last_bytes: int | None = None) -> Iterator[JsonObject]:
    """The lines of a segment in order, or those in its last bytes; what is no line is counted in `reading`.

    Raises:
        OSError: it cannot be read.
    """
    with segment.open("rb") as file:
        start = max(0, segment.stat().st_size - last_bytes) if last_bytes else 0
        file.seek(start)
        content = file.read()
    if start:
        # Nobody knows where the first line began.
        cut = content.find(b"\n") + 1
        start, content = start + cut, content[cut:]
    pieces = list(_pieces(content, start))
    torn = {(note.at, note.size): note for note in _notes(pieces)}
    for at, raw, whole in pieces:
        note = torn.get((at, len(raw)))
        if not whole or (note is not None and hashlib.sha256(raw).hexdigest() == note.sha256):
            reading.torn += 1
            continue
        try:
            line = decode_line(raw)
        except SegmentDamageError:
            reading.damaged.append(f"{segment.name}, byte {at}")
            continue
        if "torn" not in line:
            yield line


def has_lines(generation: Path) -> bool:
    """Return whether a generation holds anything that was ever written whole.

    Raises:
        OSError: it cannot be read.
    """
    for segment in segments(generation):
        with segment.open("rb") as file:
            if file.readline().endswith(b"\n"):
                return True
    return False


def read_header(generation: Path) -> JsonObject:
    """The first line of the newest segment of a generation that has a sound one; empty without one.

    Raises:
        OSError: it cannot be read.
    """
    for segment in reversed(segments(generation)):
        line = next(read_lines(segment, SegmentReading()), None)
        if line is not None and "segment" in line:
            return line
    return {}


def read_tail(generation: Path) -> Tail:
    """The last event of a generation whose line is whole. Raises OSError where it cannot be read."""
    for segment in reversed(segments(generation)):
        for last_bytes in (_TAIL_BYTES, None):
            found = Tail()
            for line in read_lines(segment, SegmentReading(), last_bytes=last_bytes):
                match line:
                    case {"e": [int(seq), *rest]}:
                        found = Tail(seq, (seq, *rest))
                    case _:
                        pass
            if found.seq:
                return found
    return Tail()


def _pieces(content: bytes, start: int) -> Iterator[tuple[int, bytes, bool]]:
    """The lines with their places in the file, each with whether a newline follows."""
    at = 0
    while at < len(content):
        end = content.find(b"\n", at)
        if end < 0:
            yield start + at, content[at:], False
            return
        if end > at:
            yield start + at, content[at:end], True
        at = end + 1


def _notes(pieces: list[tuple[int, bytes, bool]]) -> Iterator[Torn]:
    for _, raw, whole in pieces:
        if not whole or b'"torn":' not in raw[:40]:
            continue
        with contextlib.suppress(SegmentDamageError):
            match decode_line(raw):
                case {"torn": {"at": int(at), "bytes": int(size), "sha256": str(digest)}}:
                    yield Torn(at, size, digest)
                case _:
                    pass


def _torn_end(segment: Path) -> Torn | None:
    with segment.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        content, start = b"", size
        while start and b"\n" not in content:
            start = max(0, start - _TAIL_BYTES)
            file.seek(start)
            content = file.read(size - start)
    at = content.rfind(b"\n") + 1
    piece = content[at:]
    return Torn(start + at, len(piece), hashlib.sha256(piece).hexdigest()) if piece else None


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
