"""`FileSystem` over fs/*: the wire call and its errors, nothing else.

Deadlines, checks against the disk and the fall-back are `workspace.delegation`'s.
"""

from typing import TypeVar

from pattern_acp.acp import schema
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.errors import RESOURCE_NOT_FOUND, ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.workspace.errors import EditorUnavailableError, FileMissingError
from pattern_acp.workspace.files import TextFile

T = TypeVar("T")


class EditorFileSystem:
    """Text files as the editor has them, unsaved changes included."""

    def __init__(self, session_id: SessionId, dispatcher: Dispatcher, deadline: float) -> None:
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._deadline = deadline

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`. Always the whole file: clients count lines differently (interop rule 5)."""
        response = await self._ask(
            "fs/read_text_file",
            path,
            schema.ReadTextFileRequest(session_id=self._session_id, path=path),
            schema.ReadTextFileResponse,
        )
        return TextFile(path, response.content, "editor")

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`; the caller reads back what the editor made of it."""
        await self._ask(
            "fs/write_text_file",
            path,
            schema.WriteTextFileRequest(session_id=self._session_id, path=path, content=text),
            schema.EmptyResponse,
        )
        return TextFile(path, text, "editor")

    async def _ask(self, method: str, path: str, params: object, result: type[T]) -> T:
        try:
            return await self._dispatcher.request(method, params, result, deadline=self._deadline, repair=schema.repair)
        except RemoteError as error:
            if error.code == RESOURCE_NOT_FOUND:
                raise FileMissingError(f"The editor has no file {path}.") from error
            reason = error.message[:200].rstrip(" .")
            raise EditorUnavailableError(f"The editor could not serve {path}: {reason}.") from error
        except (TimeoutError, InvalidResultError, ConnectionClosedError) as error:
            raise EditorUnavailableError(f"The editor did not answer for {path}.") from error
