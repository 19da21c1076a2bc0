"""What can go wrong with files, paths and commands."""

from pattern_acp.domain.errors import WorkspaceError


class FileMissingError(WorkspaceError):
    """There is no such file or folder."""


class NotTextError(WorkspaceError):
    """The file is binary, or in an encoding that is not known."""


class FileChangedError(WorkspaceError):
    """The file is no longer what an edit was based on."""


class CommandFailedToStartError(WorkspaceError):
    """The command could not be started at all."""


class EditorUnavailableError(WorkspaceError):
    """The editor did not answer in time, or answered with an error that says nothing about the file."""


class ImageError(WorkspaceError):
    """An image cannot be looked at: damaged, too large, or of another format."""


class InputClosedError(WorkspaceError):
    """The command takes no input, or none any more."""
