"""Files on the disk.

Owns: `LocalFileSystem`: text exactly as it is stored, and writes that leave either the old file or the new one, never
half of one. Must not know: editors, line windows, who may read which file.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

from anyio import to_thread
from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.workspace.errors import (
    AccessDeniedError,
    DiskIsFullError,
    FileMissingError,
    NotAFileError,
    NotTextError,
    TargetExistsError,
    TooLargeError,
)
from pattern_acp.workspace.files import LineWindow, TextFile, TextLines
from pattern_acp.workspace.line_windows import read_window
from pattern_acp.workspace.text_codec import TextEncoding, decode_text, encode_text
from pattern_acp.workspace.walk import in_thread

FOLDER = "unfinished"
"""Name of the folder of notes, below that of logs."""

ELSEWHERE_MS = 24 * 3_600_000
"""Time after which a process of another machine or container counts as ended: nobody writes one file that long."""

_NAME = re.compile(r"\..{1,60}\.([0-9a-f]{12})\.tmp", re.DOTALL)


def temporary_beside(target: Path) -> Path:
    """A new name beside `target`, for its next text, or for itself while it is set aside."""
    return target.with_name(f".{target.name[:60]}.{secrets.token_hex(6)}.tmp")


class UnfinishedWrites(Struct, frozen=True):
    """The notes of this process. Without a folder nothing is noted."""

    folder: Path | None = None
    pid: int = 0
    mark: str = ""
    """Start mark of the process, which tells two uses of one id apart."""
    host: str = ""
    """Machine, or container, on which the id means something."""

    @contextmanager
    def noted(self, temporary: Path) -> Generator[None, None, None]:
        """Keep a note while `temporary` may exist."""
        note = self._write_note(temporary, None)
        try:
            yield
        finally:
            self._drop(note)

    def note_aside(self, path: str, temporary: str) -> None:
        """Note that `path` is to be called `temporary` for a while, when that is a name of ours."""
        if _NAME.fullmatch(Path(temporary).name):
            self._write_note(Path(temporary), path)

    def forget_aside(self, temporary: str) -> None:
        """Drop the note of a file that was set aside and is back, or gone."""
        if self.folder is not None and (found := _NAME.fullmatch(Path(temporary).name)):
            self._drop(self.folder / found[1])

    def clear(self, is_running: Callable[[int, str], bool], now_ms: int) -> int:
        """Clear away what processes left that do not run any more, and return how many files that were.

        A text that was being written goes; a file that was set aside gets its name back, if nothing else has it.
        """
        if self.folder is None or not self.folder.is_dir():
            return 0
        cleared = 0
        for note in sorted(self.folder.iterdir()):
            left = _read_note(note)
            if left is not None and self._may_run(left, note, is_running, now_ms):
                continue
            if left is not None:
                cleared += _clear_away(left)
            self._drop(note)
        return cleared

    def _may_run(self, left: "_Left", note: Path, is_running: Callable[[int, str], bool], now_ms: int) -> bool:
        if left.host == self.host:
            return is_running(left.pid, left.mark)
        with suppress(OSError):
            return now_ms - note.stat().st_mtime * 1000 < ELSEWHERE_MS
        return False

    def _write_note(self, temporary: Path, aside: str | None) -> Path | None:
        found = _NAME.fullmatch(temporary.name)
        if self.folder is None or found is None:
            return None
        note = self.folder / found[1]
        process = {"pid": self.pid, "mark": self.mark, "host": self.host}
        text = json.dumps({**process, "temporary": str(temporary), "aside": aside})
        # A file is written also where no note of it can be.
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            note.write_text(text, encoding="utf-8")
        return note

    @staticmethod
    def _drop(note: Path | None) -> None:
        if note is not None:
            with suppress(OSError):
                note.unlink(missing_ok=True)


class _Left(Struct, frozen=True):
    pid: int
    mark: str
    host: str
    temporary: Path
    aside: str | None


def _read_note(note: Path) -> _Left | None:
    try:
        match cast("object", json.loads(note.read_text(encoding="utf-8"))):
            case {
                "pid": int(pid),
                "mark": str(mark),
                "host": str(host),
                "temporary": str(named),
                "aside": str() | None as aside,
            }:
                path = Path(named)
            case _:
                return None
    except (OSError, ValueError):
        return None
    found = _NAME.fullmatch(path.name)
    # The note's name is in the file's: nothing else is ever removed.
    return _Left(pid, mark, host, path, aside) if found and found[1] == note.name and path.is_absolute() else None


def _clear_away(left: _Left) -> int:
    with suppress(OSError):
        if left.temporary.is_symlink() or not left.temporary.is_file():
            return 0
        if left.aside is None:
            left.temporary.unlink()
            return 1
        if Path(left.aside).parent == left.temporary.parent and not os.path.lexists(left.aside):
            left.temporary.rename(left.aside)
            return 1
    return 0


MAX_TEXT_BYTES = 10_000_000
"""A larger file is data that no model can read; line windows of it would still cost the whole read."""

_REPLACE_TRIES = 5
_REPLACE_WAIT = 0.02
"""Seconds between tries: on Windows, virus scanners and indexers lock a new file for some milliseconds."""


class LocalFileSystem:
    """`FileSystem` over the disk.

    Line endings are the caller's: text is returned and written as it is. A file keeps its encoding, byte order mark,
    permissions and extended attributes; a new one is UTF-8.
    """

    def __init__(self, unfinished: UnfinishedWrites | None = None) -> None:
        """`unfinished` keeps notes of what a kill would leave beside a file."""
        self._unfinished = unfinished or UnfinishedWrites()

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`."""
        text, _ = await to_thread.run_sync(_read, path, abandon_on_cancel=True)
        return TextFile(path, text, "disk")

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`."""
        lines, total = await in_thread(partial(_read_lines, path, window))
        return TextLines(lines, total, "disk")

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`. A link is followed: its target is written."""
        # Not abandoned on cancellation: a write that was reported as undone must not appear later.
        return TextFile(path, await to_thread.run_sync(_written, path, text, self._unfinished), "disk")

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        await to_thread.run_sync(_move, path, to, self._unfinished)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        await to_thread.run_sync(_remove, path)
        self._unfinished.forget_aside(path)


def _read(path: str) -> tuple[str, TextEncoding]:
    data = _read_bytes(path)
    try:
        return decode_text(data)
    except NotTextError as error:
        raise NotTextError(f"{path} cannot be read as text: {error}") from error


def _read_lines(path: str, window: LineWindow, stop: threading.Event) -> tuple[tuple[str, ...], int]:
    try:
        _refuse_other_than_text_file(path, Path(path).stat())
        return read_window(path, window, stop)
    except NotTextError as error:
        raise NotTextError(f"{path} cannot be read as text: {error}") from error
    except (OSError, ValueError) as error:
        raise _error_for(path, error, "read") from error


def _read_bytes(path: str) -> bytes:
    try:
        found = Path(path).stat()
        _refuse_unreadable(path, found)
        with Path(path).open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _error_for(path, error, "read") from error
    # Files under /proc claim to be empty, so the bytes read count as well.
    _refuse_size(path, len(data))
    return data


def _refuse_unreadable(path: str, found: os.stat_result) -> None:
    _refuse_other_than_text_file(path, found)
    _refuse_size(path, found.st_size)


def _refuse_other_than_text_file(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise NotAFileError(f"{path} is a folder; list it instead.")
    if not stat.S_ISREG(found.st_mode):
        raise NotAFileError(f"{path} is a device, pipe or socket, not a file of text.")


def _refuse_size(path: str, size: int) -> None:
    if size > MAX_TEXT_BYTES:
        limit = MAX_TEXT_BYTES // 1_000_000
        raise TooLargeError(f"{path} is larger than {limit} MB; use a command to read or change a part of it.")


def _written(path: str, text: str, unfinished: UnfinishedWrites) -> str:
    _write(path, text, unfinished)
    # In the same thread: each change of threads costs as much as a small file.
    return _read(path)[0]


def _write(path: str, text: str, unfinished: UnfinishedWrites) -> None:
    target = Path(resolve_path(path))
    try:
        before = target.stat() if target.exists() else None
        if before is not None:
            _refuse_unwritable(path, target, before)
        data = _encode(path, text, _encoding_of(target, before, text))
        _refuse_size(path, len(data))
        target.parent.mkdir(parents=True, exist_ok=True)
        _store(target, data, before, unfinished)
    except (OSError, ValueError) as error:
        raise _error_for(path, error, "written") from error


def _refuse_unwritable(path: str, target: Path, before: os.stat_result) -> None:
    if stat.S_ISDIR(before.st_mode):
        raise NotAFileError(f"{path} is a folder, so no text can be written to it.")
    if not stat.S_ISREG(before.st_mode):
        raise NotAFileError(f"{path} is a device, pipe or socket; only files are written.")
    # Replacing a file asks only for rights on its folder, so a read-only file needs a check of its own.
    if not os.access(target, os.W_OK):
        raise AccessDeniedError(f"{path} is read-only; make it writable first if it is to be changed.")


def _move(path: str, to: str, unfinished: UnfinishedWrites) -> None:
    try:
        _refuse_other_than_file(path)
        unfinished.note_aside(path, to)
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        # A name that differs in case only is the same file where case does not count.
        if os.path.lexists(to) and not Path(path).samefile(to):
            raise TargetExistsError(f"{to} exists already; {path} was not moved.")
        _replace(Path(path), Path(to))
        unfinished.forget_aside(path)
    except (OSError, ValueError) as error:
        raise _error_for(path, error, "moved") from error


def _remove(path: str) -> None:
    try:
        _refuse_other_than_file(path)
        Path(path).unlink()
    except (OSError, ValueError) as error:
        raise _error_for(path, error, "deleted") from error


def _refuse_other_than_file(path: str) -> None:
    mode = Path(path).lstat().st_mode
    if stat.S_ISLNK(mode):
        raise NotAFileError(f"{path} is a symbolic link; name the file that it leads to, or use a command.")
    if not stat.S_ISREG(mode):
        raise NotAFileError(f"{path} is not a file, so it is neither moved nor deleted; use a command for it.")


def _encoding_of(target: Path, before: os.stat_result | None, text: str) -> TextEncoding:
    if before is not None and before.st_size <= MAX_TEXT_BYTES:
        with contextlib.suppress(NotTextError):
            return decode_text(target.read_bytes())[1]
    return "utf-8-sig" if text.startswith("\ufeff") else "utf-8"


def _encode(path: str, text: str, encoding: TextEncoding) -> bytes:
    try:
        return encode_text(text, encoding)
    except NotTextError as error:
        raise NotTextError(f"{path} was not written: {error}") from error


def _store(target: Path, data: bytes, before: os.stat_result | None, unfinished: UnfinishedWrites) -> None:
    if before is not None and before.st_nlink > 1:
        # A replaced file would part from its other names.
        _write_in_place(target, data)
        return
    beside = temporary_beside(target)
    with unfinished.noted(beside):
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        except PermissionError:
            if before is None:
                raise
            # The file is writable though its folder is not.
            _write_in_place(target, data)
            return
        try:
            with os.fdopen(descriptor, "wb") as file:
                if before is not None:
                    shutil.copystat(target, beside)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _replace(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def _write_in_place(target: Path, data: bytes) -> None:
    with target.open("r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _replace(beside: Path, target: Path) -> None:
    for _ in range(_REPLACE_TRIES - 1):
        try:
            beside.replace(target)
        except PermissionError:
            time.sleep(_REPLACE_WAIT)
        else:
            return
    beside.replace(target)


def _error_for(path: str, error: OSError | ValueError, verb: str) -> WorkspaceError:
    if isinstance(error, FileNotFoundError):
        return FileMissingError(f"There is no file {path}; check the path.")
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{path} cannot be {verb}: the system denies access to it.")
    if isinstance(error, NotADirectoryError | FileExistsError):
        return WorkspaceError(f"{path} cannot be {verb}: a part of the path is a file, not a folder.")
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskIsFullError(f"{path} cannot be {verb}: the disk is full. Free some space; nothing was changed.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return WorkspaceError(f"{path} cannot be {verb}: {reason}.")
