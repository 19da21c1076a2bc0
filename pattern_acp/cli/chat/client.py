"""The SDK's client: files, commands and questions that the agent may ask of us.

Owns: the translation between the SDK's models and local files, local commands and events.py. Must not know: screens.
"""

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import acp
import anyio
import msgspec
from acp import RequestError
from acp import schema as sdk
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import OfferedChoice, Question
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError, TooLargeError
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES, LocalFileSystem
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

TAIL_CHARACTERS = 8_000
"""Output that the screen can show of one terminal."""

SHOWN_TERMINALS = 64
"""Released terminals whose tail is kept for the screen."""

DEFAULT_OUTPUT_LIMIT = 1_000_000
"""Bytes kept when the agent does not say."""


class _Terminal(Struct):
    """One terminal and the task that drives it."""

    command: RunningCommand
    released: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    status: ExitStatus | None = None


class Terminals:
    """Serves terminal/* (ACP v1, terminals). Every command ends with the task group at the latest."""

    def __init__(self, terminal: Terminal, tasks: TaskGroup) -> None:
        self._terminal = terminal
        self._tasks = tasks
        self._open: dict[str, _Terminal] = {}
        self._tails: dict[str, str] = {}

    def tail(self, terminal_id: str) -> str:
        """The end of a terminal's output, also after its release. May be called from any thread."""
        return self._tails.get(terminal_id, "")

    async def create(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str, output_limit: int | None
    ) -> str:
        """Start a command; the terminal's id.

        Raises:
            RequestError: it could not be started.
        """
        limit = DEFAULT_OUTPUT_LIMIT if output_limit is None else output_limit
        request = CommandRequest(command_line(command, args), cwd, env, limit)
        started = await self._tasks.start(self._drive, request)
        if isinstance(started, WorkspaceError):
            raise RequestError(-32603, started.sentence, {"details": started.sentence}) from started
        return str(started)

    async def output(self, terminal_id: str) -> tuple[CommandOutput, ExitStatus | None]:
        """All output so far, and how the command ended if it did."""
        found = self._find(terminal_id)
        return await found.command.output(), found.status

    async def wait(self, terminal_id: str) -> ExitStatus:
        """Wait until the command ended."""
        found = self._find(terminal_id)
        await found.ended.wait()
        return found.status or ExitStatus(None)

    async def kill(self, terminal_id: str) -> None:
        """End the command; its output stays."""
        await self._find(terminal_id).command.kill()

    async def release(self, terminal_id: str) -> None:
        """End the command if it runs, and forget the terminal."""
        self._find(terminal_id).released.set()
        del self._open[terminal_id]

    def _find(self, terminal_id: str) -> _Terminal:
        found = self._open.get(terminal_id)
        if found is None:
            raise RequestError(-32602, f"There is no terminal {terminal_id}; it was released or never made.")
        return found

    async def _drive(
        self, request: CommandRequest, *, task_status: TaskStatus["str | WorkspaceError"] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            async with self._terminal.start(request) as command:
                terminal = _Terminal(command)
                self._open[command.terminal_id] = terminal
                self._remember(command.terminal_id)
                task_status.started(command.terminal_id)
                try:
                    await self._follow(terminal)
                finally:
                    # Whoever still waits for the exit of a terminal that is given up is not kept waiting.
                    terminal.ended.set()
        except WorkspaceError as error:
            task_status.started(error)

    async def _follow(self, terminal: _Terminal) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._stream, terminal)
            await terminal.released.wait()
            group.cancel_scope.cancel()

    async def _stream(self, terminal: _Terminal) -> None:
        name = terminal.command.terminal_id
        while text := await terminal.command.next_output():
            self._tails[name] = (self._tails[name] + text)[-TAIL_CHARACTERS:]
        terminal.status = await terminal.command.wait_for_exit()
        terminal.ended.set()

    def _remember(self, name: str) -> None:
        self._tails[name] = ""
        while len(self._tails) > SHOWN_TERMINALS:
            del self._tails[next(iter(self._tails))]


def command_line(command: str, args: Sequence[str]) -> str:
    """Program and arguments as one line for the shell that starts it."""
    words = [command, *args]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


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
            try:
                file = await self._disk.read_text_file(path)
            except TooLargeError:
                if limit is None:
                    raise
                wanted = LineWindow(line or 1, limit, width=MAX_TEXT_BYTES, characters=MAX_TEXT_BYTES)
                return "".join(f"{each}\n" for each in (await self._disk.read_lines(path, wanted)).lines)
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


class ChatClient:
    """`acp.Client` for one terminal. A plain class: subclassing the Protocol would inherit stubs that answer null."""

    def __init__(self, files: Files, terminals: Terminals, ask: Callable[[Question], None]) -> None:
        self._files = files
        self._terminals = terminals
        self._ask = ask

    async def session_update(self, session_id: str, update: object, **meta: object) -> None:
        """session/update: the transport handed the wire's object on already; here the SDK has only judged it."""

    async def request_permission(
        self, session_id: str, tool_call: sdk.ToolCallUpdate, options: Sequence[sdk.PermissionOption], **meta: object
    ) -> sdk.RequestPermissionResponse:
        """session/request_permission: wait for the user, however long they take."""
        del session_id, meta
        choices = tuple(OfferedChoice(option.option_id, option.name, option.kind) for option in options)
        question = Question(call_of(tool_call), choices)
        self._ask(question)
        chosen = await asyncio.wrap_future(question.answer)
        if chosen is None:
            return sdk.RequestPermissionResponse(outcome=sdk.DeniedOutcome(outcome="cancelled"))
        return sdk.RequestPermissionResponse(outcome=sdk.AllowedOutcome(outcome="selected", option_id=chosen))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **meta: object
    ) -> sdk.ReadTextFileResponse:
        """fs/read_text_file."""
        del session_id, meta
        return sdk.ReadTextFileResponse(content=await self._files.read(path, line, limit))

    async def write_text_file(
        self, session_id: str, path: str, content: str, **meta: object
    ) -> sdk.WriteTextFileResponse:
        """fs/write_text_file."""
        del session_id, meta
        await self._files.write(path, content)
        return sdk.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Sequence[sdk.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **meta: object,
    ) -> sdk.CreateTerminalResponse:
        """terminal/create."""
        del session_id, meta
        if cwd is None:
            raise acp.RequestError(-32602, "A terminal needs a cwd; send the session's folder.")
        variables = {variable.name: variable.value for variable in env or ()}
        terminal_id = await self._terminals.create(command, args or (), variables, cwd, output_byte_limit)
        return sdk.CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str, **meta: object) -> sdk.TerminalOutputResponse:
        """terminal/output."""
        del session_id, meta
        output, status = await self._terminals.output(terminal_id)
        response = sdk.TerminalOutputResponse(output=output.text, truncated=output.truncated)
        if status is not None:
            response.exit_status = sdk.TerminalExitStatus(exit_code=status.exit_code, signal=status.signal)
        return response

    async def release_terminal(self, session_id: str, terminal_id: str, **meta: object) -> sdk.ReleaseTerminalResponse:
        """terminal/release."""
        del session_id, meta
        await self._terminals.release(terminal_id)
        return sdk.ReleaseTerminalResponse()

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **meta: object
    ) -> sdk.WaitForTerminalExitResponse:
        """terminal/wait_for_exit."""
        del session_id, meta
        status = await self._terminals.wait(terminal_id)
        return sdk.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **meta: object) -> sdk.KillTerminalResponse:
        """terminal/kill."""
        del session_id, meta
        await self._terminals.kill(terminal_id)
        return sdk.KillTerminalResponse()

    async def create_elicitation(self, message: str, mode: object, **meta: object) -> sdk.CreateElicitationResponse:
        """elicitation/create: a form of one choice, one text, or both; any other one is declined."""
        del meta
        fields = form_fields(mode)
        if fields is None:
            return sdk.DeclineElicitationResponse(action="decline")
        question = fields.question(message)
        self._ask(question)
        answer = await asyncio.wrap_future(question.answer)
        if answer is None:
            return sdk.CancelElicitationResponse(action="cancel")
        name = fields.choice if answer in fields.options else fields.words
        if not answer or not name:
            return sdk.DeclineElicitationResponse(action="decline")
        return sdk.AcceptElicitationResponse(action="accept", content={name: answer})

    async def complete_elicitation(self, elicitation_id: str, **meta: object) -> None:
        """elicitation/complete: never promised in initialize."""

    async def ext_method(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """A method of somebody's own: none is known."""
        del params
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, object]) -> None:
        """A notification of somebody's own: ignored, as the protocol asks."""

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing to do: conversation.py holds the connection."""


class FormFields(Struct, frozen=True):
    """The names of the fields of a form that one line answers, and the options of its choice."""

    choice: str
    options: tuple[str, ...]
    words: str

    def question(self, message: str) -> Question:
        """The form as a question in the terminal."""
        title, _, _ = message.partition("\n")
        content = schema.Content(content=schema.TextContent(text=message))
        call = schema.ToolCallUpdate(tool_call_id="", title=title, content=(content,))
        return Question(call, tuple(OfferedChoice(name, name, "allow_once") for name in self.options), takes_words=True)


def form_fields(mode: object) -> FormFields | None:
    """The fields of a form; None for what one line cannot answer."""
    if not isinstance(mode, sdk.ElicitationFormSessionMode | sdk.ElicitationFormRequestMode):
        return None
    properties = mode.requested_schema.properties or {}
    texts = {name: one for name, one in properties.items() if isinstance(one, sdk.ElicitationStringPropertySchema)}
    choices = [(name, tuple(one.enum)) for name, one in texts.items() if one.enum]
    words = [name for name, one in texts.items() if not one.enum and not one.one_of]
    if len(choices) + len(words) != len(properties) or not properties or len(choices) > 1 or len(words) > 1:
        return None
    choice, options = choices[0] if choices else ("", ())
    return FormFields(choice, options, words[0] if words else "")


def call_of(tool_call: sdk.ToolCallUpdate) -> schema.ToolCallUpdate:
    """A call as our own wire struct; only its id and title when the rest is something that we do not know."""
    try:
        encoded = tool_call.model_dump_json(by_alias=True, exclude_none=True)
        return msgspec.json.decode(encoded, type=schema.ToolCallUpdate)
    except msgspec.ValidationError:
        return schema.ToolCallUpdate(tool_call_id=tool_call.tool_call_id, title=tool_call.title)
