"""The SDK's client: what the agent may ask of us.

Owns: the translation between the SDK's models and files.py, terminals.py and questions.py. Must not know: screens.
"""

import asyncio
from collections.abc import Callable, Sequence

import acp
import msgspec
from acp import schema as sdk

from pattern_acp.acp import schema
from pattern_acp.cli.chat.files import Files
from pattern_acp.cli.chat.questions import Choice, Question
from pattern_acp.cli.chat.terminals import Terminals


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
        """session/request_permission: wait for the person, however long they take."""
        del session_id, meta
        choices = tuple(Choice(option.option_id, option.name, option.kind) for option in options)
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
        """elicitation/create: never promised in initialize."""
        del message, mode, meta
        raise acp.RequestError.method_not_found("elicitation/create")

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


def call_of(tool_call: sdk.ToolCallUpdate) -> schema.ToolCallUpdate:
    """A call as our own wire struct; only its id and title when the rest is something that we do not know."""
    try:
        encoded = tool_call.model_dump_json(by_alias=True, exclude_none=True)
        return msgspec.json.decode(encoded, type=schema.ToolCallUpdate)
    except msgspec.ValidationError:
        return schema.ToolCallUpdate(tool_call_id=tool_call.tool_call_id, title=tool_call.title)
