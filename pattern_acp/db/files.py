"""The files of a constellation: whether they are those that were opened, in which form, and that their names last.

Owns: noticing that other files have their names or that a newer program changed the schema, with the sentence for each,
and bringing names to the disk. Must not know: transactions or tables.
"""

import os
import sys
from pathlib import Path

from pattern_acp.db.errors import DatabaseNewerError, DatabaseUnreachableError

_ENDINGS = ("", "-wal", "-shm")
"""The file, its write-ahead log, and the memory in which processes that share it agree. Whoever opens the name after
one of them was taken away gets another, so what we went on writing would be in a file that nobody reads."""

Identity = tuple[int, int] | None


class OpenedFile:
    """The constellation at `path`, as the connection that is opened now found it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Spelled once: each transaction looks at them twice.
        self._names = tuple(f"{path}{ending}" for ending in _ENDINGS)
        self._identities = self._now()
        self.version: int | None = None
        """The schema version that this program works with; None until it is known, as in a migration."""

    def require_files(self) -> None:
        """Nothing, when each file still has its name. Asked before a transaction begins and again before its commit.

        Raises:
            DatabaseUnreachableError: one was deleted, moved or replaced; what is written would go with the process.
        """
        if self._now() != self._identities:
            raise DatabaseUnreachableError(
                f"The constellation {self._path} was deleted, moved or replaced while pattern-acp had it open, so "
                "nothing can be saved; start pattern-acp again."
            )

    def may_move_log(self) -> bool:
        """Return whether our log may still be moved into the file, as SQLite does when the last connection closes.

        Not once others may have begun a log of their own: ours would be written over what theirs brought. A log that
        alone was deleted is still ours: whoever had opened the file since had made a new one, and left it to us.
        """
        now = self._now()
        return now == self._identities or now == (self._identities[0], None, self._identities[2])

    def _now(self) -> tuple[Identity, ...]:
        return tuple(map(_identity, self._names))

    def require_version(self, found: int) -> None:
        """Nothing, unless a newer program has changed the schema since.

        Raises:
            DatabaseNewerError: it has.
        """
        if self.version is not None and found > self.version:
            raise DatabaseNewerError(self._path, found=found, known=self.version, is_open=True)


def _identity(name: str) -> Identity:
    try:
        status = os.stat(name)  # noqa: PTH116  # before every commit: a Path each would cost as much again
    except OSError:
        return None
    return status.st_dev, status.st_ino


def sync_folder(path: Path) -> None:
    """Make names in a folder last; where a system cannot, its file system does it in its own time.

    Raises:
        OSError: the folder cannot be opened or written.
    """
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
