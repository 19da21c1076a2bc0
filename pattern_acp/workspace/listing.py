"""What is in a folder.

Owns: the entries of a folder, and of the folders below it down to a depth. Must not know: how they are shown.
"""

import stat
import threading
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.workspace.walk import WalkedEntry, in_thread, require_folder, walk_entries

EntryKind: TypeAlias = Literal["file", "directory", "link", "other"]

MAX_COUNTED = 100_000
"""Entries after which counting stops."""


class Entry(Struct, frozen=True):
    """One entry; `name` is relative to the listed folder, with forward slashes. `size` is in bytes, 0 unless a file."""

    name: str
    kind: EntryKind
    size: int = 0
    ignored: bool = False
    """Whether git ignores it; ignored folders are not entered."""


class Listing(Struct, frozen=True):
    """The first entries of `root`, each folder right before what is in it, and how many there are in all."""

    root: str
    entries: tuple[Entry, ...]
    total: int


async def list_directory(path: str, *, limit: int, depth: int = 1) -> Listing:
    """List an absolute folder, hidden files included, `.git` left out; `depth` 1 lists only the folder itself.

    Raises:
        FileMissingError: there is no such folder.
        WorkspaceError: it is a file.
    """

    def work(stop: threading.Event) -> Listing:
        require_folder(path)
        shown: list[Entry] = []
        total = 0
        for walked in walk_entries(path, stop, depth=depth):
            total += 1
            if len(shown) < limit:
                shown.append(_entry(walked))
            if total >= MAX_COUNTED:
                break
        return Listing(path, tuple(shown), total)

    return await in_thread(work)


def _entry(walked: WalkedEntry) -> Entry:
    if walked.is_link:
        return Entry(walked.name, "link", ignored=walked.ignored)
    if walked.is_dir:
        return Entry(walked.name, "directory", ignored=walked.ignored)
    try:
        found = walked.entry.stat(follow_symlinks=False)
    except OSError:
        return Entry(walked.name, "other", ignored=walked.ignored)
    kind: EntryKind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return Entry(walked.name, kind, found.st_size, walked.ignored)
