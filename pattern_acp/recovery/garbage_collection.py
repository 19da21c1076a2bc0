"""Finding data that nothing needs any more, and deleting it when the user asks.

Owns: the rule of what may go. Must not know: how it is shown. Nothing here runs on its own. Everything here blocks.
"""

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.config.settings import BackupSettings, RetentionSettings
from pattern_acp.db.backup import FOLDER
from pattern_acp.db.connection import Transaction, change_file, read_file, rewrite_in_place
from pattern_acp.db.segment_files import generations, only_writer, segments, size_of
from pattern_acp.definitions.identity import ListedSource, drop_source, list_sources
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.codec import JournalError
from pattern_acp.journal.events import InstructionsCompiled
from pattern_acp.journal.history import read_history
from pattern_acp.journal.retention import (
    delete_unused_blobs,
    newest_forgetting_ms,
    old_contents,
    old_sessions,
    size_text,
    sweep_contents,
    sweep_session,
    unused_blobs,
)
from pattern_acp.journal.sessions import every_session, was_swept
from pattern_acp.memory.forks import unused_forks, writes_of_fork
from pattern_acp.memory.service.forking import discard_unused_forks
from pattern_acp.policy.grants import list_grants
from pattern_acp.recovery.backups import STAMP, Backup, list_backups
from pattern_acp.session.stored import DAY_MS
from pattern_acp.workspace.worker_tree import Leftover, remove_tree

_KEPT_FOLDER = re.compile(r"(?:before-restore|before-rebuild|leftovers)-([0-9]{8}T[0-9]{6}Z)")


MB = 1_000_000

SEGMENT_WAIT_SECONDS = 2.0
"""Longest wait for a process that is writing segments, when they are to be deleted."""

Kind: TypeAlias = Literal[
    "copy", "segments", "deleted session", "file contents", "payloads", "definitions", "forked memory", "worker folder"
]


class Sweepable(Struct, frozen=True):
    """One thing that may go: a file or folder, or with an empty `path` contents inside the constellation."""

    kind: Kind
    path: str
    size: int
    """Bytes."""
    reason: str
    session_id: str = ""


class RetentionPolicy(Struct, frozen=True):
    """Retention policy of the user, and the moment from which ages count."""

    now_ms: int
    retention: RetentionSettings = RetentionSettings()
    backup: BackupSettings = BackupSettings()
    worker_folders: tuple[Leftover, ...] = ()
    """Folders of workers whose processes have ended."""

    @property
    def deleted_before_ms(self) -> int:
        """Sessions that were deleted before this moment cannot be brought back."""
        return self.now_ms - self.retention.deleted_days * DAY_MS

    @property
    def files_before_ms(self) -> int:
        """Contents of files that were named last before this moment go; 0 for none."""
        days = self.retention.files_days
        return self.now_ms - days * DAY_MS if days else 0


def find_sweepable(path: Path, policy: RetentionPolicy) -> list[Sweepable]:
    """Everything that may be deleted around the constellation at `path`, with sizes.

    Never includes backups that the user asked for.
    """
    workers = [
        Sweepable("worker folder", one.path, one.size, "left by a worker whose process has ended")
        for one in policy.worker_folders
    ]
    if not path.exists():
        return workers
    forgotten_ms = read_file(path, newest_forgetting_ms)
    return [
        *_copies(path, policy, forgotten_ms),
        *_folders(path, policy, forgotten_ms),
        *_segments(path, policy, forgotten_ms),
        *read_file(path, partial(_inside, policy=policy)),
        *workers,
    ]


def gc_summary(path: Path, policy: RetentionPolicy) -> str:
    """A sentence for the user when more could be freed than their notice limit; else empty."""
    size = sum(one.size for one in find_sweepable(path, policy))
    if not policy.retention.tell_mb or size < policy.retention.tell_mb * MB:
        return ""
    return f"`pattern-acp gc` would free {size_text(size)}; `pattern-acp gc --dry-run` shows what."


def sweep(path: Path, found: list[Sweepable], policy: RetentionPolicy) -> bool:
    """Delete what `find_sweepable` returned. False when other processes prevented shrinking the file.

    What is inside the constellation is looked for again in the transaction that takes it, since others may be writing.

    Raises:
        OSError: a file cannot be deleted.
    """
    for one in found:
        if one.path:
            _delete(path, one)
    inside = [one for one in found if not one.path]
    for one in inside:
        change_file(path, partial(_take, one=one, policy=policy))
    return not inside or rewrite_in_place(path)


def _take(tx: Transaction, one: Sweepable, policy: RetentionPolicy) -> None:
    if one.kind == "deleted session":
        session_id = SessionId(one.session_id)
        sweep_session(tx, session_id, before_ms=policy.deleted_before_ms, at_ms=policy.now_ms)
    elif one.kind == "file contents":
        most = policy.retention.files_mb * MB
        sweep_contents(tx, before_ms=policy.files_before_ms, most_bytes=most, at_ms=policy.now_ms)
    elif one.kind == "forked memory":
        discard_unused_forks(tx, before_ms=policy.deleted_before_ms, at_ms=policy.now_ms, ids=RandomIds())
    elif one.kind == "definitions":
        # Segments may bring one back, which is then found again.
        for source in unused_sources(tx):
            drop_source(tx, source.identity)
    else:
        delete_unused_blobs(tx)


def unused_sources(tx: Transaction) -> tuple[ListedSource, ...]:
    """Stored sources that no session which can still be opened, and no standing permission, points to.

    None where a session cannot be read: it may need any of them. One with a note of the user stays.
    """
    known = list_sources(tx)
    if not known:
        return ()
    pointed: set[str] = set()
    try:
        for session_id, _, is_deleted in every_session(tx):
            if is_deleted and was_swept(tx, session_id):
                continue
            for entry in read_history(tx, session_id, kinds=(InstructionsCompiled,)):
                if isinstance(entry.event, InstructionsCompiled):
                    pointed.update(entry.event.identities)
        pointed.update(each.owner.persona for each in list_grants(tx))
    except JournalError:
        return ()
    return tuple(one for one in known if one.identity not in pointed and not one.note)


def _delete(path: Path, one: Sweepable) -> None:
    target = Path(one.path)
    if one.kind == "segments":
        with only_writer(path, seconds=SEGMENT_WAIT_SECONDS) as locked:
            if locked and target.is_dir():
                shutil.rmtree(target)
    elif one.kind == "worker folder":
        remove_tree(one.path)
    elif target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _inside(tx: Transaction, policy: RetentionPolicy) -> list[Sweepable]:
    days = policy.retention.deleted_days
    deleted = list(old_sessions(tx, before_ms=policy.deleted_before_ms))
    gone = frozenset(event.seq for one in deleted for event in one.events)
    found = [
        Sweepable(
            "deleted session",
            "",
            one.size,
            f"{plural(len(one.events), 'event')} of a session that was deleted more than {plural(days, 'day')} ago",
            one.session_id,
        )
        for one in deleted
    ]
    most = policy.retention.files_mb * MB
    found += [
        Sweepable("file contents", "", one.size, f"{plural(len(one.digests), 'stored file')} {one.reason}")
        for one in old_contents(tx, before_ms=policy.files_before_ms, most_bytes=most, without=gone)
    ]
    forks = unused_forks(tx, before_ms=policy.deleted_before_ms)
    if forks:
        size = sum(len(write.update) for fork in forks for write in writes_of_fork(tx, fork.id))
        reason = f"{plural(len(forks), 'fork')} of memory of sessions that were deleted"
        found.append(Sweepable("forked memory", "", size, reason))
    unused = unused_sources(tx)
    if unused:
        reason = f"{plural(len(unused), 'stored definition')} of no session and no permission"
        found.append(Sweepable("definitions", "", sum(one.size for one in unused), reason))
    count, size = unused_blobs(tx)
    if count:
        found.append(Sweepable("payloads", "", size, f"{plural(count, 'large payload')} of no event"))
    return found


def _copies(path: Path, policy: RetentionPolicy, forgotten_ms: int) -> Iterator[Sweepable]:
    backups = [one for one in list_backups(path) if one.kind != "backup"]
    beyond = _beyond(backups, policy.retention.snapshots_mb * MB)
    for backup in backups:
        reason = _reason(backup.at_ms, policy, forgotten_ms, ages=backup.kind == "migration")
        if not reason and backup in beyond:
            reason = "beyond retention.snapshots_mb"
        if reason:
            yield Sweepable("copy", str(backup.path), backup.size, reason)


def _beyond(backups: list[Backup], most_bytes: int) -> list[Backup]:
    """The snapshots that do not fit behind the newer ones; the newest always does."""
    total, beyond = 0, list[Backup]()
    for place, one in enumerate([each for each in backups if each.kind == "snapshot"]):
        total += one.size
        if most_bytes and place and total > most_bytes:
            beyond.append(one)
    return beyond


def _folders(path: Path, policy: RetentionPolicy, forgotten_ms: int) -> Iterator[Sweepable]:
    for folder in sorted((path.parent / FOLDER).glob("*-*")):
        named = _KEPT_FOLDER.fullmatch(folder.name)
        if named is None or not folder.is_dir():
            continue
        at_ms = int(datetime.strptime(named[1], STAMP).replace(tzinfo=UTC).timestamp() * 1000)
        reason = _reason(at_ms, policy, forgotten_ms, ages=True)
        if reason:
            yield Sweepable("copy", str(folder), size_of(folder), reason)


def _segments(path: Path, policy: RetentionPolicy, forgotten_ms: int) -> Iterator[Sweepable]:
    """Segments of a constellation that was replaced, such as by a restore, or all of them where none are wanted."""
    for generation in generations(path) if not policy.backup.segments else generations(path)[:-1]:
        newest_ms = max((each.stat().st_mtime_ns // 1_000_000 for each in segments(generation)), default=0)
        reason = _reason(newest_ms, policy, forgotten_ms, ages=True)
        if not policy.backup.segments:
            reason = "backup.segments is false"
        if reason:
            yield Sweepable("segments", str(generation), size_of(generation), reason)


def _reason(at_ms: int, policy: RetentionPolicy, forgotten_ms: int, *, ages: bool) -> str:
    if at_ms < forgotten_ms:
        return "made before words were forgotten, which it may hold"
    days = policy.retention.copies_days
    return f"older than {plural(days, 'day')}" if ages and policy.now_ms - at_ms > days * DAY_MS else ""
