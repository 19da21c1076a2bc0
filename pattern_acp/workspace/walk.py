"""Walking a folder as a user sees it, and listing it.

Owns: visiting files in a stable order without ignored ones, `.git`, and linked folders. Must not know: the purpose.
Everything here blocks and belongs in a worker thread; `in_thread` runs it there and stops it on cancellation.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from anyio import to_thread
from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.workspace.errors import AccessDeniedError, FileMissingError, NotAFileError
from pattern_acp.workspace.ignore_rules import IgnoreRules, rules_for

T = TypeVar("T")

_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".gradle", ".turbo"}
)


def is_cache(name: str) -> bool:
    """Tell whether a path below a root lies in a folder that tools fill by the way, and fill again when it is gone.

    What commands leave there is no work, also where git ignores none of it.
    """
    return not _CACHES.isdisjoint(Path(name).parts)


class WalkedEntry(Struct, frozen=True):
    """A file, link or folder. `name` is relative to the root, with forward slashes."""

    name: str
    entry: os.DirEntry[str]
    is_dir: bool
    is_link: bool
    ignored: bool = False


class WalkStoppedError(Exception):
    """The walk was asked to stop."""


class _Folder(Struct, frozen=True):
    path: str
    name: str
    """Path relative to the root, "" or with a final slash."""
    depth: int
    rules: IgnoreRules


def _pass_over(_name: str) -> None:
    """Do nothing about a folder that may not be listed."""


def walk_files(
    root: str, stop: threading.Event, on_unreadable: Callable[[str], None] = _pass_over
) -> Iterator[WalkedEntry]:
    """Yield files and links below `root`, folder by folder in byte order; linked folders count as links.

    `on_unreadable` is called with the name of a folder that may not be listed.

    Raises:
        WalkStoppedError: `stop` was set.
    """
    for entry in walk_entries(root, stop, on_unreadable=on_unreadable):
        if not entry.is_dir and not entry.ignored:
            yield entry


def walk_entries(
    root: str, stop: threading.Event, *, depth: int | None = None, on_unreadable: Callable[[str], None] = _pass_over
) -> Iterator[WalkedEntry]:
    """Yield everything below `root`, each folder before its contents; ignored folders appear but are not entered.

    Raises:
        WalkStoppedError: `stop` was set.
    """
    start = _Folder(root, "", 1, rules_for(Path(root).resolve()))
    pending: list[Iterator[tuple[WalkedEntry, _Folder | None]]] = [_visit(start, stop, on_unreadable)]
    while pending:
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
            continue
        entry, below = step
        yield entry
        if below is not None and (depth is None or below.depth <= depth):
            pending.append(_visit(below, stop, on_unreadable))


def look_at(root: str, wanted: str = "file or folder") -> os.stat_result:
    """Return the status of `root`; errors call it `wanted` when it is missing.

    Raises:
        FileMissingError: there is nothing.
        AccessDeniedError: a folder above it may not be entered.
    """
    try:
        return Path(root).stat()
    except PermissionError as error:
        sentence = f"{root} lies in a folder that may not be entered; its owner has to allow it first."
        raise AccessDeniedError(sentence) from error
    except (OSError, ValueError) as error:
        raise FileMissingError(f"There is no {wanted} {root}; check the path.") from error


def require_folder(root: str) -> None:
    """Check that `root` can be walked.

    Raises:
        FileMissingError: there is nothing.
        WorkspaceError: it is a file, or may not be looked at.
    """
    if not stat.S_ISDIR(look_at(root, "folder").st_mode):
        raise NotAFileError(f"{root} is a file, not a folder; give the folder it is in.")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a worker thread; when the caller is cancelled, its event is set and nobody waits for it."""
    stop = threading.Event()

    def run() -> T | WalkStoppedError:
        try:
            return work(stop)
        except WalkStoppedError as stopped:
            return stopped

    try:
        result = await to_thread.run_sync(run, abandon_on_cancel=True)
    finally:
        stop.set()
    if isinstance(result, WalkStoppedError):
        raise result
    return result


def _visit(
    folder: _Folder, stop: threading.Event, on_unreadable: Callable[[str], None]
) -> Iterator[tuple[WalkedEntry, _Folder | None]]:
    if stop.is_set():
        raise WalkStoppedError
    for entry in _sorted_entries(folder, on_unreadable):
        if entry.name == ".git":
            continue
        is_link = entry.is_symlink()
        is_dir = not is_link and entry.is_dir(follow_symlinks=False)
        name = folder.name + entry.name
        ignored = folder.rules.ignores(name, is_dir=is_dir)
        below = None
        if is_dir and not ignored:
            rules = folder.rules.enter(Path(entry.path), name)
            below = _Folder(entry.path, name + "/", folder.depth + 1, rules)
        yield WalkedEntry(name, entry, is_dir, is_link, ignored), below


def _sorted_entries(folder: _Folder, on_unreadable: Callable[[str], None]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder.path) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except FileNotFoundError:
        # Deleted meanwhile.
        return []
    except OSError:
        on_unreadable(folder.name.removesuffix("/"))
        return []


EntryKind: TypeAlias = Literal["file", "directory", "link", "other"]

MAX_COUNTED = 100_000
"""Entries after which counting stops."""


TOP_NAMES = 30
"""Names of a folder that a prompt lists."""

_PLAIN_NAME = late_pattern(r"[\w@+][\w.@+-]{0,39}")
"""Names that can be said to a model without a mark around them: no sentence is one."""


def top_names(root: str) -> tuple[str, ...]:
    """The entries of a folder that are neither hidden nor ignored, folders with a final slash; some of many.

    Blocks for a look at the folder; never raises.
    """
    try:
        names = [
            f"{each.name}/" if each.is_dir else each.name
            for each in walk_entries(root, threading.Event(), depth=1)
            if not each.ignored and _PLAIN_NAME.fullmatch(each.name)
        ]
    except (OSError, WorkspaceError):
        return ()
    more = len(names) - TOP_NAMES
    return (*names[:TOP_NAMES], f"and {more:,} more") if more > 0 else tuple(names)


class DirectoryEntry(Struct, frozen=True):
    """One entry; `name` is relative to the listed folder, with forward slashes. `size` is in bytes, 0 unless a file."""

    name: str
    kind: EntryKind
    size: int = 0
    ignored: bool = False
    """True if git ignores it; ignored folders are not entered."""


class Listing(Struct, frozen=True):
    """The first entries of `root`, each folder before its contents, and the number of all."""

    root: str
    entries: tuple[DirectoryEntry, ...]
    total: int


async def list_directory(path: str, *, limit: int, depth: int = 1) -> Listing:
    """List an absolute folder, hidden files included, `.git` left out; `depth` 1 lists only the folder itself.

    Raises:
        FileMissingError: there is no such folder.
        WorkspaceError: it is a file.
    """

    def work(stop: threading.Event) -> Listing:
        require_folder(path)
        shown: list[DirectoryEntry] = []
        total = 0
        for walked in walk_entries(path, stop, depth=depth):
            total += 1
            if len(shown) < limit:
                shown.append(_entry(walked))
            if total >= MAX_COUNTED:
                break
        return Listing(path, tuple(shown), total)

    return await in_thread(work)


def _entry(walked: WalkedEntry) -> DirectoryEntry:
    if walked.is_link:
        return DirectoryEntry(walked.name, "link", ignored=walked.ignored)
    if walked.is_dir:
        return DirectoryEntry(walked.name, "directory", ignored=walked.ignored)
    try:
        found = walked.entry.stat(follow_symlinks=False)
    except OSError:
        return DirectoryEntry(walked.name, "other", ignored=walked.ignored)
    kind: EntryKind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return DirectoryEntry(walked.name, kind, found.st_size, walked.ignored)
