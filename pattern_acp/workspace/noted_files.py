"""A file system that tells which files were written through it.

Owns: telling, after each change that was made. Must not know: who wants to know.
"""

from collections.abc import Callable, Sequence

from pattern_acp.workspace.files import FileSystem, TextFile


class NotedFiles:
    """`FileSystem` over another one; `note` is told the absolute paths of every change and returns at once."""

    def __init__(self, inner: FileSystem, note: Callable[[Sequence[str]], None]) -> None:
        self._inner = inner
        self._note = note

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        return await self._inner.read_text_file(path)

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
