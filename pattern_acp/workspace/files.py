"""The `FileSystem` port: text of files, as the user sees them."""

from typing import Literal, Protocol

from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex


class TextFile(Struct, frozen=True):
    """The text of one file.

    `source` names its origin, the editor's buffer or the disk; `warning` is a sentence for the user when the source is
    not the first choice (an editor that did not answer, a stale buffer).
    """

    path: str
    text: str
    source: Literal["editor", "disk"]
    warning: str = ""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text, on which an edit is based."""
        return fingerprint(self.text)


class LineWindow(Struct, frozen=True):
    """The lines to read: 1-based `start`, and how many lines, characters of a line and characters in all at most."""

    start: int
    count: int
    width: int
    characters: int


class TextLines(Struct, frozen=True):
    """The lines of a window without their ends, and what `TextFile` has; `total` is None where it is not known."""

    lines: tuple[str, ...]
    total: int | None
    source: Literal["editor", "disk"]
    warning: str = ""


def fingerprint(text: str) -> str:
    """SHA-256 of a file's text."""
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


class TextStore(Protocol):
    """Text files by absolute path. Globs, binary files and directories are read from the disk."""

    async def read_text_file(self, path: str) -> TextFile:
        """Read the whole text of the file.

        Raises:
            FileMissingError: there is no such file.
            NotTextError: the file is not text in a known encoding.
            WorkspaceError: anything else, with a sentence.
        """
        ...

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """Read some lines of a file of any size, in bounded memory.

        Raises:
            as `read_text_file`.
        """
        ...

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """Write the whole text through exactly one of editor and disk, creating the file and its folders if missing.

        Returns the text that a read would return afterwards (an editor may have formatted it).

        Raises:
            WorkspaceError: nothing was written, and why.
        """
        ...


class FileSystem(TextStore, Protocol):
    """A text store whose files can also be moved and removed, which ACP does not offer for editors."""

    async def move_file(self, path: str, to: str) -> None:
        """Rename the file, with its bytes, mode and times; missing folders are created.

        Raises:
            FileMissingError: there is no such file.
            WorkspaceError: nothing was moved, and why; `to` exists, or `path` is a link, a folder or a device.
        """
        ...

    async def remove_file(self, path: str) -> None:
        """Delete the file.

        Raises:
            FileMissingError: there is no such file.
            WorkspaceError: nothing was deleted, and why.
        """
        ...
