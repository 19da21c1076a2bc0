"""Disk space that a constellation and the files beside it take, for /status and `doctor`.

Owns: the parts that a user can do something about, and their sizes. Must not know: how long each stays. Everything here
is quick, reads no contents, and blocks: call it on a worker thread.
"""

import contextlib
from pathlib import Path

from msgspec import Struct

from pattern_acp.db import backup, segment_files
from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries

QUERIES = load_queries("pattern_acp.journal")

_KB = 1000


class StorageBreakdown(Struct, frozen=True):
    """Sizes inside the file: bytes of files saved for checkpoints and of large payloads; number of deleted sessions."""

    contents: int
    payloads: int
    deleted: int


def storage_breakdown(tx: Transaction) -> StorageBreakdown:
    """Sizes inside the file.

    Raises:
        DatabaseError: it cannot be read.
    """
    row = tx.one(QUERIES["room_in_file"])
    return (
        StorageBreakdown(0, 0, 0)
        if row is None
        else StorageBreakdown(integer(row[0]), integer(row[2]), integer(row[1]))
    )


def storage_summary(path: Path, inside: StorageBreakdown) -> str:
    """One line with all sizes, of the constellation at `path`."""
    file = sum(_size(path.with_name(f"{path.name}{end}")) for end in ("", "-wal"))
    copies = _folder(path.parent / backup.FOLDER) + sum(map(_size, path.parent.glob(f"{path.stem}.v*.backup.db")))
    segments = _folder(path.parent / segment_files.FOLDER)
    sessions = "1 deleted session" if inside.deleted == 1 else f"{inside.deleted:,} deleted sessions"
    return (
        f"{size_text(file)} (stored files {size_text(inside.contents)}, large payloads {size_text(inside.payloads)}, "
        f"{sessions}), segments {size_text(segments)}, backups and snapshots {size_text(copies)}"
    )


def size_text(size: int) -> str:
    """Bytes as text for a user."""
    if size < _KB**2:
        return f"{size / _KB:.1f} kB"
    return f"{size / _KB**2:.1f} MB" if size < _KB**3 else f"{size / _KB**3:.2f} GB"


def _folder(folder: Path) -> int:
    return sum(map(_size, folder.rglob("*")))


def _size(path: Path) -> int:
    # A file that another process deletes meanwhile takes no space.
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0
