"""Errors of files, paths and commands."""

from pattern_acp.domain.errors import WorkspaceError


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
