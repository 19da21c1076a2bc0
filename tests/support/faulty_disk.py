"""A disk that loses power, fills up and fails: a file system of SQLite (a VFS) that records what is done to its files.

Owns: recording writes, truncations, syncs and deletions of one folder; raising or exiting at a chosen one; and building
the files that a crash after any of them leaves. Must not know: what is in the files, or who writes them.

SQLite's shared memory (`-shm`) is not on the disk: it is made anew from the log by whoever opens a file first.
"""

import os
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

SECTOR = 512
"""Bytes that a disk writes whole or not at all."""

_NAME = "pattern-acp-faulty"

Kind: TypeAlias = Literal["read", "write", "truncate", "sync", "delete", "sync_folder"]

_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that was done to a file, which is known by its last name."""

    kind: Kind
    name: str
    at: int = 0
    """Where `data` was written; of a truncation, the new length; of a deletion, 1 when its folder was synced."""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens instead of an operation, counted from the moment when it is set up."""

    kinds: frozenset[Kind]
    after: int
    """How many operations of these kinds go well before."""
    raises: type[apsw.Error] | None
    """None: the process ends on the spot, as with SIGKILL."""
    lasts: bool = False
    """Whether everything after it fails, too."""


@dataclass(slots=True)
class FaultyDisk:
    """What was done to the files of a folder since the beginning."""

    folder: Path
    start: Mapping[str, bytes]
    """The files as they were found."""
    operations: list[Operation] = field(default_factory=list[Operation])
    hits: int = 0
    """How often the fault has struck."""
    seen: int = 0
    """How many operations of the fault's kinds there were."""
    _fault: Fault | None = None

    def fail(self, fault: Fault | None) -> None:
        """Set a fault up; None: the disk works again."""
        self._fault, self.seen, self.hits = fault, 0, 0

    def before(self, kind: Kind) -> None:
        """Called before each operation.

        Raises:
            apsw.Error: the fault's.
        """
        fault = self._fault
        if fault is None or kind not in fault.kinds:
            return
        self.seen += 1
        if self.seen <= fault.after or (self.hits and not fault.lasts):
            return
        self.hits += 1
        if fault.raises is None:
            os._exit(9)
        raise fault.raises(f"the test's disk fails at {kind} {self.seen}")

    def owns(self, name: str | None) -> bool:
        """Whether the file is one of the folder's."""
        return name is not None and Path(name).parent == self.folder


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, base: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._name = Path(path).name
        # The first sync of a journal or log also syncs its folder (os_unix.c, UNIXFILE_DIRSYNC).
        self._syncs_folder = bool(flags[0] & _JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__(base, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802  # the names are SQLite's
        self._disk.before("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.before("write")
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]  # apsw's buffer is unknown before 3.12
        self._disk.operations.append(Operation("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.before("truncate")
        super().xTruncate(newsize)
        self._disk.operations.append(Operation("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.before("sync")
        super().xSync(flags)
        if self._syncs_folder:
            self._disk.operations.append(Operation("sync_folder", ""))
            self._syncs_folder = False
        self._disk.operations.append(Operation("sync", self._name))


class _FileSystem(apsw.VFS):
    def __init__(self, disk: FaultyDisk, base: str) -> None:
        self._disk = disk
        self._base = base
        super().__init__(_NAME, base)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if name is None or not self._disk.owns(path):
            return super().xOpen(name, flags)
        return _File(self._disk, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if not self._disk.owns(filename):
            super().xDelete(filename, syncdir)
            return
        self._disk.before("delete")
        super().xDelete(filename, syncdir)
        self._disk.operations.append(Operation("delete", Path(filename).name, int(syncdir)))


@contextmanager
def faulty_disk(folder: Path) -> Generator[FaultyDisk, None, None]:
    """Everything that SQLite opens in the block and that lies in `folder` is on this disk. One block at a time.

    The folder is made when it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    usual = apsw.vfs_names()[0]
    disk = FaultyDisk(folder, {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()})
    system = _FileSystem(disk, usual)
    apsw.set_default_vfs(_NAME)
    try:
        yield disk
    finally:
        apsw.set_default_vfs(usual)
        system.unregister()


Files: TypeAlias = Mapping[str, bytes]
"""The content of a folder."""

Kept: TypeAlias = Callable[[Sequence[Operation]], Sequence[Operation]]
"""Which of a file's operations that were not synced have reached the disk all the same."""


def left_by_kill(disk: FaultyDisk, done: int) -> Files:
    """The files after the process was killed: the system still has everything that it was told."""
    files = {name: bytearray(content) for name, content in disk.start.items()}
    for operation in disk.operations[:done]:
        _apply(files, operation)
    return {name: bytes(content) for name, content in files.items()}


def left_by_power_cut(disk: FaultyDisk, done: int, kept: Kept) -> Files:
    """The files after the machine stopped: what was synced, and of the rest what `kept` chooses for each file."""
    files = {name: bytearray(content) for name, content in disk.start.items()}
    waiting: dict[str, list[Operation]] = {}
    for operation in disk.operations[:done]:
        if operation.kind == "sync" or (operation.kind == "delete" and operation.at):
            for each in waiting.pop(operation.name, []):
                _apply(files, each)
            _apply(files, operation)
        elif operation.kind == "sync_folder":
            for unsynced in waiting.values():
                while any(each.kind == "delete" for each in unsynced):
                    _apply(files, unsynced.pop(0))
        else:
            waiting.setdefault(operation.name, []).append(operation)
    for unsynced in waiting.values():
        for each in kept(unsynced):
            _apply(files, each)
    return {name: bytes(content) for name, content in files.items()}


def _apply(files: dict[str, bytearray], operation: Operation) -> None:
    if operation.kind == "delete":
        files.pop(operation.name, None)
        return
    if operation.kind == "sync_folder":
        return
    content = files.setdefault(operation.name, bytearray())
    if operation.kind == "truncate":
        del content[operation.at :]
        content.extend(bytes(operation.at - len(content)))
    elif operation.kind == "write":
        # A gap that nobody wrote reads as zeros.
        content.extend(bytes(max(0, operation.at - len(content))))
        content[operation.at : operation.at + len(operation.data)] = operation.data


def nothing(unsynced: Sequence[Operation]) -> Sequence[Operation]:
    """The disk had written none of it."""
    del unsynced
    return ()


def everything(unsynced: Sequence[Operation]) -> Sequence[Operation]:
    """The disk had just finished."""
    return unsynced


def the_first(chosen: random.Random) -> Kept:
    """The disk wrote in order, up to some moment."""
    return lambda unsynced: unsynced[: chosen.randint(0, len(unsynced))]


def any_of(chosen: random.Random) -> Kept:
    """The disk wrote in an order of its own."""
    return lambda unsynced: [each for each in unsynced if chosen.random() < 0.5]


def torn(chosen: random.Random) -> Kept:
    """The disk wrote in an order of its own, and of each write only some sectors."""

    def tear(unsynced: Sequence[Operation]) -> Sequence[Operation]:
        pieces: list[Operation] = []
        for each in unsynced:
            if each.kind != "write":
                pieces += [each] if chosen.random() < 0.5 else []
                continue
            end = each.at + len(each.data)
            # Sectors lie at multiples of their size in the file, wherever the write begins.
            edges = [each.at, *range(each.at - each.at % SECTOR + SECTOR, end, SECTOR), end]
            pieces += [
                Operation("write", each.name, start, each.data[start - each.at : stop - each.at])
                for start, stop in pairwise(edges)
                if chosen.random() < 0.5
            ]
        return pieces

    return tear


def put(files: Files, folder: Path) -> None:
    """Write the files into an empty folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
