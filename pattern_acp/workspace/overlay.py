"""A copy-on-write view of a folder's files: what is read comes from the base, what is written stays here.

Owns: the written contents, the base that each of them starts from, and hashes of all that was read and written. Must
not know: who writes into it, commands, how it lands. An overlay can be the base of another one.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.workspace.errors import (
    AccessDeniedError,
    FileMissingError,
    NotAFileError,
    NotTextError,
    TargetExistsError,
)
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines, fingerprint
from pattern_acp.workspace.line_windows import lines_within
from pattern_acp.workspace.text_codec import decode_text

Content: TypeAlias = str | bytes | None
"""The text of a file, the bytes of one that is no text, or None where there is no file."""

NO_FILE = ""
"""The hash of a file that is not there."""


class OverlayChange(Struct, frozen=True):
    """One file that differs from the base. `path` is absolute and resolved."""

    path: str
    before: Content
    after: Content
    mode: int = 0
    """Permission bits that the file is to have; 0 for those that it has, or those of a new file."""

    @property
    def before_hash(self) -> str:
        """Hash of the base's content."""
        return content_hash(self.before)

    @property
    def after_hash(self) -> str:
        """Hash of the written content."""
        return content_hash(self.after)


class _Written(Struct, frozen=True):
    content: Content
    mode: int = 0


class OverlayFileSystem:
    """`FileSystem` over `base`, which is never written to."""

    def __init__(self, base: FileSystem) -> None:
        self._base = base
        self._written: dict[str, _Written] = {}
        self._bases: dict[str, Content] = {}
        self._read: dict[str, str] = {}
        self._resolved: dict[str, str] = {}
        """Paths as they were asked for, to the files that they lead to."""

    @property
    def is_clean(self) -> bool:
        """True while nothing was written that differs from the base."""
        return not self._written

    def changes(self) -> tuple[OverlayChange, ...]:
        """All that differs from the base, in the order of the paths."""
        written = sorted(self._written.items())
        return tuple(OverlayChange(path, self._bases[path], each.content, each.mode) for path, each in written)

    def all_changes(self) -> tuple[OverlayChange, ...]:
        """The same from the lowest base on, where this overlay lies over others."""
        if not isinstance(self._base, OverlayFileSystem):
            return self.changes()
        found = {change.path: change for change in self._base.all_changes()}
        for own in self.changes():
            below = found.get(own.path)
            before = own.before if below is None else below.before
            mode = own.mode or (below.mode if below is not None else 0)
            found[own.path] = OverlayChange(own.path, before, own.after, mode)
        return tuple(change for _, change in sorted(found.items()))

    def reads(self) -> Mapping[str, str]:
        """Hashes of the base's texts as they were first read whole, by the paths that were asked for."""
        return dict(self._read)

    def tree_hash(self) -> str:
        """One hash over all that was read and written."""
        lines = [f"r {path} {digest}" for path, digest in self._read.items()]
        lines += [f"w {change.path} {change.before_hash} {change.after_hash}" for change in self.changes()]
        return sha256_hex("\n".join(sorted(lines)).encode("utf-8", "surrogatepass"))

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        written = await self._find(path)
        if written is not None:
            return TextFile(path, _text_of(path, written.content), "disk")
        file = await self._base.read_text_file(path)
        if path not in self._read:
            self._read[path] = fingerprint(file.text)
        return file

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `TextStore.read_lines`."""
        written = await self._find(path)
        if written is None:
            return await self._base.read_lines(path, window)
        text = _text_of(path, written.content)
        total = text.count("\n") + (text != "" and not text.endswith("\n"))
        return TextLines(tuple(lines_within((text,), window, window.start - 1)), total, "disk")

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `TextStore.write_text_file`."""
        await self.put(path, text)
        return TextFile(path, text, "disk")

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        source, mode = await self._content(path)
        if source is None:
            raise FileMissingError(f"There is no file {path}; check the path.")
        target, _ = await self._content(to)
        if target is not None:
            raise TargetExistsError(f"{to} exists already; {path} was not moved.")
        await self.put(to, source, mode)
        await self.put(path, None)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        content, _ = await self._content(path)
        if content is None:
            raise FileMissingError(f"There is no file {path}; check the path.")
        await self.put(path, None)

    def put_back(self, paths: Iterable[str]) -> None:
        """Let files (resolved paths of changes) be as the base has them."""
        for path in paths:
            if path in self._bases:
                self._written.pop(path, None)

    async def note_base(self, path: str, content: Content) -> None:
        """Take `content` for what a change of a file starts from, unless one is known.

        Raises:
            WorkspaceError: the base could not be written so, and why.
        """
        key = await self._key(path)
        if key not in self._bases:
            await anyio.to_thread.run_sync(_refuse_unwritable, key)
            self._bases[key] = content

    async def put(self, path: str, content: Content, mode: int = 0) -> None:
        """Give a file its content and permission bits, or take it away; 0 leaves the bits as they are.

        Raises:
            WorkspaceError: the base could not be written so, and why; nothing was changed.
        """
        key = await self._key(path)
        if key not in self._bases:
            await self.note_base(path, await self._base_content(key))
        above = next((str(one) for one in Path(key).parents if self._has(str(one))), "")
        if above:
            raise WorkspaceError(f"{path} cannot be written: {above} is a file, not a folder.")
        if content == self._bases[key] and not mode:
            self._written.pop(key, None)
        else:
            known = self._written.get(key)
            self._written[key] = _Written(content, mode or (known.mode if known is not None else 0))

    def _has(self, key: str) -> bool:
        written = self._written.get(key)
        return written is not None and written.content is not None

    async def _find(self, path: str) -> _Written | None:
        # Until something is written, a read costs no more than the base's.
        return self._written.get(await self._key(path)) if self._written else None

    async def _key(self, path: str) -> str:
        if path not in self._resolved:
            self._resolved[path] = await anyio.to_thread.run_sync(resolve_path, path)
        return self._resolved[path]

    async def _content(self, path: str) -> tuple[Content, int]:
        """Content and permission bits of a file that is moved or removed, as this view has them."""
        written = await self._find(path)
        if written is not None:
            return written.content, written.mode
        mode = await anyio.to_thread.run_sync(_mode_of, path)
        return await self._base_content(await self._key(path)), mode

    async def _base_content(self, key: str) -> Content:
        try:
            return (await self._base.read_text_file(key)).text
        except FileMissingError:
            return None
        except NotTextError:
            return await anyio.to_thread.run_sync(Path(key).read_bytes)


def content_of(data: bytes) -> Content:
    """Return the text of a file's bytes, or the bytes where they are no text."""
    try:
        return decode_text(data)[0]
    except NotTextError:
        return data


def content_hash(content: Content) -> str:
    """SHA-256 of a content; `NO_FILE` of none."""
    if content is None:
        return NO_FILE
    return fingerprint(content) if isinstance(content, str) else sha256_hex(content)


def _text_of(path: str, content: Content) -> str:
    if content is None:
        raise FileMissingError(f"There is no file {path}; check the path.")
    if isinstance(content, bytes):
        raise NotTextError(f"{path} cannot be read as text: it is binary.")
    return content


def _refuse_unwritable(key: str) -> None:
    try:
        found = os.stat(key)  # noqa: PTH116  a Path costs as much as the look
    except OSError:
        return
    if stat.S_ISDIR(found.st_mode):
        raise NotAFileError(f"{key} is a folder, so no text can be written to it.")
    if not stat.S_ISREG(found.st_mode):
        raise NotAFileError(f"{key} is a device, pipe or socket; only files are written.")
    if not os.access(key, os.W_OK):
        raise AccessDeniedError(f"{key} is read-only; make it writable first if it is to be changed.")


def _mode_of(path: str) -> int:
    try:
        mode = Path(path).lstat().st_mode
    except OSError:
        return 0
    if stat.S_ISLNK(mode):
        raise NotAFileError(f"{path} is a symbolic link; name the file that it leads to, or use a command.")
    if not stat.S_ISREG(mode):
        raise NotAFileError(f"{path} is not a file, so it is neither moved nor deleted; use a command for it.")
    return stat.S_IMODE(mode)
