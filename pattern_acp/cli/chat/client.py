"""Files, commands and questions that the agent may ask of us.

Owns: the answers to ACP's client methods from local files, local commands and events.py. Must not know: screens.

Our own wire structs and dispatcher serve here as they serve the agent: importing the SDK takes a second of processor
time before the first prompt. The SDK judges what this client sends (tests/cli/chat/test_conversation.py).
"""

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, field

from pattern_acp.acp import schema
from pattern_acp.cli.chat.agent_process import Incoming
from pattern_acp.cli.chat.events import OfferedChoice, Question
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.text_limits import one_line
from pattern_acp.jsonrpc.dispatcher import RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from pattern_acp.workspace.errors import FileMissingError, TooLargeError
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES, LocalFileSystem
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, RunningCommand, Terminal

TAIL_CHARACTERS = 8_000
"""Output that the screen can show of one terminal."""

SHOWN_TERMINALS = 64
"""Released terminals whose tail is stored for the screen."""

DEFAULT_OUTPUT_LIMIT = 1_000_000
"""Bytes stored when the agent does not say."""


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
        """Start a command; the terminal's id. Raises RpcError where it could not be started."""
        limit = DEFAULT_OUTPUT_LIMIT if output_limit is None else output_limit
        request = CommandRequest(command_line(command, args), cwd, env, limit)
        started = await self._tasks.start(self._drive, request)
        if isinstance(started, WorkspaceError):
            raise RpcError(INTERNAL_ERROR, started.sentence, {"details": started.sentence}) from started
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
            raise RpcError(INVALID_PARAMS, f"There is no terminal {terminal_id}; it was released or never made.")
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
                    # The one who still waits for the exit of a terminal that is dropped does not wait any longer.
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
            RpcError: -32002 for a missing file, -32603 with a sentence otherwise.
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
            RpcError: -32603 with a sentence; nothing was written.
        """
        try:
            await self._disk.write_text_file(path, content)
        except WorkspaceError as error:
            raise _request_error(path, error) from error


def window(text: str, line: int | None, limit: int | None) -> str:
    """`limit` lines of `text` from the 1-based `line`; all of it without either."""
    if line is None and limit is None:
        return text
    lines = text.splitlines(keepends=True)
    start = max(0, (line or 1) - 1)
    return "".join(lines[start:] if limit is None else lines[start : start + limit])


def _request_error(path: str, error: WorkspaceError) -> RpcError:
    if isinstance(error, FileMissingError):
        return RpcError(RESOURCE_NOT_FOUND, "There is no such file.", {"uri": path})
    return RpcError(INTERNAL_ERROR, error.sentence, {"details": error.sentence})


class ChatClient:
    """Answers the agent's requests for one terminal. Methods that are not in `requests` were never promised."""

    def __init__(self, files: Files, terminals: Terminals, incoming: Incoming) -> None:
        self._files = files
        self._terminals = terminals
        self._incoming = incoming

    @property
    def requests(self) -> Mapping[str, RequestHandler]:
        """The handlers by method."""
        return {
            "session/request_permission": self._ask,
            "elicitation/create": self._ask_words,
            "fs/read_text_file": self._read_file,
            "fs/write_text_file": self._write_file,
            "terminal/create": self._create_terminal,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def _ask(self, params: msgspec.Raw, context: RequestContext) -> schema.PermissionResponse:
        """Wait for the user, however long they take."""
        asked = schema.read_params(params, schema.PermissionRequest)
        choices = tuple(OfferedChoice(option.option_id, option.name, option.kind) for option in asked.options)
        question = Question(asked.tool_call, choices)
        context.on_cancel(lambda: question.reply(None))
        self._incoming.ask(question)
        chosen = await asyncio.wrap_future(question.answer)
        outcome = "cancelled" if chosen is None else "selected"
        words = " ".join(question.beside)
        meta: dict[str, object] | None = {"pattern": {"words": words}} if words else None
        return schema.PermissionResponse(outcome=schema.PermissionOutcome(outcome=outcome, option_id=chosen), meta=meta)

    async def _ask_words(self, params: msgspec.Raw, context: RequestContext) -> schema.ElicitationResponse:
        """A form of one choice, one text, or both; any other one is declined."""
        asked = schema.read_params(params, schema.ElicitationRequest)
        fields = form_fields(asked)
        if fields is None:
            return schema.ElicitationResponse(action="decline")
        question = fields.question(asked.message, asked.tool_call_id)
        context.on_cancel(lambda: question.reply(None))
        self._incoming.ask(question)
        answer = await asyncio.wrap_future(question.answer)
        if answer is None:
            return schema.ElicitationResponse(action="cancel")
        name = fields.choice if answer in fields.options else fields.words
        if not answer or not name:
            return schema.ElicitationResponse(action="decline")
        return schema.ElicitationResponse(action="accept", content={name: answer})

    async def _read_file(self, params: msgspec.Raw, context: RequestContext) -> schema.ReadTextFileResponse:
        del context
        wanted = schema.read_params(params, schema.ReadTextFileRequest)
        return schema.ReadTextFileResponse(content=await self._files.read(wanted.path, wanted.line, wanted.limit))

    async def _write_file(self, params: msgspec.Raw, context: RequestContext) -> None:
        del context
        wanted = schema.read_params(params, schema.WriteTextFileRequest)
        await self._files.write(wanted.path, wanted.content)

    async def _create_terminal(self, params: msgspec.Raw, context: RequestContext) -> schema.CreateTerminalResponse:
        del context
        wanted = schema.read_params(params, schema.CreateTerminalRequest)
        if wanted.cwd is None:
            raise RpcError(INVALID_PARAMS, "A terminal needs a cwd; send the session's folder.")
        variables = {variable.name: variable.value for variable in wanted.env}
        limit = wanted.output_byte_limit
        name = await self._terminals.create(wanted.command, wanted.args, variables, wanted.cwd, limit)
        return schema.CreateTerminalResponse(terminal_id=name)

    async def _output(self, params: msgspec.Raw, context: RequestContext) -> dict[str, object]:
        del context
        output, status = await self._terminals.output(_terminal(params))
        ended = {} if status is None else {"exitStatus": _exit_status(status)}
        # Our struct leaves out what is false, and the protocol wants it.
        return {"output": output.text, "truncated": output.truncated, **ended}

    async def _wait_for_exit(self, params: msgspec.Raw, context: RequestContext) -> schema.TerminalExitStatus:
        del context
        return _exit_status(await self._terminals.wait(_terminal(params)))

    async def _kill(self, params: msgspec.Raw, context: RequestContext) -> None:
        del context
        await self._terminals.kill(_terminal(params))

    async def _release(self, params: msgspec.Raw, context: RequestContext) -> None:
        del context
        await self._terminals.release(_terminal(params))


def _terminal(params: msgspec.Raw) -> str:
    return schema.read_params(params, schema.TerminalRequest).terminal_id


def _exit_status(status: ExitStatus) -> schema.TerminalExitStatus:
    return schema.TerminalExitStatus(exit_code=status.exit_code, signal=status.signal)


class FormFields(Struct, frozen=True):
    """The names of the fields of a form that one line answers, and the options of its choice."""

    choice: str
    options: tuple[str, ...]
    words: str
    text: str = ""
    """The text that the field for words begins with."""
    is_closed: bool = False
    """True where no answer is a refusal (`_meta.pattern.closed`)."""

    def question(self, message: str, call_id: str = "") -> Question:
        """The form as a question in the terminal."""
        first, _, rest = message.partition("\n")
        title = first.replace("**", "")
        # The title is shown above it.
        text = rest.strip() if one_line(title) == title else ""
        content = schema.Content(content=schema.TextContent(text=text or message))
        call = schema.ToolCallUpdate(tool_call_id=call_id, title=title, content=(content,))
        choices = tuple(OfferedChoice(name, name, "allow_once") for name in self.options)
        return Question(call, choices, takes_words=True, is_closed=self.is_closed, text=self.text)


class _Property(msgspec.Struct, rename="camel"):
    type: str = ""
    enum: tuple[str, ...] = ()
    default: str | None = None
    one_of: object = None


class _Form(msgspec.Struct):
    properties: dict[str, _Property] = field(default_factory=dict[str, _Property])


def form_fields(asked: schema.ElicitationRequest) -> FormFields | None:
    """The fields of a form; None for what one line cannot answer."""
    if asked.mode != "form":
        return None
    try:
        properties = msgspec.convert(asked.requested_schema, _Form).properties
    except msgspec.ValidationError:
        return None
    texts = {name: one for name, one in properties.items() if one.type == "string" and one.one_of is None}
    choices = [(name, one.enum) for name, one in texts.items() if one.enum]
    words = [name for name, one in texts.items() if not one.enum]
    if len(texts) != len(properties) or not texts or len(choices) > 1 or len(words) > 1:
        return None
    choice, options = choices[0] if choices else ("", ())
    begins = texts[words[0]].default if words else None
    ours = (asked.meta or {}).get("pattern")
    return FormFields(
        choice, options, words[0] if words else "", begins or "", isinstance(ours, dict) and "closed" in ours
    )
