"""`FileSystem` over fs/*: the wire call and its errors, nothing else.

Deadlines, checks against the disk and the fall-back are `workspace.delegation`'s.
"""

from typing import TypeVar

from pattern_acp.acp import schema
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.workspace.errors import EditorRefusedError, EditorUnavailableError, FileMissingError
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
            ("read", path),
            schema.ReadTextFileRequest(session_id=self._session_id, path=path),
            schema.ReadTextFileResponse,
        )
        return TextFile(path, response.content, "editor")

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`; the caller reads back what the editor made of it."""
        await self._ask(
            "fs/write_text_file",
            ("write", path),
            schema.WriteTextFileRequest(session_id=self._session_id, path=path, content=text),
            schema.EmptyResponse,
        )
        return TextFile(path, text, "editor")

    async def _ask(self, method: str, what: tuple[str, str], params: object, result: type[T]) -> T:
        do, path = what
        try:
            return await self._dispatcher.request(method, params, result, deadline=self._deadline, repair=schema.repair)
        except RemoteError as error:
            # Late: most sessions meet no error of their client.
            from pattern_acp.acp.errors import ClientError, meaning_of, reason_of

            match meaning_of(error):
                case ClientError.MISSING:
                    raise FileMissingError(f"The editor has no file {path}.") from error
                case ClientError.INCAPABLE:
                    raise EditorUnavailableError(f"The editor could not {do} {path}: {reason_of(error)}.") from error
                case ClientError.REFUSED:
                    raise EditorRefusedError(
                        f"The editor did not {do} {path}: {reason_of(error)}. That counts as a refusal, so do not try "
                        "another way."
                    ) from error
        except (TimeoutError, InvalidResultError, ConnectionClosedError) as error:
            raise EditorUnavailableError(f"The editor did not answer for {path}.") from error
