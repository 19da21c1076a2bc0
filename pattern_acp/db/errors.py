"""Errors of a constellation file, and the one place that translates the driver's errors.

Owns: the refinement of `DatabaseError` and the sentence of each. Must not know: what the tables mean.
"""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from pattern_acp.domain.errors import DatabaseError


class DatabaseBusyError(DatabaseError):
    """Another process had the file locked for longer than we wait."""

    failure_code = "database.busy"


class DatabaseReadOnlyError(DatabaseError):
    """The file, or the transaction, allows no writing."""

    failure_code = "database.read-only"


class DatabaseCorruptError(DatabaseError):
    """The file is damaged, or is not a database."""

    failure_code = "database.corrupt"


class DatabaseForeignError(DatabaseError):
    """The file is a sound database that belongs to another program."""

    failure_code = "database.foreign"


class DatabaseUnreachableError(DatabaseError):
    """The file cannot be opened, or the system failed to read or write it."""

    failure_code = "database.unreachable"


class DiskFullError(DatabaseError):
    """The disk is full; the transaction was rolled back whole."""

    failure_code = "database.disk-full"


class ConstraintError(DatabaseError):
    """A row breaks a rule of the schema (rule R1's foreign key among them); nothing was written."""

    failure_code = "database.constraint"


class DatabaseClosedError(DatabaseError):
    """The database was used after it was closed: the program is ending."""

    failure_code = "database.closed"


class DatabaseForkedError(DatabaseError):
    """The connection belongs to the process that this one was forked from."""

    failure_code = "database.forked"


class DatabaseNewerError(DatabaseError):
    """The file was written by a newer pattern-acp; `is_open`: while this one had it open."""

    failure_code = "database.newer"

    def __init__(self, path: Path, *, found: int, known: int, is_open: bool = False) -> None:
        super().__init__(
            f"A newer pattern-acp has brought the constellation {path} to schema version {found} while this one, which "
            f"knows versions up to {known}, had it open; start pattern-acp again, in the newer version."
            if is_open
            else f"The constellation {path} has schema version {found}, but this pattern-acp knows versions up to "
            f"{known}; upgrade pattern-acp, or choose another one with --constellation."
        )
        self.found = found
        self.known = known


Sentence = Callable[[str, str], tuple[type[DatabaseError], str]]

_ELSEWHERE = "on a network disk, set PATTERN_ACP_HOME to a folder on a disk of this machine"
"""Advice where locks may be at fault: SQLite reports a file system without them as a lock that somebody has."""


def _busy(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DatabaseBusyError, (
        f"The constellation {path} is locked by another process ({detail}); "
        f"end the program that holds it, try again in a moment, or, {_ELSEWHERE}."
    )


def _read_only(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DatabaseReadOnlyError, (
        f"The constellation {path} cannot be written ({detail}); make the file and its folder writable for this user."
    )


def _corrupt(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DatabaseCorruptError, (
        f"The constellation {path} is damaged or not a database ({detail}); "
        "nothing was changed: close every window that uses it and run `pattern-acp restore --latest` to go back to the "
        "newest backup, or `pattern-acp journal rebuild` to make it again from its segments, which are newer, or read "
        "what can still be read with `pattern-acp sessions` and `pattern-acp doctor`."
    )


def _unreachable(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DatabaseUnreachableError, (
        f"The constellation {path} cannot be opened or read ({detail}); "
        f"check that its folder exists and belongs to this user, and that the disk works, or, {_ELSEWHERE}."
    )


def _full(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DiskFullError, (
        f"There is no disk space left for the constellation {path} ({detail}); free some space on that disk."
    )


def _too_large(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DiskFullError, (
        f"The constellation {path} is as large as a file may be here ({detail}); raise the limit of this process "
        "(`ulimit -f unlimited` in the shell that starts it), or use a disk that takes larger files."
    )


def _constraint(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return ConstraintError, (
        f"A row breaks a rule of the constellation {path} ({detail}); report this as a fault of pattern-acp."
    )


def _fault(path: str, detail: str) -> tuple[type[DatabaseError], str]:
    return DatabaseError, (
        f"The constellation {path} refused a statement ({detail}); report this as a fault of pattern-acp."
    )


_SENTENCES: dict[type[apsw.Error], Sentence] = {
    apsw.BusyError: _busy,
    apsw.LockedError: _busy,
    apsw.ProtocolError: _busy,
    apsw.ReadOnlyError: _read_only,
    apsw.PermissionsError: _read_only,
    apsw.AuthError: _read_only,
    apsw.CorruptError: _corrupt,
    apsw.NotADBError: _corrupt,
    apsw.FormatError: _corrupt,
    apsw.CantOpenError: _unreachable,
    apsw.IOError: _unreachable,
    apsw.NoLFSError: _unreachable,
    apsw.FullError: _full,
    apsw.ConstraintError: _constraint,
    apsw.MismatchError: _constraint,
    apsw.TooBigError: _constraint,
}


def translate(error: apsw.Error, path: Path, *, copied: Path | None = None) -> DatabaseError:
    """The error of ours that stands for `error` of the driver; raise it from `error`.

    `copied` is the file that `path` was to be a copy of, and as large as.
    The driver's message names tables, columns and system errors, never the values of a row.
    """
    sentence = _SENTENCES.get(type(error), _fault)
    said = str(error)
    if is_of_write(error) and (limit := _limit_of_files()) and _is_near(limit, copied or path):
        # SQLite says no more than that the disk failed.
        sentence, said = _too_large, f"{limit:,} bytes"
    # What SQLite says of a copy that failed, since the fault is the other file's.
    kind, text = sentence(str(path), said if said not in {"", "not an error"} else type(error).__name__)
    return kind(text)


def is_of_write(error: apsw.Error) -> bool:
    """Return whether the system failed to write a file, rather than to read one."""
    return isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE


def of_system(error: OSError) -> apsw.Error:
    """The driver's error for one of the system's, for `translate`."""
    kind = apsw.FullError if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else apsw.CantOpenError
    return kind(error.strerror or type(error).__name__)


_WRITE_BYTES = 1_048_576
"""Distance from the limit of files within which a write that failed is taken to have met it."""


def _limit_of_files() -> int:
    """Largest size in bytes of a file that this process may write; 0 for any."""
    if sys.platform == "win32":
        return 0
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return 0 if limit == resource.RLIM_INFINITY else limit


def _is_near(limit: int, path: Path) -> bool:
    """Return whether the database or a log beside it is so large that the write which failed may have met the limit."""
    for file in (path, f"{path}-wal", f"{path}-journal"):
        with suppress(OSError):
            if os.stat(file).st_size > limit - _WRITE_BYTES:  # noqa: PTH116  names of SQLite's own
                return True
    return limit <= _WRITE_BYTES


def is_of_index(error: DatabaseCorruptError) -> bool:
    """Return whether only a search index is damaged, which `doctor --repair` writes again from the texts."""
    return getattr(error.__cause__, "extendedresult", 0) == apsw.SQLITE_CORRUPT_VTAB
