"""States of files: taking one, putting a path back into one, and file systems that report their changes.

Owns: bytes, permission bits and links of single paths, the rule that nothing is written outside the roots, whatever
links were put in the way meanwhile, and the reports before and after each change. Must not know: checkpoints, the
journal, editors, or who needs a report. All but `capture_all` blocks and belongs in a worker thread.

Where the system has `openat` and its kin, every folder on the way is opened without following links, and the last step
works in the opened folder, so that nothing can be swapped between a check and its use. Elsewhere (Windows) the way is
checked right before.
"""

import contextlib
import errno
import os
import stat
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio import to_thread
from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import is_within, resolve_path
from pattern_acp.domain.tool_calls import A_FOLDER, MISSING, FileState
from pattern_acp.workspace.errors import NotRestoredError
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines

FILE_BYTES = 10_000_000
"""Largest file whose content a checkpoint stores; a larger one is data that a session seldom writes itself."""

TOO_LARGE = f"it is larger than {FILE_BYTES // 1_000_000} MB"

_WAY = "a folder on the way to it is a link or a file now"

_AT_FOLDERS = all(step in os.supports_dir_fd for step in (os.open, os.rename, os.unlink, os.symlink, os.mkdir))
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Captured(Struct, frozen=True):
    """A state, and the bytes of a file whose content is stored."""

    state: FileState
    content: bytes | None = None


def canonical_path(path: str, folders: dict[str, str] | None = None) -> str:
    """Return the one name of a path for checkpoints: its folder resolved, its last part unchanged, even for a link.

    `folders` takes each folder that is resolved, for the next path of the same look.

    Raises:
        WorkspaceError: the links on the way lead in a circle.
    """
    parent, name = os.path.split(path)
    if not name:
        return resolve_path(path)
    folder = folders.get(parent) if folders is not None else None
    if folder is None:
        folder = resolve_path(parent)
        if folders is not None:
            folders[parent] = folder
    return os.path.normpath(f"{folder}{os.sep}{name}")


def capture(path: str, *, limit: int = FILE_BYTES) -> Captured:
    """Capture the state of `path` now; never raises. A folder or device has no content to store.

    `limit` is in bytes; of a larger file only kind, mode and size are recorded.
    """
    try:
        found = Path(path).lstat()
        if stat.S_ISLNK(found.st_mode):
            return Captured(FileState("link", digest=str(Path(path).readlink())))
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            is_folder = stat.S_ISDIR(found.st_mode)
            return Captured(FileState("file", mode, 0, why_not=A_FOLDER if is_folder else "it is a device"))
        if found.st_size > limit:
            return Captured(FileState("file", mode, found.st_size, why_not=TOO_LARGE))
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Captured(MISSING)
    except (OSError, ValueError):
        return Captured(FileState("file", why_not="it cannot be read"))
    if len(content) > limit:
        return Captured(FileState("file", mode, len(content), why_not=TOO_LARGE))
    return Captured(FileState("file", mode, len(content), sha256_hex(content)), content)


def capture_in_place(path: str, folders: dict[str, str] | None = None) -> Captured:
    """Capture a path that `canonical_path` returned; a file behind a link on the way to it is another one.

    `folders` is that of `canonical_path`. Never raises.
    """
    try:
        return capture(path) if canonical_path(path, folders) == path else Captured(MISSING)
    except WorkspaceError:
        return Captured(MISSING)


async def capture_all(paths: Sequence[str]) -> list[Captured]:
    """Capture paths as `capture_in_place` does, in one thread: each change of threads costs as much as a small file."""
    folders: dict[str, str] = {}
    return await to_thread.run_sync(lambda: [capture_in_place(path, folders) for path in paths])


def is_repository(path: str) -> bool:
    """Return whether a folder is the top of a git repository, submodule or linked worktree."""
    # A Path cannot look at a link itself without raising for a forbidden folder.
    return os.path.lexists(f"{path}/.git")


def put_back(path: str, state: FileState, content: bytes | None, roots: Sequence[str]) -> None:
    """Put `path`, from `canonical_path`, into `state`. Doing it twice is the same as once.

    `content` is that of a file. Missing folders are created, and an empty one in its place is removed; nothing is
    written outside `roots`.

    Raises:
        WorkspaceError: nothing was changed, and why.
    """
    root = _root_of(path, roots)
    try:
        with _folder_of(path, root, make=state.kind != "missing") as folder:
            _replace(folder, Path(path).name, state, content)
    except (FileNotFoundError, NotADirectoryError):
        if state.kind != "missing":
            raise NotRestoredError(f"{path} was not put back: {_WAY}.") from None
    except OSError as error:
        raise NotRestoredError(f"{path} was not put back: {_reason(error)}.") from error


def remove_empty_folders(path: str, roots: Sequence[str]) -> None:
    """Remove the empty folders on the way to `path`, which is gone; never one of `roots`.

    Raises:
        WorkspaceError: the path lies outside `roots`.
    """
    root = _root_of(path, roots)
    for folder in Path(path).parents:
        if str(folder) in roots or not is_within(str(folder), [root]):
            return
        try:
            with _folder_of(str(folder), root, make=False) as above:
                os.rmdir(above.name(folder.name), dir_fd=above.at)
        except OSError:
            return


def set_mode(path: str, mode: int, roots: Sequence[str]) -> None:
    """Give a file its permission bits.

    Raises:
        WorkspaceError: nothing was changed, and why.
    """
    root = _root_of(path, roots)
    try:
        with _folder_of(path, root, make=False) as folder:
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
            if not hasattr(os, "fchmod"):
                Path(path).chmod(mode)
                return
            descriptor = os.open(Path(path).name if folder.at is not None else path, flags, dir_fd=folder.at)
            try:
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise NotRestoredError(f"{path} keeps its permissions: {_reason(error)}.") from error


def refuse_links(path: str, roots: Sequence[str]) -> None:
    """Check that no part of the way to `path` has become a link, for a writer that goes by the path.

    Raises:
        WorkspaceError: one has, or the path lies outside `roots`.
    """
    _root_of(path, roots)
    if canonical_path(path) != path:
        raise NotRestoredError(f"{path} was not put back: {_WAY}.")


class _Folder(Struct, frozen=True):
    """An open folder: `at` is its descriptor, None where the system works by paths alone."""

    path: str
    at: int | None

    def name(self, name: str) -> str:
        """The argument for a call on a name in the folder."""
        return name if self.at is not None else str(Path(self.path) / name)


def _root_of(path: str, roots: Sequence[str]) -> str:
    inside = [root for root in roots if is_within(path, [root])]
    if not inside:
        raise NotRestoredError(f"{path} lies outside the session's folders and is left as it is.")
    return max(inside, key=len)


@contextmanager
def _folder_of(path: str, root: str, *, make: bool) -> Generator[_Folder, None, None]:
    parent = Path(path).parent
    names = parent.relative_to(root).parts
    if not _AT_FOLDERS:
        if make:
            parent.mkdir(parents=True, exist_ok=True)
        refuse_links(path, [root])
        yield _Folder(str(parent), None)
        return
    descriptor = os.open(root, _FOLDER_FLAGS)
    try:
        for name in names:
            descriptor = _enter(descriptor, name, make=make)
        yield _Folder(str(parent), descriptor)
    finally:
        os.close(descriptor)


def _enter(folder: int, name: str, *, make: bool) -> int:
    """Open a folder in a folder, which is closed; on failure it stays open."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    entered = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    os.close(folder)
    return entered


def _replace(folder: _Folder, name: str, state: FileState, content: bytes | None) -> None:
    at = folder.at
    if state.kind == "missing":
        _drop_empty(folder, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder.name(name), dir_fd=at)
        return
    # The same each time: what a kill left there is gone when going back is finished.
    beside = f".{name[:60]}.{sha256_hex(os.fsencode(name))[:12]}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder.name(beside), dir_fd=at)
    try:
        if state.kind == "link":
            os.symlink(state.digest, folder.name(beside), dir_fd=at)
        else:
            _write_new(folder, beside, content or b"", state.mode)
        _drop_empty(folder, name)
        os.replace(folder.name(beside), folder.name(name), src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(folder.name(beside), dir_fd=at)
        raise


def _drop_empty(folder: _Folder, name: str) -> None:
    """Remove an empty folder; one that is not empty, or is none, stays."""
    with contextlib.suppress(OSError):
        os.rmdir(folder.name(name), dir_fd=folder.at)


def _write_new(folder: _Folder, name: str, content: bytes, mode: int) -> None:
    descriptor = os.open(folder.name(name), _NEW_FLAGS, 0o600, dir_fd=folder.at)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _reason(error: OSError) -> str:
    if error.errno in {errno.ELOOP, errno.EMLINK} or isinstance(error, NotADirectoryError):
        return _WAY
    if isinstance(error, IsADirectoryError):
        return "a folder of this name is there now"
    if isinstance(error, PermissionError):
        return "the system denies access to it"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "the disk is full"
    return error.strerror or str(error)


AFTER_SECONDS = 0.4
"""Longest time to inspect files after a cancelled change; a cancel is answered within 2 s (invariant 3)."""


class _ReadThrough:
    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        return await self._inner.read_text_file(path)

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `TextStore.read_lines`."""
        return await self._inner.read_lines(path, window)


class ObservedFiles(_ReadThrough):
    """`FileSystem` over another one; `note` gets the absolute paths of every change and returns at once."""

    def __init__(self, inner: FileSystem, note: Callable[[Sequence[str]], None]) -> None:
        super().__init__(inner)
        self._note = note

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `TextStore.write_text_file`."""
        try:
            return await self._inner.write_text_file(path, text)
        finally:
            # Also after a failure: an editor may have written and failed to answer.
            self._note((path,))

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        await self._inner.move_file(path, to)
        self._note((path, to))

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        await self._inner.remove_file(path)
        self._note((path,))


class ChangeRecorder(Protocol):
    """Stores the state of files before a change, and notes the one after it."""

    async def before_change(self, paths: Sequence[str]) -> None:
        """Store the state of these paths; when this raises, the change is not made."""
        ...

    async def after_change(self, paths: Sequence[str]) -> None:
        """Note the new state of these paths."""
        ...


class TrackedFiles(_ReadThrough):
    """`FileSystem` over another one that calls a `ChangeRecorder` before and after each change."""

    def __init__(self, inner: FileSystem, keeper: ChangeRecorder) -> None:
        super().__init__(inner)
        self._keeper = keeper

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `TextStore.write_text_file`."""
        # A link is followed when it is written, so its target is the file that changes.
        async with self._kept([await anyio.to_thread.run_sync(resolve_path, path)]):
            return await self._inner.write_text_file(path, text)

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        async with self._kept([path, to]):
            await self._inner.move_file(path, to)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        async with self._kept([path]):
            await self._inner.remove_file(path)

    @asynccontextmanager
    async def _kept(self, paths: Sequence[str]) -> AsyncGenerator[None, None]:
        await self._keeper.before_change(paths)
        try:
            yield
            await self._keeper.after_change(paths)
        except BaseException as error:
            # Changes until it failed or was cancelled count all the same.
            hurries = isinstance(error, anyio.get_cancelled_exc_class())
            with anyio.CancelScope(shield=hurries), anyio.move_on_after(AFTER_SECONDS if hurries else None):
                await self._keeper.after_change(paths)
            raise
