"""Backups of a constellation: listing them, taking those that are due, thinning them out, and restoring one.

Owns: the names in the folder of backups and the rule of which ones stay. Must not know: how a consistent copy is made
(db/backup.py). Everything here blocks: call it on a worker thread, or where there is no loop.

A name tells what a copy is and when it was made, in UTC: `snapshot-20261128T093000Z.db` was taken on its own and leaves
in its turn; `backup-….db` was asked for; `before-restore-…` is a folder with what a restore replaced.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
from msgspec import Struct

from pattern_acp.config.settings import BackupSettings
from pattern_acp.db.backup import FOLDER, PART, back_up, check_copy, put_in_place
from pattern_acp.db.segment_files import generations
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import DatabaseError

logger = logging.getLogger(__name__)

HOUR_MS = 3_600_000

STALE_PART_MS = HOUR_MS
"""Age at which an incomplete copy belongs to a dead process: a gigabyte takes seconds."""

STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(snapshot|backup)-([0-9]{8}T[0-9]{6}Z)(?:-[0-9]+)?\.db")
_BEFORE_MIGRATION = re.compile(r".+\.v[0-9]+\.([0-9]+)\.backup\.db")


class Backup(Struct, frozen=True):
    """One copy. `kind` is `snapshot`, `backup` or `migration` (made before the schema changed)."""

    path: Path
    kind: str
    at_ms: int
    size: int


def stamp(at_ms: int) -> str:
    """A moment in the form of names."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime(STAMP)


def free_path(folder: Path, name: str, ending: str = "") -> Path:
    """A path in a folder that nothing is at or is being made at: two may be wanted in one second."""
    numbered = (f"{name}{f'-{number}' if number > 1 else ''}{ending}" for number in count(1))
    found = (folder / one for one in numbered)
    return next(one for one in found if not one.exists() and not one.with_name(one.name + PART).exists())


def list_backups(path: Path) -> tuple[Backup, ...]:
    """The copies of the constellation at `path` that are beside it, newest first."""
    candidates = (*_files(path.parent / FOLDER), *path.parent.glob(f"{path.stem}.v*.backup.db"))
    found = (backup for each in candidates if (backup := _backup(each)) is not None)
    return tuple(sorted(found, key=lambda one: (one.at_ms, one.path.name), reverse=True))


_ONE_PAGE = 4096
"""Bytes of a page (the first one lists tables, and with ours there are many more)."""


def lost_constellation(path: Path, *, begun: bool = True) -> str:
    """A sentence for the user when the file is gone or empty although a backup exists; else empty.

    With `begun`, a new one takes its place.
    """
    if not _is_empty(path):
        return ""
    ways = ["`pattern-acp restore --latest` for the newest backup"] if list_backups(path) else []
    if known := generations(path):
        # The new one begins a generation of its own.
        command = f"pattern-acp journal rebuild --from {int(known[-1].name)} --replace"
        ways.append(f"'{command}' for all that was recorded")
    if not ways:
        return ""
    what = "empty" if path.exists() else "missing"
    loss = f"was {what}, so a new one was begun, without" if begun else f"is {what}, and with it"
    return (
        f"The constellation {path} {loss} your sessions and memory; to go back, close every window and run "
        f"{' or '.join(ways)}."
    )


def _is_empty(path: Path) -> bool:
    """True when there is no file, an empty one, or a single page whose write-ahead log is gone."""
    try:
        if path.stat().st_size > _ONE_PAGE:
            return False
        return not path.stat().st_size or not path.with_name(f"{path.name}-wal").stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return True


def make_backup(path: Path, output: Path | None, *, now_ms: int) -> Backup:
    """Copy the constellation at `path` to `output`, or into the folder of backups.

    Raises:
        DatabaseError: it cannot be read, or the copy cannot be written or is there already.
    """
    target = output or free_path(path.parent / FOLDER, f"backup-{stamp(now_ms)}", ".db")
    if not path.exists():
        raise DatabaseError(f"There is no constellation {path} yet; the first session makes it.")
    try:
        if output is None:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        size = back_up(path, target)
    except OSError as error:
        is_taken = isinstance(error, FileExistsError) and target.parent.is_dir()
        if is_taken and output is None:
            # Another process has begun one since, in the same second.
            return make_backup(path, free_path(target.parent, target.stem, ".db"), now_ms=now_ms)
        if is_taken:
            raise DatabaseError(f"{target} exists already, or is being made; choose another name.") from error
        raise DatabaseError(f"{target} cannot be written ({error.strerror}); choose another place.") from error
    return Backup(target, "backup", now_ms, size)


def restore(path: Path, copy: Path | None, *, now_ms: int) -> tuple[Path, Path | None]:
    """Put `copy`, or the newest sound copy, instead of the constellation at `path`.

    Returns the copy that was used, and the folder that now has the previous files, None when there were none.

    Raises:
        DatabaseError: another process has the constellation open, or no copy can be used.
    """
    safety = free_path(path.parent / FOLDER, f"before-restore-{stamp(now_ms)}")
    if copy is not None:
        if not copy.is_file():
            raise DatabaseError(
                f"There is no file {copy}; `pattern-acp backup --list` shows the backups that there are."
            )
        check_copy(copy)
        put_in_place(copy, path, safety=safety)
        return copy, safety if safety.exists() else None
    problem = f"There is no backup of {path} in {path.parent / FOLDER}; name a file."
    # A snapshot is named by its hour, so that a backup of the same hour may be older.
    for backup in sorted(list_backups(path), key=lambda one: _modified_ms(one.path), reverse=True):
        try:
            check_copy(backup.path)
        except DatabaseError as error:
            problem = error.sentence
            logger.warning("a backup was passed over: %s", problem)
            continue
        put_in_place(backup.path, path, safety=safety)
        return backup.path, safety if safety.exists() else None
    raise DatabaseError(problem)


def take_snapshot(
    path: Path, settings: BackupSettings, *, now_ms: int, between: Callable[[], object] = lambda: None
) -> Backup | None:
    """Copy the constellation when the newest snapshot is an hour old and something changed since; None when not.

    Snapshots beyond the settings are removed, and the log says which. Of several processes, one does it. `between` is
    called now and then; an exception of it ends the copying.

    Raises:
        DatabaseError: the constellation cannot be read, or there is no space.
        OSError: the folder cannot be used.
    """
    snapshots = [backup for backup in list_backups(path) if backup.kind == "snapshot"]
    if not (settings.hourly or settings.daily or settings.monthly) or not _is_due(path, snapshots, now_ms):
        return None
    folder = path.parent / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    # One name an hour: a second process finds it taken.
    hour = now_ms - now_ms % HOUR_MS
    target = folder / f"snapshot-{stamp(hour)}.db"
    for part in folder.glob(f"snapshot-*.db{PART}"):
        _drop_stale(part, now_ms)
    try:
        taken = Backup(target, "snapshot", hour, back_up(path, target, between=between))
    except FileExistsError:
        return None
    keep = snapshots_to_keep([taken, *snapshots], settings)
    for backup in snapshots:
        if backup not in keep:
            logger.info("the snapshot %s left in its turn", backup.path.name)
            backup.path.unlink(missing_ok=True)
    return taken


async def keep_snapshots(
    path: Path, settings: BackupSettings, clock: Clock, pause: Callable[[], Awaitable[None]]
) -> None:
    """Take snapshots when they are due, after each `pause`, until cancelled; a failure is logged and tried again."""
    while True:
        await pause()
        try:
            # Between two pieces of the copy the thread sees that its task was cancelled.
            await anyio.to_thread.run_sync(
                partial(take_snapshot, path, settings, now_ms=clock.now_ms(), between=anyio.from_thread.check_cancelled)
            )
        except (DatabaseError, OSError) as error:
            logger.warning("A snapshot of the constellation could not be taken: %s", error)


def snapshots_to_keep(snapshots: Sequence[Backup], settings: BackupSettings) -> frozenset[Backup]:
    """The snapshots to retain: the newest of each of the newest hours, days and months that have one."""
    newest = sorted(snapshots, key=lambda one: one.at_ms, reverse=True)
    return frozenset(
        backup
        for width, count in (("%Y%m%d%H", settings.hourly), ("%Y%m%d", settings.daily), ("%Y%m", settings.monthly))
        for backup in _newest_of_each(newest, width, count)
    )


def _newest_of_each(newest: Iterable[Backup], width: str, count: int) -> list[Backup]:
    found: dict[str, Backup] = {}
    for backup in newest:
        found.setdefault(datetime.fromtimestamp(backup.at_ms // 1000, UTC).strftime(width), backup)
    return list(found.values())[:count]


def _is_due(path: Path, snapshots: Sequence[Backup], now_ms: int) -> bool:
    if not path.exists():
        return False
    # A clock that was set back must not stop snapshots for as long as it was ahead.
    newest = next((one for one in snapshots if one.at_ms <= now_ms), None)
    if newest is None:
        return True
    if newest.at_ms == now_ms - now_ms % HOUR_MS:
        return False
    written = max(_modified_ms(each) for each in (path, path.with_name(f"{path.name}-wal")))
    return written > _modified_ms(newest.path)


def _modified_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _drop_stale(part: Path, now_ms: int) -> None:
    if abs(now_ms - _modified_ms(part)) > STALE_PART_MS:
        part.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _backup(path: Path) -> Backup | None:
    named = _NAME.fullmatch(path.name)
    before = _BEFORE_MIGRATION.fullmatch(path.name)
    try:
        if named:
            at = datetime.strptime(named[2], STAMP).replace(tzinfo=UTC)
            return Backup(path, named[1], int(at.timestamp() * 1000), path.stat().st_size)
        if before:
            return Backup(path, "migration", int(before[1]), path.stat().st_size)
    except (OSError, ValueError):
        pass
    return None
