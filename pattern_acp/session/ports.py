"""Interfaces that sessions need from the connected client, conversations, and questions, which are recorded as calls.

Owns: the events around a question (asked, answered, and ended, also when the turn is cancelled), what the call ends
with where nothing else is said, and the errors of requests that a session cannot serve. Must not know: what is asked. A
question about a tool call is `turn.permissions`'.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.errors import InvalidRequestError, SessionError
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView
from pattern_acp.journal.events import Event, PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.mcp_servers.catalogue import FileTools
from pattern_acp.mcp_servers.server import Server
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, Approver, PermissionAnswer, UserContact
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import Option, Overlap
from pattern_acp.tools.base import ToolsAtClient
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent, Transient
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.terminal import Terminal

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.mcp import SessionMcp
    from pattern_acp.session.state import FolderTrust, SessionMemory, SessionState
    from pattern_acp.turn.recorder import JournalRecorder


class SessionView(Protocol):
    """The user's view of one session. A `TurnView` that can also replay."""

    async def show(self, event: Event | Transient) -> None:
        """Show a live event."""
        ...

    async def replay_beginning(self, events: Sequence[Event]) -> int:
        """Show the first whole turns of a session that is still being read; how much of its replay that is."""
        ...

    async def replay(self, events: Sequence[Event], *, shown: int = 0) -> None:
        """Show what a session did before, in few large pieces; returns when all of it is on its way.

        `shown` is what `replay_beginning` returned: so much is there already.
        """
        ...

    async def show_options(self, options: Sequence[Option]) -> None:
        """Show the complete options after the agent changed one."""
        ...

    async def show_commands(self, more: Sequence[ServerCommand] = ()) -> None:
        """Show the slash commands: ours, and `more` of the user, the project and MCP servers."""
        ...

    async def show_jobs(self, running: int) -> None:
        """Show how many background commands run, also between turns."""
        ...

    async def show_notices(self, sentences: Sequence[str]) -> bool:
        """Show sentences for the user beside the conversation; False where the client has no form for it."""
        ...

    async def close_calls(self) -> None:
        """Show every call that is still open as failed: its end could not be recorded."""
        ...

    async def settle(self) -> None:
        """Return when everything shown so far is on its way: before a turn's answer."""
        ...


class Workbench(Protocol):
    """Files and commands of one session, through the client or locally."""

    show_warnings: Callable[[], Awaitable[None]]
    """Shows the user such sentences at once, before the disk or a process of ours replaces the client."""

    @property
    def files(self) -> FileSystem:
        """Text files."""
        ...

    @property
    def terminal(self) -> Terminal:
        """Commands."""
        ...

    @property
    def has_editor_files(self) -> bool:
        """True when files are read or written through the client."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """True when files and commands are on another machine, and only the client reaches them."""
        ...

    @property
    def at_client(self) -> ToolsAtClient | None:
        """Runs tools where the files are, if that is another machine and the client does that."""
        ...

    def use_server(self, server: Server, tools: FileTools) -> None:
        """Read and write files through an MCP server of the client from now on."""
        ...

    def take_warnings(self) -> tuple[str, ...]:
        """Sentences about fallbacks since the last call, for the user."""
        ...


class ClientDescription(Struct, frozen=True):
    """Description of the client: its name, and sentences for the model about its capabilities."""

    name: str = ""
    capabilities: tuple[str, ...] = ()
    overlap: Overlap = Overlap.REPLACE
    """The custom of its protocol where prompts overlap."""
    has_overlap_option: bool = False
    """True when the option is shown also where the settings do not name it."""


class SessionPorts(Struct, frozen=True):
    """The client's side of one session, beside its conversation."""

    workbench: Workbench
    own_approver: UserContact
    """Asks the user of this window alone, as where its prompts are to continue."""


class Client(Protocol):
    """The connected client."""

    @property
    def is_searched(self) -> bool:
        """True when it searches on its machine, which has the files."""
        ...

    @property
    def description(self) -> ClientDescription:
        """Its name and abilities."""
        ...

    def view(self, session_id: SessionId) -> SessionView:
        """The user's view of the session."""
        ...

    def approver(self, session_id: SessionId) -> UserContact:
        """Asks the user of this window."""
        ...

    def asking_all(self, own: UserContact, session_id: SessionId) -> UserContact:
        """Return what asks with `own`, and in all windows that look on at the session as it is recorded."""
        ...

    def workbench(self, session_id: SessionId) -> Workbench:
        """Files and commands of a session; one object for the session's life."""
        ...


class Dialogue(Struct, frozen=True):
    """Words, memory and journal of a session, and its user: who asks them, and what they see.

    It knows nothing of the session's life, its prompts, its files and its commands.
    """

    shared: "Constellation"
    state: "SessionState"
    recorder: "JournalRecorder"
    approver: UserContact
    """Asks the user, also in windows that look on."""
    view: SessionView
    memory: "SessionMemory"

    @property
    def session_id(self) -> SessionId:
        """The id of the session in the journal."""
        return self.state.session_id

    @property
    def turn_id(self) -> TurnId:
        """The turn that runs, in which a command was typed; empty before the first."""
        return self.memory.persona.turn_id or TurnId("")


class ExtendedDialogue(Dialogue, frozen=True):
    """A conversation, and what extends it: what its folder and bundles bring, and its MCP servers."""

    trust: "FolderTrust"
    mcp: "SessionMcp"


class RecordedQuestion:
    """A question that is open until its context ends.

    `told` is what the call ends with, without it the label of the answer; `done` whether it ends well, without it
    whether the answer allows. `events` are recorded with the answer.
    """

    def __init__(self, approver: Approver, request: ApprovalRequest) -> None:
        self._approver = approver
        self._request = request
        self.answer = PermissionAnswer.CANCELLED
        self.told = ""
        self.failure = ""
        self.done: bool | None = None
        self.events: list[NewEvent] = []

    async def put(self) -> PermissionAnswer:
        """Ask the user and return the answer."""
        self.answer = await self._approver.ask(self._request)
        return self.answer

    def ending(self, turn_id: TurnId) -> tuple[NewEvent, ...]:
        """The events that end it."""
        call, options = self._request.call, self._request.options
        done = self.answer.allows if self.done is None else self.done
        status = ToolCallStatus.COMPLETED if done else ToolCallStatus.FAILED
        told = self.told or next((each.name for each in options if each.answer is self.answer), "Nobody answered.")
        content = (*call.content, TextContent(told)) if self.told else ()
        finished = ToolCallFinished(turn_id, call.call_id, status, told, content, failure=self.failure)
        answered = PermissionAnswered(turn_id, call.call_id, self.answer.value)
        return (
            NewEvent(answered, Actor.HUMAN, Origin.PERSON),
            *self.events,
            NewEvent(finished, Actor.SYSTEM),
        )


@asynccontextmanager
async def recorded_question(
    dialogue: "Dialogue",
    turn_id: TurnId,
    call: ToolCallView,
    reason: str,
    options: Sequence[ApprovalOption],
) -> AsyncGenerator[RecordedQuestion, None]:
    """Show a question, which the block puts, and record how it ended.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    question = RecordedQuestion(dialogue.approver, ApprovalRequest(call, reason, tuple(options)))
    asked = PermissionAsked(turn_id, call.call_id, reason, tuple(option.answer.value for option in options))
    record = dialogue.recorder.record
    await record(NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(asked, Actor.SYSTEM))
    try:
        yield question
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            await record(*question.ending(turn_id))


async def ask_recorded(
    dialogue: "Dialogue",
    turn_id: TurnId,
    call: ToolCallView,
    reason: str,
    options: Sequence[ApprovalOption],
) -> PermissionAnswer:
    """Put a question that the label of its answer ends.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    async with recorded_question(dialogue, turn_id, call, reason, options) as question:
        return await question.put()


class UnknownSessionError(SessionError):
    """No such session. Becomes JSON-RPC -32002."""

    failure_code = "session.unknown"


class DefinitionsDamagedError(SessionError):
    """The recorded instructions of a session are gone, or were changed outside of it."""

    failure_code = "session.instructions-changed"


class CredentialsError(SessionError):
    """The provider's key is missing or was refused. Becomes JSON-RPC -32000."""

    failure_code = "provider.key-refused"
    is_shown = False
    """True once the conversation shows the sentence."""


class FolderUnusableError(InvalidRequestError):
    """The folder of a session is not there, or not absolute."""

    failure_code = "session.folder-unusable"


class OptionUnusableError(InvalidRequestError):
    """There is no such option, or it has no such value."""

    failure_code = "session.option-unusable"


class SessionBusyError(InvalidRequestError):
    """A turn runs in the session."""

    failure_code = "session.busy"
