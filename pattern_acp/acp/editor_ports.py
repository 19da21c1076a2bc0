"""Files and commands of one session: through the editor where it offers that, locally otherwise."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from pattern_acp.acp import schema
from pattern_acp.acp.editor_terminal import EditorTerminal
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.workspace.delegation import DelegatingFileSystem, DelegatingTerminal
from pattern_acp.workspace.errors import EditorRefusedError, EditorUnavailableError, FileMissingError
from pattern_acp.workspace.files import FileSystem, TextFile
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.shell import shell_program
from pattern_acp.workspace.terminal import CommandRequest, RunningCommand, Terminal

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


class LocalMeans(Struct, frozen=True):
    """What a workbench uses on this machine."""

    environment: Mapping[str, str]
    """Environment of child processes."""
    scratch: Path
    """A private folder for script files."""
    editor_deadline: float = 20.0
    """Longest wait for one answer of the editor, in seconds."""
    secret_variables: tuple[str, ...] = ()
    """Variables that children must not see."""


class NotingTerminal:
    """A terminal that tells when a command ended: files on the disk may then be newer than buffers (zed#49162)."""

    def __init__(self, inner: Terminal, note: Callable[[], None]) -> None:
        self._inner = inner
        self._note = note

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        """See `Terminal.start`."""
        try:
            async with self._inner.start(request) as command:
                yield command
        finally:
            self._note()


class EditorWorkbench:
    """`Workbench` over the editor's capabilities."""

    def __init__(
        self,
        session_id: SessionId,
        dispatcher: Dispatcher,
        capabilities: schema.ClientCapabilities,
        means: LocalMeans,
    ) -> None:
        self._warnings: list[str] = []
        local = LocalFileSystem()
        fs = capabilities.fs
        self._delegating = DelegatingFileSystem(
            EditorFileSystem(session_id, dispatcher, means.editor_deadline),
            local,
            can_read=fs.read_text_file,
            can_write=fs.write_text_file,
            deadline=means.editor_deadline,
            on_warning=self._warn,
        )
        self._files: FileSystem = self._delegating if fs.read_text_file or fs.write_text_file else local
        commands = LocalTerminal(means.environment, secret_variables=means.secret_variables)
        terminal: Terminal = commands
        if capabilities.terminal:
            shell = shell_program(means.environment)
            editor = EditorTerminal(session_id, dispatcher, means.editor_deadline, means.scratch, shell=shell)
            terminal = DelegatingTerminal(editor, commands, on_warning=self._warn)
        self._terminal = NotingTerminal(terminal, self._delegating.note_command_ran)

    @property
    def files(self) -> FileSystem:
        """See `Workbench.files`."""
        return self._files

    @property
    def terminal(self) -> Terminal:
        """See `Workbench.terminal`."""
        return self._terminal

    def take_warnings(self) -> tuple[str, ...]:
        """See `Workbench.take_warnings`."""
        taken, self._warnings = tuple(self._warnings), []
        return taken

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)
