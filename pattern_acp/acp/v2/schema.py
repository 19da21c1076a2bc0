"""The wire types of ACP version 2 that differ from those of version 1, under the names of its schema.

Owns: one struct for every message that we read or write in version 2 alone. Must not know: sessions, models, tools.
Content blocks, message chunks, locations, options of a question, compactions and usage have one form in both versions.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from pattern_acp.acp import schema as v1
from pattern_acp.acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionUpdate,
    Content,
    ContentBlock,
    Flag,
    Implementation,
    LoadSessionRequest,
    MetaWire,
    Notice,
    PermissionOption,
    PlanEntry,
    SelectOption,
    SessionInfoUpdate,
    SessionRequest,
    Terminal,
    TerminalExitStatus,
    ToolCallLocation,
    UsageUpdate,
    UserMessageChunk,
    Wire,
)
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.tool_calls import ToolKind


class InitializeRequest(MetaWire, frozen=True, kw_only=True):
    """The first request; all but the information about the client is read as data (`acp.initialize_response`)."""

    info: Implementation


class ReplayFrom(MetaWire, frozen=True, kw_only=True):
    """The place in the history from which a replay begins; `start` is the one that we know."""

    type: str


class ResumeSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """Continue with a session; with a place to begin at, its history is replayed."""

    replay_from: ReplayFrom | None = None


class ListSessionsRequest(v1.ListSessionsRequest, frozen=True, kw_only=True):
    """One page of sessions: those that are not archived (`exclude`), those that are (`only`), or all (`include`)."""

    archived: str | None = None


class SessionInfo(v1.SessionInfo, frozen=True, kw_only=True):
    """One session of a list."""

    archived: bool


class ListSessionsResponse(v1.ListSessionsResponse, frozen=True, kw_only=True):
    """One page, and where the next one starts."""

    sessions: tuple[SessionInfo, ...]


class SetSessionTitleRequest(SessionRequest, frozen=True, kw_only=True):
    """Give a session another title, whether it is open or not."""

    title: str


class SetSessionTitleResponse(MetaWire, frozen=True, kw_only=True):
    """The title as it is stored."""

    title: str


class PromptRequest(v1.PromptRequest, frozen=True, kw_only=True):
    """A message of the user. Two prompts of one session with the same key are one."""

    idempotency_key: str | None = None


class PromptResponse(MetaWire, frozen=True, kw_only=True):
    """The message is part of the conversation now, under this id."""

    message_id: str


class SetConfigOptionRequest(MetaWire, frozen=True, kw_only=True):
    """Set one option; a value of a type that we do not know is refused."""

    session_id: str
    config_id: str
    type: str
    value: object


class ConfigOption(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """An option with its choices."""

    config_id: str
    name: str
    current_value: str
    options: tuple[SelectOption, ...]
    description: str | None = None
    category: str | None = None


class SetConfigOptionResponse(MetaWire, frozen=True, kw_only=True):
    """All options."""

    config_options: tuple[ConfigOption, ...]


class CommandInput(v1.CommandInput, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """The text that may follow a command's name."""


class AvailableCommand(v1.AvailableCommand, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """A slash command, named without the slash."""

    input: CommandInput | None = None


class OpenedSessionResponse(MetaWire, frozen=True, kw_only=True):
    """The answer to session/resume."""

    config_options: tuple[ConfigOption, ...]
    available_commands: tuple[AvailableCommand, ...]


class NewSessionResponse(OpenedSessionResponse, frozen=True, kw_only=True):
    """The answer to session/new."""

    session_id: str


class DiffChange(MetaWire, frozen=True, kw_only=True):
    """The change of one file: `add`, `modify`, `delete`, or `move` from `old_path`."""

    operation: str
    path: str
    old_path: str | None = None
    file_type: str | None = None


class DiffPatch(MetaWire, frozen=True, kw_only=True):
    """The same changes as text to be shown, with absolute paths."""

    format: str
    text: str


class Diff(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """Changes of files."""

    changes: tuple[DiffChange, ...]
    patch: DiffPatch | None = None


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallStatus(StrEnum):
    """The states of a call."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CancelToolCallRequest(SessionRequest, frozen=True, kw_only=True):
    """Cancel one call and leave the turn to continue."""

    tool_call_id: str


class Controls(MetaWire, frozen=True, kw_only=True):
    """The controls that the user has of a call, a terminal or a subagent."""

    cancel: Flag


class ToolCall(MetaWire, frozen=True, kw_only=True):
    """A call, new or changed: what is absent stays as it is."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: object = msgspec.UNSET
    raw_output: object = msgspec.UNSET
    capabilities: Controls | msgspec.UnsetType | None = msgspec.UNSET


class ToolCallUpdate(ToolCall, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """A call, new or changed, as a session update."""


class _WholeMessage(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    message_id: str
    content: tuple[ContentBlock, ...]


class UserMessage(_WholeMessage, frozen=True, kw_only=True, tag="user_message"):
    """A message of the user; its content replaces what was known of it."""


class AgentMessage(_WholeMessage, frozen=True, kw_only=True, tag="agent_message"):
    """A message of the agent; its content replaces what was known of it."""


class AgentThought(_WholeMessage, frozen=True, kw_only=True, tag="agent_thought"):
    """Reasoning of the agent; its content replaces what was known of it."""


class RpcErrorObject(Wire, frozen=True, kw_only=True):
    """A JSON-RPC error inside an update."""

    code: int
    message: str
    data: Json = None


class ProviderConfig(MetaWire, frozen=True, kw_only=True):
    """The way to a provider; no secrets."""

    api_type: str
    base_url: str


class ProviderInfo(MetaWire, frozen=True, kw_only=True):
    """A provider that the client may configure; without a current way it is not used."""

    provider_id: str
    supported: tuple[str, ...]
    required: bool
    current: ProviderConfig | None = None


class ListProvidersResponse(MetaWire, frozen=True, kw_only=True):
    """All providers."""

    providers: tuple[ProviderInfo, ...]


class ProviderRequestById(MetaWire, frozen=True, kw_only=True):
    """A request about one provider."""

    provider_id: str


class SetProviderRequest(ProviderRequestById, frozen=True, kw_only=True):
    """Reach a provider at another address, with these headers alone."""

    api_type: str
    base_url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class AuthAccount(MetaWire, frozen=True, kw_only=True):
    """A key in use, for display."""

    label: str
    active: bool | None = None


class AuthStatusResponse(MetaWire, frozen=True, kw_only=True):
    """The state of authentication: `authenticated`, `unauthenticated` or `not_required`."""

    state: str
    accounts: tuple[AuthAccount, ...] = ()


class Usage(MetaWire, frozen=True, kw_only=True):
    """Tokens of the work that ended, those of its subagents included."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class BackgroundTerminal(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A command that runs beside the foreground."""

    terminal_id: str


class BackgroundSubagent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="subagent"):
    """A subagent that runs beside the foreground."""

    session_id: str


class ForegroundState(MetaWire, frozen=True, kw_only=True):
    """The state of the foreground: `running`, `requires_action`, or `idle` with what ended the work."""

    state: str
    stop_reason: str | None = None
    error: RpcErrorObject | None = None
    usage: Usage | None = None
    background: tuple[BackgroundTerminal | BackgroundSubagent, ...]


class StateUpdate(ForegroundState, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="state_update"):
    """The state of the foreground as a session update."""


class SessionStatusResponse(MetaWire, frozen=True, kw_only=True):
    """`open` with its state, or `saved`."""

    status: str
    state: ForegroundState | None = None


class TerminalOutput(MetaWire, frozen=True, kw_only=True):
    """All output so far, in base64."""

    data: str


class TerminalSize(MetaWire, frozen=True, kw_only=True):
    """The size of a terminal in characters."""

    cols: int
    rows: int


class TerminalUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="terminal_update"):
    """A terminal of ours, new or changed: what is absent stays as it is."""

    terminal_id: str
    command: str | None = None
    cwd: str | None = None
    output: TerminalOutput | None = None
    exit_status: TerminalExitStatus | None = None
    size: TerminalSize | None = None
    capabilities: Controls | msgspec.UnsetType | None = msgspec.UNSET


class TerminalOutputChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    """More output of a terminal of ours, in base64."""

    terminal_id: str
    data: str


class PlanItems(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="items"):
    """A plan of entries."""

    plan_id: str
    entries: tuple[PlanEntry, ...]


class PlanUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan_update"):
    """The whole plan."""

    plan: PlanItems


class PlanRemoved(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan_removed"):
    """A plan that is no more."""

    plan_id: str


class SessionMessage(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_message"):
    """A message from one session to another, such as the task of a subagent."""

    message_id: str
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    content: tuple[ContentBlock, ...]


class SubagentUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="subagent_update"):
    """The session of a subagent, new or changed: what is absent stays as it is."""

    session_id: str
    title: str | None = None
    description: str | None = None
    capabilities: Controls | msgspec.UnsetType | None = msgspec.UNSET
    state: ForegroundState | None = None


class AvailableCommandsUpdate(
    MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """All commands of the session."""

    available_commands: tuple[AvailableCommand, ...]


class ConfigOptionUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"):
    """All options of the session."""

    config_options: tuple[ConfigOption, ...]


SessionUpdate: TypeAlias = (
    UserMessage
    | UserMessageChunk
    | AgentMessage
    | AgentMessageChunk
    | AgentThought
    | AgentThoughtChunk
    | StateUpdate
    | ToolCallUpdate
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | PlanRemoved
    | SubagentUpdate
    | SessionMessage
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | CompactionUpdate
    | Notice
)


class SessionNotification(MetaWire, frozen=True, kw_only=True):
    """The parameters of session/update."""

    session_id: str
    update: SessionUpdate


class ToolCallSubject(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """A question about a call."""

    tool_call: ToolCall


class CommandSubject(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """A question about a command that would run in `cwd`."""

    command: str
    cwd: str
    tool_call_id: str | None = None


class PermissionRequest(MetaWire, frozen=True, kw_only=True):
    """Ask the user."""

    session_id: str
    title: str
    options: tuple[PermissionOption, ...]
    description: str | None = None
    subject: ToolCallSubject | CommandSubject | None = None
