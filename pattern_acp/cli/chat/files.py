"""fs/* for the agent, on the disk."""

from acp import RequestError

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.local_files import LocalFileSystem


class Files:
    """Serves fs/read_text_file and fs/write_text_file (ACP v1, file system)."""

    def __init__(self) -> None:
        self._disk = LocalFileSystem()

    async def read(self, path: str, line: int | None, limit: int | None) -> str:
        """The text of a file, or `limit` lines of it from the 1-based `line`.

        Raises:
            RequestError: -32002 for a missing file, -32603 with a sentence otherwise.
        """
        try:
            file = await self._disk.read_text_file(path)
        except WorkspaceError as error:
            raise _request_error(path, error) from error
        return window(file.text, line, limit)

    async def write(self, path: str, content: str) -> None:
        """Write a whole file.

        Raises:
            RequestError: -32603 with a sentence; nothing was written.
        """
        try:
            await self._disk.write_text_file(path, content)
        except WorkspaceError as error:
            raise _request_error(path, error) from error


def window(text: str, line: int | None, limit: int | None) -> str:
    """`limit` lines of `text` from the 1-based `line`; all of it when neither is given."""
    if line is None and limit is None:
        return text
    lines = text.splitlines(keepends=True)
    start = max(0, (line or 1) - 1)
    return "".join(lines[start:] if limit is None else lines[start : start + limit])


def _request_error(path: str, error: WorkspaceError) -> RequestError:
    if isinstance(error, FileMissingError):
        return RequestError.resource_not_found(path)
    return RequestError(-32603, error.sentence, {"details": error.sentence})
