"""What takes room and serves nothing any more, and taking it away when the person says so.

Owns: the rule of what may go. Must not know: how it is shown. Nothing here runs by itself. Everything here blocks.
"""

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pattern_acp.bootstrap.recovery import STAMP, list_backups
from pattern_acp.db.backup import FOLDER
from pattern_acp.db.connection import change_file, read_file
from pattern_acp.db.segment_files import generations, segments, size_of
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.journal.sweeping import delete_unused_blobs, newest_forgetting_ms, unused_blobs
from pattern_acp.session.stored import RESTORE_DAYS, RESTORE_MS

_KEPT_FOLDER = re.compile(r"(?:before-restore|before-rebuild|leftovers)-([0-9]{8}T[0-9]{6}Z)")


@dataclass(frozen=True, slots=True)
class Sweepable:
    """One thing that may go: a file or folder, or with an empty `path` contents inside the constellation."""

    path: str
    size: int
    """Bytes."""
    reason: str


def find_sweepable(path: Path, *, now_ms: int) -> list[Sweepable]:
    """What may go of the constellation at `path`, and how much it is.

    Backups that the person asked for never are among it.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    if not path.exists():
        return []
    forgotten_ms = read_file(path, newest_forgetting_ms)
    found = [
        *_copies(path, now_ms, forgotten_ms),
        *_folders(path, now_ms, forgotten_ms),
        *_segments(path, now_ms, forgotten_ms),
    ]
    count, size = read_file(path, unused_blobs)
    if count:
        found.append(Sweepable("", size, f"{count} large {'payload' if count == 1 else 'payloads'} of no event"))
    return found


def sweep(path: Path, found: list[Sweepable]) -> None:
    """Take away what `find_sweepable` found.

    Raises:
        DatabaseError: the constellation cannot be written.
        OSError: a file cannot be deleted.
    """
    for one in found:
        target = Path(one.path)
        if not one.path:
            change_file(path, delete_unused_blobs)
        elif target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


def _copies(path: Path, now_ms: int, forgotten_ms: int) -> Iterator[Sweepable]:
    for backup in list_backups(path):
        if backup.kind == "backup":
            continue
        reason = _reason(backup.at_ms, now_ms, forgotten_ms, ages=backup.kind == "migration")
        if reason:
            yield Sweepable(str(backup.path), backup.size, reason)


def _folders(path: Path, now_ms: int, forgotten_ms: int) -> Iterator[Sweepable]:
    for folder in sorted((path.parent / FOLDER).glob("*-*")):
        named = _KEPT_FOLDER.fullmatch(folder.name)
        if named is None or not folder.is_dir():
            continue
        at_ms = int(datetime.strptime(named[1], STAMP).replace(tzinfo=UTC).timestamp() * 1000)
        reason = _reason(at_ms, now_ms, forgotten_ms, ages=True)
        if reason:
            size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
            yield Sweepable(str(folder), size, reason)


def _segments(path: Path, now_ms: int, forgotten_ms: int) -> Iterator[Sweepable]:
    """Segments of a constellation that was replaced, such as by a restore; the newest are those that are written."""
    for generation in generations(path)[:-1]:
        newest_ms = max((each.stat().st_mtime_ns // 1_000_000 for each in segments(generation)), default=0)
        reason = _reason(newest_ms, now_ms, forgotten_ms, ages=True)
        if reason:
            yield Sweepable(str(generation), size_of(generation), reason)


def _reason(at_ms: int, now_ms: int, forgotten_ms: int, *, ages: bool) -> str:
    if at_ms < forgotten_ms:
        return "made before words were forgotten, which it may hold"
    return f"older than {RESTORE_DAYS} days" if ages and now_ms - at_ms > RESTORE_MS else ""
