"""Files and commands of one session: through the editor where it offers that, locally otherwise."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import anyio
from msgspec import Struct

from pattern_acp.acp import schema
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ConnectionClosedError,
    InvalidResultError,
    ProtocolError,
    RemoteError,
)
from pattern_acp.mcp_servers.catalogue import FileTools, ServerError
from pattern_acp.mcp_servers.server import Server
from pattern_acp.processes.confinement import ConfinedCommand, Confinement, Profile
from pattern_acp.tools.base import ToolFailedError, ToolOutcome
from pattern_acp.workspace.delegation import DelegatingFileSystem, DelegatingTerminal, tell_nobody
from pattern_acp.workspace.errors import (
    CommandFailedToStartError,
    EditorLacksError,
    EditorRefusedError,
    EditorUnavailableError,
    FileMissingError,
)
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines, TextStore
from pattern_acp.workspace.line_windows import lines_within
from pattern_acp.workspace.local_files import LocalFileSystem, UnfinishedWrites
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.shell import (
    UNATTENDED_VARIABLES,
    ClientCommand,
    client_command,
    client_words,
    git_variables,
    hidden_names,
    remove_script,
    shell_program,
)
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

T = TypeVar("T")

logger = logging.getLogger(__name__)


END_SECONDS = 0.3
"""Longest time for handing over each of kill and release when the turn is cancelled; its answer is due within 2 s."""

POLL_SECONDS = 0.25

FIXED = {**UNATTENDED_VARIABLES, **git_variables({})}
"""Colours and the terminal's kind stay the client's. Git's settings replace any that the client's own environment
numbers from zero."""


class EditorCommand:
    """A command in a terminal of the client."""

    def __init__(self, terminal_id: str, session_id: SessionId, dispatcher: Dispatcher, deadline: float) -> None:
        self._terminal_id = terminal_id
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._deadline = deadline
        self._exit: ExitStatus | None = None

    @property
    def terminal_id(self) -> str:
        """See `RunningCommand.terminal_id`."""
        return self._terminal_id

    @property
    def size(self) -> tuple[int, int] | None:
        """See `RunningCommand.size`."""
        return None

    @property
    def client_owned(self) -> bool:
        """See `RunningCommand.client_owned`."""
        return True

    @property
    def input(self) -> None:
        """See `RunningCommand.input`: ACP has no way to write to a terminal of the client."""
        return None

    @property
    def ended(self) -> bool:
        """True when its exit is known."""
        return self._exit is not None

    async def next_output(self) -> str:
        """See `RunningCommand.next_output`: the client shows its terminal itself."""
        return ""

    async def wait_for_exit(self) -> ExitStatus:
        """See `RunningCommand.wait_for_exit`; polls where the client cannot wait."""
        try:
            status = await self._ask("terminal/wait_for_exit", schema.TerminalExitStatus, deadline=None)
            self._exit = ExitStatus(status.exit_code, status.signal)
        except (RemoteError, InvalidResultError):
            self._exit = await self._poll_for_exit()
        except ConnectionClosedError as error:
            raise EditorUnavailableError("The editor is gone, so the command's end is not known.") from error
        return self._exit

    async def output(self) -> CommandOutput:
        """See `RunningCommand.output`."""
        try:
            answer = await self._ask("terminal/output", schema.TerminalOutputResponse, deadline=self._deadline)
        except (ProtocolError, TimeoutError) as error:
            raise EditorUnavailableError("The editor did not give the terminal's output.") from error
        return CommandOutput(answer.output, answer.truncated)

    async def kill(self) -> None:
        """See `RunningCommand.kill`."""
        try:
            await self._ask("terminal/kill", schema.EmptyResponse, deadline=self._deadline)
        except (ProtocolError, TimeoutError) as error:
            # Toad's kill fails for every conforming request; a terminal that is gone is what we wanted.
            logger.info("terminal/kill was not served: %s", type(error).__name__)

    async def end(self) -> None:
        """Kill what still runs and give the terminal back; the client keeps showing its output.

        Nobody waits for the answers: acpx takes 1.3 s for each, and a request that is withdrawn would leave the
        terminal to a client that honours that.
        """
        for method in ("terminal/release",) if self.ended else ("terminal/kill", "terminal/release"):
            with anyio.move_on_after(END_SECONDS, shield=True):
                await self._post(method)

    async def _poll_for_exit(self) -> ExitStatus:
        while True:
            try:
                answer = await self._ask("terminal/output", schema.TerminalOutputResponse, deadline=self._deadline)
            except (ProtocolError, TimeoutError) as error:
                raise EditorUnavailableError("The editor does not say how the command ended.") from error
            if answer.exit_status is not None:
                return ExitStatus(answer.exit_status.exit_code, answer.exit_status.signal)
            await anyio.sleep(POLL_SECONDS)

    async def _post(self, method: str) -> None:
        try:
            await self._dispatcher.post(method, self._named)
        except ConnectionClosedError:
            logger.debug("The client left before %s.", method)

    async def _ask(self, method: str, result: type[T], *, deadline: float | None) -> T:
        return await self._dispatcher.request(method, self._named, result, deadline=deadline, repair=schema.repair)

    @property
    def _named(self) -> schema.TerminalRequest:
        return schema.TerminalRequest(session_id=self._session_id, terminal_id=self._terminal_id)


class EditorTerminal:
    """Runs commands in the client's terminals. `scratch` holds script files for clients that join arguments.

    `shell` runs the scripts: the one that policy read the line for, which is also that of our own commands.
    `emptied` names variables that commands get empty, since a terminal's environment cannot be taken from.
    """

    def __init__(
        self,
        session_id: SessionId,
        dispatcher: Dispatcher,
        deadline: float,
        scratch: Path,
        *,
        shell: str = "/bin/sh",
        emptied: Sequence[str] = (),
        confinement: Confinement | None = None,
        is_elsewhere: bool = False,
    ) -> None:
        self._is_elsewhere = is_elsewhere
        self._variables = {**FIXED, **dict.fromkeys(emptied, "")}
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._deadline = deadline
        self._scratch = scratch
        self._shell = shell
        self._confinement = confinement

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[EditorCommand, None]:
        """See `Terminal.start`."""
        if self._is_elsewhere:
            # A script of ours would lie on another machine than the client's shell.
            wanted = ClientCommand("/bin/sh", ("-c", request.line))
        else:
            wanted = await anyio.to_thread.run_sync(
                lambda: client_command(request.line, scratch=self._scratch, shell=self._shell)
            )
        confined: ConfinedCommand | None = None
        launched = wanted
        try:
            if request.profile is not None:
                confined, launched = await anyio.to_thread.run_sync(self._confined, request.profile, wanted)
            command = await self._create(request, launched.command, launched.args)
            try:
                yield command
            finally:
                await command.end()
        finally:
            if confined is not None:
                confined.remove()
            for script in (wanted.script, launched.script):
                if script is not None:
                    remove_script(script)

    def _confined(self, profile: Profile, wanted: ClientCommand) -> tuple[ConfinedCommand, ClientCommand]:
        """Put the launcher before a command: what the client starts confines itself, and then is the command."""
        if self._confinement is None:
            raise CommandFailedToStartError("Nothing can confine the command here, so it was not run.")
        try:
            confined = self._confinement.prepare(profile, (wanted.command, *wanted.args), in_group=False)
            return confined, client_words(confined.arguments, scratch=self._scratch)
        except OSError as error:
            raise CommandFailedToStartError(f"The sandbox could not be prepared: {error.strerror}.") from error

    async def _create(self, request: CommandRequest, command: str, args: tuple[str, ...]) -> EditorCommand:
        params = schema.CreateTerminalRequest(
            session_id=self._session_id,
            command=command,
            args=args,
            env=tuple(schema.EnvVariable(name=n, value=v) for n, v in {**self._variables, **request.env}.items()),
            cwd=request.cwd,
            output_byte_limit=request.output_limit,
        )
        try:
            response = await self._dispatcher.request(
                "terminal/create",
                params,
                schema.CreateTerminalResponse,
                deadline=self._deadline,
                repair=schema.repair,
            )
        except RemoteError as error:
            # Late: most sessions meet no error of their client.
            from pattern_acp.acp.errors import ClientError, meaning_of, reason_of

            sentence = f"The editor did not start the command: {reason_of(error)}."
            if meaning_of(error) is ClientError.REFUSED:
                told = f"{sentence} That counts as a refusal, so do not try another way."
                raise EditorRefusedError(told) from error
            raise CommandFailedToStartError(sentence) from error
        except (PatternError, TimeoutError) as error:
            raise EditorUnavailableError("The editor did not answer to the request for a terminal.") from error
        return EditorCommand(response.terminal_id, self._session_id, self._dispatcher, self._deadline)


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

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`. A client that answers with the whole file does not know windows."""
        response = await self._ask(
            "fs/read_text_file",
            ("read", path),
            schema.ReadTextFileRequest(session_id=self._session_id, path=path, line=window.start, limit=window.count),
            schema.ReadTextFileResponse,
        )
        return lines_of_answer(response.content, window)

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
            raise _refusal(error, do, path) from error
        except (TimeoutError, InvalidResultError, ConnectionClosedError) as error:
            raise EditorUnavailableError(f"The editor did not answer for {path}.") from error


class ServerFileSystem:
    """Text files as an MCP server of the client has them, unsaved changes included."""

    def __init__(self, server: Server, tools: FileTools) -> None:
        self._server = server
        self._tools = tools

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`."""
        return TextFile(path, await self._call("read", path, self._tools.read, {"path": path}), "editor")

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`. A server that reads whole files alone leaves large ones to the disk."""
        if not self._tools.by_lines:
            raise FileMissingError(f"The editor reads no part of {path}.")
        arguments: JsonObject = {"path": path, "line": window.start, "limit": window.count}
        return lines_of_answer(await self._call("read", path, self._tools.read, arguments), window)

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`."""
        await self._call("write", path, self._tools.write, {"path": path, "content": text})
        return TextFile(path, text, "editor")

    async def _call(self, do: str, path: str, tool: str, arguments: JsonObject) -> str:
        try:
            reply = await self._server.call(tool, arguments, _unseen)
        except ServerError as error:
            raise EditorUnavailableError(f"The editor did not answer for {path}. {error.sentence}") from error
        if reply.is_error:
            raise _refusal(RemoteError(INTERNAL_ERROR, reply.text), do, path)
        return reply.text


async def _unseen(line: str) -> None:
    """Take progress that nobody is shown."""
    del line


def lines_of_answer(text: str, window: LineWindow) -> TextLines:
    """The lines of a window in an editor's answer; one with the whole file does not know windows."""
    # Some give one line more than they were asked for.
    is_whole = text.count("\n") > window.count + 1
    return TextLines(tuple(lines_within((text,), window, window.start - 1 if is_whole else 0)), None, "editor")


def _refusal(error: RemoteError, do: str, path: str) -> FileMissingError | EditorUnavailableError | EditorRefusedError:
    """The error to raise for an editor's error about a file."""
    # Late: most sessions meet no error of their client.
    from pattern_acp.acp.errors import ClientError, meaning_of, reason_of

    match meaning_of(error):
        case ClientError.MISSING:
            return FileMissingError(f"The editor has no file {path}.")
        case ClientError.INCAPABLE if error.code == METHOD_NOT_FOUND:
            return EditorLacksError(f"The editor said that it can {do} files, and cannot.")
        case ClientError.INCAPABLE:
            return EditorUnavailableError(f"The editor could not {do} {path}: {reason_of(error)}.")
        case ClientError.REFUSED:
            return EditorRefusedError(
                f"The editor did not {do} {path}: {reason_of(error)}. That counts as a refusal, so do not try another "
                "way."
            )


class FilesOfClient:
    """Text files of a client on another machine: what it does not offer is refused, and no disk takes its place."""

    def __init__(self, editor: TextStore, *, can_read: bool, can_write: bool) -> None:
        self._editor = editor
        self._can_read = can_read
        self._can_write = can_write

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`."""
        self._require(path, "reads no files", offered=self._can_read)
        return await self._editor.read_text_file(path)

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`."""
        self._require(path, "reads no files", offered=self._can_read)
        return await self._editor.read_lines(path, window)

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`."""
        self._require(path, "writes no files", offered=self._can_write)
        return await self._editor.write_text_file(path, text)

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`: ACP has no way to it."""
        del to
        self._require(path, "moves no files; run a command", offered=False)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`: ACP has no way to it."""
        self._require(path, "removes no files; run a command", offered=False)

    def _require(self, path: str, lack: str, *, offered: bool) -> None:
        if not offered:
            raise EditorUnavailableError(f"{path} is on the client's machine, and this client {lack}.")


class NoTerminal:
    """Commands of a client on another machine that has no terminals: none run."""

    def start(self, request: CommandRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """See `Terminal.start`."""
        del request
        raise CommandFailedToStartError("This client offers no terminal, and commands of its machine run nowhere else.")


CALL_SECONDS = 90.0
"""Longest wait for a tool on the client's machine; a search there ends on its own long before."""


def offered_at_client(capabilities: schema.ClientCapabilities) -> frozenset[str]:
    """Return what a client says that it does where the files are (`_meta.pattern.workspace`)."""
    pattern = (capabilities.meta or {}).get("pattern")
    offered = cast("dict[str, object]", pattern).get("workspace") if isinstance(pattern, dict) else None
    names = cast("list[object]", offered) if isinstance(offered, list) else []
    return frozenset(name for name in names if isinstance(name, str))


class ToolsOfClient:
    """`ToolsAtClient` over the connection of one session."""

    def __init__(self, session_id: SessionId, dispatcher: Dispatcher, offered: frozenset[str]) -> None:
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._offered = offered

    def offers(self, name: str) -> bool:
        """See `ToolsAtClient.offers`."""
        return name in self._offered

    async def run(self, name: str, arguments: JsonObject) -> ToolOutcome:
        """See `ToolsAtClient.run`."""
        request = extensions.ToolAtClientRequest(session_id=self._session_id, arguments=arguments)
        kind, method = extensions.ToolAtClientResponse, f"{extensions.AT_CLIENT}{name}"
        try:
            answer = await self._dispatcher.request(method, request, kind, deadline=CALL_SECONDS)
        except RemoteError as error:
            raise ToolFailedError(error.message) from error
        except (TimeoutError, ProtocolError) as error:
            raise ToolFailedError(f"{name} got no answer from the user's machine; try again.") from error
        places = tuple(Location(path, line) for path, line in answer.places)
        return ToolOutcome(answer.text, content=(TextContent(answer.summary),), locations=places)


class LocalMeans(Struct, frozen=True):
    """The means of a workbench on this machine."""

    environment: Mapping[str, str]
    """Environment of child processes."""
    scratch: Path
    """A private folder for script files."""
    editor_deadline: float = 20.0
    """Longest wait for one answer of the editor, in seconds."""
    secret_variables: tuple[str, ...] = ()
    """Variables that children must not see."""
    confinement: Confinement | None = None
    """Confines commands; None: nothing does."""
    own_folders: tuple[str, ...] = ()
    """Folders of our own data, settings, logs and caches, which confined commands do not see."""
    unfinished: UnfinishedWrites = UnfinishedWrites()
    """Notes of files that are being replaced."""
    is_elsewhere: bool = False
    """True if the client is on another machine: its files and commands are used, and none of ours."""


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


class EditorPorts:
    """`Workbench` over the editor's capabilities."""

    def __init__(
        self,
        session_id: SessionId,
        dispatcher: Dispatcher,
        capabilities: schema.ClientCapabilities,
        means: LocalMeans,
    ) -> None:
        self._warnings: list[str] = []
        self.show_warnings: Callable[[], Awaitable[None]] = tell_nobody
        """See `Workbench.show_warnings`."""
        self._local = LocalFileSystem(means.unfinished)
        self._deadline = means.editor_deadline
        self._delegating: DelegatingFileSystem | None = None
        self._elsewhere: FilesOfClient | None = None
        self._at_client: ToolsOfClient | None = None
        fs = capabilities.fs
        if means.is_elsewhere:
            editor_files = EditorFileSystem(session_id, dispatcher, means.editor_deadline)
            self._elsewhere = FilesOfClient(editor_files, can_read=fs.read_text_file, can_write=fs.write_text_file)
            if offered := offered_at_client(capabilities):
                self._at_client = ToolsOfClient(session_id, dispatcher, offered)
            self._terminal: Terminal = NoTerminal()
            if capabilities.terminal:
                self._terminal = EditorTerminal(
                    session_id, dispatcher, means.editor_deadline, means.scratch, is_elsewhere=True
                )
            return
        if fs.read_text_file or fs.write_text_file:
            editor_files = EditorFileSystem(session_id, dispatcher, means.editor_deadline)
            self._delegate(editor_files, can_read=fs.read_text_file, can_write=fs.write_text_file)
        commands = LocalTerminal(
            means.environment, secret_variables=means.secret_variables, confinement=means.confinement
        )
        terminal: Terminal = commands
        if capabilities.terminal:
            secret = hidden_names(means.secret_variables)
            editor = EditorTerminal(
                session_id,
                dispatcher,
                means.editor_deadline,
                means.scratch,
                shell=shell_program(means.environment),
                # What the editor started us with is what its terminals have.
                emptied=[name for name in means.environment if name.upper() in secret],
                confinement=means.confinement,
            )
            terminal = DelegatingTerminal(editor, commands, on_warning=self._warn, show_warnings=self._show_warnings)
        self._terminal = NotingTerminal(terminal, self._note_command)

    @property
    def files(self) -> FileSystem:
        """See `Workbench.files`."""
        return self._elsewhere or self._delegating or self._local

    @property
    def is_elsewhere(self) -> bool:
        """See `Workbench.is_elsewhere`."""
        return self._elsewhere is not None

    @property
    def has_editor_files(self) -> bool:
        """See `Workbench.has_editor_files`."""
        return self._delegating is not None or self._elsewhere is not None

    @property
    def at_client(self) -> ToolsOfClient | None:
        """See `Workbench.at_client`."""
        return self._at_client

    def use_server(self, server: Server, tools: FileTools) -> None:
        """See `Workbench.use_server`."""
        if self._elsewhere is None:
            self._delegate(ServerFileSystem(server, tools), can_read=True, can_write=bool(tools.write))

    def _delegate(self, editor: TextStore, *, can_read: bool, can_write: bool) -> None:
        self._delegating = DelegatingFileSystem(
            editor,
            self._local,
            can_read=can_read,
            can_write=can_write,
            deadline=self._deadline,
            on_warning=self._warn,
            show_warnings=self._show_warnings,
        )

    def _note_command(self) -> None:
        if self._delegating is not None:
            self._delegating.note_command_ran()

    @property
    def terminal(self) -> Terminal:
        """See `Workbench.terminal`."""
        return self._terminal

    def take_warnings(self) -> tuple[str, ...]:
        """See `Workbench.take_warnings`."""
        taken, self._warnings = tuple(self._warnings), []
        return taken

    async def _show_warnings(self) -> None:
        await self.show_warnings()

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)
