"""File systems that report their changes.

Owns: the reports before and after each change. Must not know: who needs them.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.to_thread

from pattern_acp.domain.paths import resolve_path
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines

AFTER_SECONDS = 0.4
"""Longest time to inspect files after a cancelled change; a cancel is answered within 2 s (invariant 3)."""


class ObservedFiles:
    """`FileSystem` over another one; `note` gets the absolute paths of every change and returns at once."""

    def __init__(self, inner: FileSystem, note: Callable[[Sequence[str]], None]) -> None:
        self._inner = inner
        self._note = note

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        return await self._inner.read_text_file(path)

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `TextStore.read_lines`."""
        return await self._inner.read_lines(path, window)

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


class TrackedFiles:
    """`FileSystem` over another one that calls a `ChangeRecorder` before and after each change."""

    def __init__(self, inner: FileSystem, keeper: ChangeRecorder) -> None:
        self._inner = inner
        self._keeper = keeper

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        return await self._inner.read_text_file(path)

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `TextStore.read_lines`."""
        return await self._inner.read_lines(path, window)

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
