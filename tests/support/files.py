"""A file system in memory, which can also play an editor with bad habits.

Owns: `FakeFileSystem`. Must not know: who uses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError, TargetExistsError
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines
from pattern_acp.workspace.line_windows import lines_within


@dataclass(slots=True)
class EditorHabits:
    """What an editor does wrong or on its own; each was seen in a real client (reference clients, section 2)."""

    mute: bool = False
    """Never answers, nor does anything."""
    mute_after_writing: bool = False
    """Writes, but never says so: the deadline of who asks is over as soon as it has written."""
    error: WorkspaceError | None = None
    """Answers every call with this."""
    missing_as_empty: bool = False
    """Answers "" for a file that does not exist."""
    drops_final_newline: bool = False
    saves: bool = True
    """Whether a write reaches the disk or stays in the buffer."""
    plain_utf_8: bool = False
    """Saves every file as UTF-8 without a byte order mark."""
    formatter: Callable[[str], str] = field(default=str)
    """What it makes of a text on writing."""


class FakeFileSystem:
    """`FileSystem` over `texts`, by absolute path.

    With a `disk` it plays an editor: `texts` are its open buffers, everything else is read from and written to the
    disk. `calls` lists what was asked, such as `("read", "/a.txt")`.
    """

    def __init__(
        self,
        texts: Mapping[str, str] | None = None,
        *,
        disk: FileSystem | None = None,
        habits: EditorHabits | None = None,
    ) -> None:
        self.texts: dict[str, str] = dict(texts or {})
        self.habits = habits or EditorHabits()
        self.calls: list[tuple[str, str]] = []
        self._disk = disk

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`."""
        self.calls.append(("read", path))
        await self._misbehave()
        return TextFile(path, self._spoil(await self._text(path)), "editor")

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`."""
        self.calls.append(("read lines", path))
        await self._misbehave()
        if path not in self.texts and self._disk is not None:
            return await self._disk.read_lines(path, window)
        lines = tuple(lines_within((await self._text(path),), window, window.start - 1))
        return TextLines(lines, None, "editor")

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`."""
        self.calls.append(("write", path))
        await self._misbehave()
        formatted = self.habits.formatter(text)
        if self._disk is not None and self.habits.saves:
            await self._disk.write_text_file(path, formatted)
            if self.habits.plain_utf_8:
                await anyio.Path(path).write_bytes(formatted.removeprefix("\ufeff").encode())
        if self._disk is None or not self.habits.saves or path in self.texts:
            self.texts[path] = formatted
        if self.habits.mute_after_writing:
            raise TimeoutError
        return TextFile(path, formatted, "editor")

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        self.calls.append(("move", path))
        if path in self.texts and (to in self.texts):
            raise TargetExistsError(f"{to} exists already; {path} was not moved.")
        if self._disk is not None:
            await self._disk.move_file(path, to)
        elif path not in self.texts:
            raise FileMissingError(f"There is no file {path}.")
        if path in self.texts:
            self.texts[to] = self.texts.pop(path)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        self.calls.append(("remove", path))
        if self._disk is not None:
            await self._disk.remove_file(path)
        elif path not in self.texts:
            raise FileMissingError(f"There is no file {path}.")
        self.texts.pop(path, None)

    async def _misbehave(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.habits.mute:
            await anyio.sleep_forever()
        if self.habits.error is not None:
            raise self.habits.error

    async def _text(self, path: str) -> str:
        if path in self.texts:
            return self.texts[path]
        try:
            if self._disk is not None:
                return (await self._disk.read_text_file(path)).text
        except FileMissingError:
            pass
        if self.habits.missing_as_empty:
            return ""
        raise FileMissingError(f"There is no file {path}.")

    def _spoil(self, text: str) -> str:
        return text.removesuffix("\n").removesuffix("\r") if self.habits.drops_final_newline else text
