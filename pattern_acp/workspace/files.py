"""The `FileSystem` port: text of files, as the user sees them; and the errors of files, paths and commands."""

from typing import Literal, Protocol

from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import WorkspaceError


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


class FileMissingError(WorkspaceError):
    """There is no such file or folder."""

    failure_code = "workspace.file-missing"


class NotTextError(WorkspaceError):
    """The file is binary, or in an unknown encoding."""

    failure_code = "workspace.not-text"


class FileChangedError(WorkspaceError):
    """The file is no longer the one an edit was based on."""

    failure_code = "workspace.file-changed"


class CommandFailedToStartError(WorkspaceError):
    """The command could not be started at all."""

    failure_code = "workspace.command-not-started"


class EditorUnavailableError(WorkspaceError):
    """The editor did not answer in time, or said that it cannot: another way may be taken."""

    failure_code = "editor.no-answer"


class EditorLacksError(EditorUnavailableError):
    """The editor does not know the request, although it said that it does: it need not be asked again."""

    failure_code = "editor.no-answer"


class EditorRefusedError(WorkspaceError):
    """The editor answered with an error that is a refusal, or may be one: no other way may be taken."""

    failure_code = "editor.refused"


class ImageError(WorkspaceError):
    """An image cannot be read: damaged, too large, or of another format."""

    failure_code = "workspace.image-unusable"


class InputClosedError(WorkspaceError):
    """The command takes no input, or no longer does."""

    failure_code = "workspace.input-closed"


class NotAFileError(WorkspaceError):
    """The path is not a text file, but for example a folder or a device."""

    failure_code = "workspace.not-a-file"


class AccessDeniedError(WorkspaceError):
    """The system does not let this user read or write it."""

    failure_code = "workspace.access-denied"


class DiskIsFullError(WorkspaceError):
    """The disk is full; nothing was changed."""

    failure_code = "workspace.disk-full"


class TooLargeError(WorkspaceError):
    """The file is larger than what is read."""

    failure_code = "workspace.too-large"


class TargetExistsError(WorkspaceError):
    """The target of a move exists."""

    failure_code = "workspace.already-exists"


class JobRefusedError(WorkspaceError):
    """There is no such background command, or none can be started."""

    failure_code = "workspace.job-refused"


class SearchFailedError(WorkspaceError):
    """The search program did not start, or ended early."""

    failure_code = "workspace.search-failed"


class PdfUnreadableError(WorkspaceError):
    """A PDF cannot be read here."""

    failure_code = "workspace.pdf-unreadable"


class GitFailedError(WorkspaceError):
    """git did not start, or could not answer."""

    failure_code = "workspace.git-failed"


class NotRestoredError(WorkspaceError):
    """A file was not restored; it is as it was."""

    failure_code = "workspace.not-put-back"
