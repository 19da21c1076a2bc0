"""Notes of files that are being replaced, so that what a killed process leaves in a project can be cleared away.

Owns: the names of our temporary files, and the notes of those that there may be. Must not know: how a file is written.
A note is made before its file and gone after it; a note of a process that has ended names what that process left.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from msgspec import Struct

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
