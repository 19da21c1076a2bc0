"""The wire types of ACP version 1 that we speak, under the names of its schema.

Owns: one struct for every message we read or write, the tables of methods, and what is forgiven when reading. Must not
know: sessions, models, tools. Wire structs stay inside `pattern_acp.acp`, tests, and fakes that play a client.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.tool_calls import PlanPriority, PlanStatus, StopReason, ToolCallStatus, ToolKind
from pattern_acp.jsonrpc.messages import DROP, INVALID_PARAMS, KEEP, RpcError, decode_params

Meta: TypeAlias = dict[str, object] | None
"""The `_meta` object: extensions by name (ACP v1, extensibility)."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Root of the wire structs; it only sets how they are written."""


class MetaWire(Wire, frozen=True, kw_only=True):
    """A wire struct that may carry `_meta`."""

    meta: Meta = msgspec.field(name="_meta", default=None)


class TextContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, Markdown by convention."""

    text: str


class ImageContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 data and its media type."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """Sound: base64 data and its media type."""

    data: str
    mime_type: str


class ResourceLink(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A link to something that the agent may read itself. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class ResourceContents(MetaWire, frozen=True, kw_only=True):
    """The content of a resource: `text`, or `blob` in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A resource with its contents."""

    resource: ResourceContents


class UnsupportedBlock(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="unsupported"):
    """Stands for a block of a type that we do not know; never sent."""


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""The five blocks of ACP v1."""

PromptBlock: TypeAlias = ContentBlock | UnsupportedBlock
"""A block of a prompt as it came in."""

CONTENT_BLOCK_TYPES = frozenset({"text", "image", "audio", "resource_link", "resource"})


class Content(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A content block inside a tool call."""

    content: ContentBlock


class Diff(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A change of one file: absolute path, whole texts; no old text for a new file."""

    path: str
    new_text: str
    old_text: str | None = None


class Terminal(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A live terminal, by its id."""

    terminal_id: str


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(MetaWire, frozen=True, kw_only=True):
    """A file that a call touches: absolute path and 1-based line."""

    path: str
    line: int | None = None


class ToolCallUpdate(MetaWire, frozen=True, kw_only=True):
    """The changed parts of a call, as a permission request shows it; content and locations replace what was shown."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: object = msgspec.UNSET
    raw_output: object = msgspec.UNSET


class Implementation(MetaWire, frozen=True, kw_only=True):
    """Name and version of a program; a client that names no version has the empty one."""

    name: str
    version: str
    title: str | None = None


class FileSystemCapabilities(MetaWire, frozen=True, kw_only=True):
    """The fs/* methods that the client serves."""

    read_text_file: bool = False
    write_text_file: bool = False


class AuthCapabilities(MetaWire, frozen=True, kw_only=True):
    """The kinds of authentication that the client supports."""

    terminal: bool = False


class Flag(MetaWire, frozen=True, kw_only=True):
    """An object whose presence is the promise (`{}`)."""


class ConfigOptionCapabilities(MetaWire, frozen=True, kw_only=True):
    """The kinds of config options that the client shows besides selects."""

    boolean: Flag | None = None


class ClientSessionCapabilities(MetaWire, frozen=True, kw_only=True):
    """The optional updates that the client shows."""

    config_options: ConfigOptionCapabilities | None = None
    notices: Flag | None = None
    compaction: Flag | None = None


class ElicitationCapabilities(MetaWire, frozen=True, kw_only=True):
    """The ways in which the client asks the user for values."""

    form: Flag | None = None


class ClientCapabilities(MetaWire, frozen=True, kw_only=True):
    """The capabilities of the client; whatever is absent is not offered (ACP v1, initialization)."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    auth: AuthCapabilities = AuthCapabilities()
    session: ClientSessionCapabilities = ClientSessionCapabilities()
    elicitation: ElicitationCapabilities | None = None

    @property
    def shows_forms(self) -> bool:
        """True if the client serves elicitation/create with forms."""
        return self.elicitation is not None and self.elicitation.form is not None

    def has_meta(self, name: str) -> bool:
        """Tell whether `_meta` has `name` as true (`terminal_output` and `terminal-auth` are Zed's)."""
        return (self.meta or {}).get(name) is True


class InitializeRequest(MetaWire, frozen=True, kw_only=True):
    """The first request. Read the version with `parse_protocol_version`."""

    protocol_version: msgspec.Raw
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class PromptCapabilities(Wire, frozen=True, kw_only=True):
    """The blocks that a prompt may contain besides text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Wire, frozen=True, kw_only=True):
    """The MCP transports that work besides stdio."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(Wire, frozen=True, kw_only=True):
    """The optional session methods that work."""

    list: Flag | None = None
    delete: Flag | None = None
    additional_directories: Flag | None = None
    resume: Flag | None = None
    close: Flag | None = None
    fork: Flag | None = None
    """Unstable in ACP v1."""


class AgentAuthCapabilities(Wire, frozen=True, kw_only=True):
    """The optional authentication methods that work."""

    logout: Flag | None = None


class AgentCapabilities(MetaWire, frozen=True, kw_only=True):
    """The capabilities of the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()


class AuthMethod(MetaWire, frozen=True, kw_only=True):
    """A way to sign in. Without `type` the agent does it; with `terminal` the client runs us with `args` and `env`."""

    id: str
    name: str
    description: str | None = None
    type: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None


class InitializeResponse(MetaWire, frozen=True, kw_only=True):
    """The answer to initialize."""

    protocol_version: int
    agent_capabilities: AgentCapabilities
    auth_methods: tuple[AuthMethod, ...]
    agent_info: Implementation


class AuthenticateRequest(MetaWire, frozen=True, kw_only=True):
    """Sign in by one of `authMethods`."""

    method_id: str


class LogoutRequest(MetaWire, frozen=True, kw_only=True):
    """Forget what authenticate stored."""


class EmptyResponse(MetaWire, frozen=True, kw_only=True):
    """The answer that says nothing but that it was done: `{}`, never null."""


class EnvVariable(MetaWire, frozen=True, kw_only=True):
    """One environment variable."""

    name: str
    value: str


class HttpHeader(MetaWire, frozen=True, kw_only=True):
    """One HTTP header."""

    name: str
    value: str


class McpServer(MetaWire, frozen=True, kw_only=True):
    """An MCP server to connect. Stdio servers have no `type`.

    Nothing but the name is required, and any type is taken: a server that cannot be connected is reported and never
    fails the session (interop rule 8).
    """

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVariable, ...] = ()
    url: str = ""
    headers: tuple[HttpHeader, ...] = ()
    server_id: str = ""


class NewSessionRequest(MetaWire, frozen=True, kw_only=True):
    """Start a session in `cwd` (absolute)."""

    cwd: str
    mcp_servers: tuple[McpServer, ...] = ()
    additional_directories: tuple[str, ...] = ()


class LoadSessionRequest(NewSessionRequest, frozen=True, kw_only=True):
    """Continue with a session, replaying it first."""

    session_id: str


class ResumeSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """Continue with a session without replaying it."""


class SessionMode(MetaWire, frozen=True, kw_only=True):
    """One mode of a session."""

    id: str
    name: str
    description: str | None = None


class SessionModeState(MetaWire, frozen=True, kw_only=True):
    """The modes, and the current one."""

    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


class SelectOption(MetaWire, frozen=True, kw_only=True):
    """One value of a select."""

    value: str
    name: str
    description: str | None = None


class SelectConfigOption(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """A choice that the user can make. `category` is mode, model, model_config or thought_level."""

    id: str
    name: str
    current_value: str
    options: tuple[SelectOption, ...]
    description: str | None = None
    category: str | None = None


class BooleanConfigOption(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="boolean"):
    """A switch; only for clients that advertise `session.configOptions.boolean`."""

    id: str
    name: str
    current_value: bool
    description: str | None = None
    category: str | None = None


ConfigOption: TypeAlias = SelectConfigOption | BooleanConfigOption


class NewSessionResponse(MetaWire, frozen=True, kw_only=True):
    """The new session's id, and its modes both ways (interop rule 14)."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class OpenedSessionResponse(MetaWire, frozen=True, kw_only=True):
    """The answer to session/load and session/resume."""

    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class ListSessionsRequest(MetaWire, frozen=True, kw_only=True):
    """One page of sessions, of one directory or of all."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(MetaWire, frozen=True, kw_only=True):
    """One session of a list. `updated_at` is ISO 8601."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None
    additional_directories: tuple[str, ...] = ()


class ListSessionsResponse(MetaWire, frozen=True, kw_only=True):
    """One page, and where the next one starts."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class SessionRequest(MetaWire, frozen=True, kw_only=True):
    """A request about one session: session/close, session/delete and session/cancel."""

    session_id: str


class SetModeRequest(MetaWire, frozen=True, kw_only=True):
    """Change the mode."""

    session_id: str
    mode_id: str


class SetConfigOptionRequest(MetaWire, frozen=True, kw_only=True):
    """Choose a value: a select's value id, or a boolean."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetConfigOptionResponse(MetaWire, frozen=True, kw_only=True):
    """Always the complete list of options."""

    config_options: tuple[ConfigOption, ...]


class PromptRequest(MetaWire, frozen=True, kw_only=True):
    """One turn's prompt."""

    session_id: str
    prompt: tuple[PromptBlock, ...]


class PromptResponse(MetaWire, frozen=True, kw_only=True):
    """Why the turn ended."""

    stop_reason: StopReason


class PermissionOption(MetaWire, frozen=True, kw_only=True):
    """One button. `kind` is allow_once, allow_always, reject_once or reject_always."""

    option_id: str
    name: str
    kind: str


class PermissionRequest(MetaWire, frozen=True, kw_only=True):
    """Ask the user about one call."""

    session_id: str
    tool_call: ToolCallUpdate
    options: tuple[PermissionOption, ...]


class PermissionOutcome(MetaWire, frozen=True, kw_only=True):
    """The user's choice: `selected` or `cancelled`. An outcome that we do not know chooses nothing."""

    outcome: str
    option_id: str | None = None


class PermissionResponse(MetaWire, frozen=True, kw_only=True):
    """The user's answer."""

    outcome: PermissionOutcome


class ElicitationRequest(MetaWire, frozen=True, kw_only=True):
    """Ask the user for values: `requested_schema` is an object of plain properties."""

    session_id: str
    tool_call_id: str
    message: str
    requested_schema: JsonObject
    mode: str


class ElicitationResponse(MetaWire, frozen=True, kw_only=True):
    """The user's values. `action` is accept, decline or cancel."""

    action: str
    content: JsonObject | None = None


class ReadTextFileRequest(MetaWire, frozen=True, kw_only=True):
    """Read a text file (absolute path). Lines are 1-based; without them the whole file (interop rule 5)."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(MetaWire, frozen=True, kw_only=True):
    """The file's text."""

    content: str


class WriteTextFileRequest(MetaWire, frozen=True, kw_only=True):
    """Write a whole text file (absolute path), creating it if missing."""

    session_id: str
    path: str
    content: str


class CreateTerminalRequest(MetaWire, frozen=True, kw_only=True):
    """Start a command in a terminal of the client. `output_byte_limit` keeps the newest bytes."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[EnvVariable, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(MetaWire, frozen=True, kw_only=True):
    """The terminal's id."""

    terminal_id: str


class TerminalRequest(MetaWire, frozen=True, kw_only=True):
    """A request about one terminal: terminal/output, wait_for_exit, kill and release."""

    session_id: str
    terminal_id: str


class TerminalExitStatus(MetaWire, frozen=True, kw_only=True):
    """The end of a command; both members may be missing (interop rule 4)."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(MetaWire, frozen=True, kw_only=True):
    """Output so far, at once."""

    output: str
    truncated: bool = False
    exit_status: TerminalExitStatus | None = None


class UserMessageChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    """Part of a user's message, in a replay."""

    content: ContentBlock
    message_id: str | None = None


class AgentMessageChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """Part of the answer; a new `message_id` starts a new message."""

    content: ContentBlock
    message_id: str | None = None


class AgentThoughtChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """Part of the model's reasoning."""

    content: ContentBlock
    message_id: str | None = None


class ToolCallStart(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    """A call that the client does not know yet."""

    tool_call_id: str
    title: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: object = msgspec.UNSET
    raw_output: object = msgspec.UNSET


class ToolCallProgress(ToolCallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """The changed parts of a known call."""


class PlanEntry(MetaWire, frozen=True, kw_only=True):
    """One step of a plan."""

    content: str
    priority: PlanPriority
    status: PlanStatus


class PlanUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan"):
    """The whole plan."""

    entries: tuple[PlanEntry, ...]


class CommandInput(MetaWire, frozen=True, kw_only=True):
    """The input that may follow a command's name."""

    hint: str


class AvailableCommand(MetaWire, frozen=True, kw_only=True):
    """A slash command, named without the slash."""

    name: str
    description: str
    input: CommandInput | None = None


class AvailableCommandsUpdate(
    MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """All commands of the session."""

    available_commands: tuple[AvailableCommand, ...]


class CurrentModeUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="current_mode_update"):
    """The mode changed."""

    current_mode_id: str


class ConfigOptionUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"):
    """Options changed: always the complete list."""

    config_options: tuple[ConfigOption, ...]


class SessionInfoUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"):
    """Title or time changed; None clears, `msgspec.UNSET` leaves as it is. `updated_at` is ISO 8601."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str | msgspec.UnsetType | None = msgspec.UNSET


class Cost(Wire, frozen=True, kw_only=True):
    """The cost of the session so far, in units of an ISO 4217 currency."""

    amount: float
    currency: str


class UsageUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="usage_update"):
    """Tokens that are in the context now (not a running total), and the model's window."""

    used: int
    size: int
    cost: Cost | None = None


class CompactionStatus(StrEnum):
    """The progress of a compaction."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CompactionUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_update"):
    """A compaction of the model's context, new or changed; only for clients that advertise `session.compaction`.

    What is `msgspec.UNSET` stays as it is.
    """

    compaction_id: str
    status: CompactionStatus
    summary: tuple[ContentBlock, ...] | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET


class Notice(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="notice"):
    """A message beside the conversation, with a title; only for clients that advertise `session.notices`."""

    severity: str
    title: str
    description: str | None = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | PlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
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


T = TypeVar("T")


class Method(Struct, frozen=True):
    """A method: the struct of its parameters, and of its result (None for a notification)."""

    params: type[Wire]
    result: type[Wire] | None


AGENT_METHODS: Mapping[str, Method] = {
    "initialize": Method(InitializeRequest, InitializeResponse),
    "authenticate": Method(AuthenticateRequest, EmptyResponse),
    "logout": Method(LogoutRequest, EmptyResponse),
    "session/new": Method(NewSessionRequest, NewSessionResponse),
    "session/load": Method(LoadSessionRequest, OpenedSessionResponse),
    "session/resume": Method(ResumeSessionRequest, OpenedSessionResponse),
    "session/list": Method(ListSessionsRequest, ListSessionsResponse),
    "session/close": Method(SessionRequest, EmptyResponse),
    "session/delete": Method(SessionRequest, EmptyResponse),
    "session/set_mode": Method(SetModeRequest, EmptyResponse),
    "session/set_config_option": Method(SetConfigOptionRequest, SetConfigOptionResponse),
    "session/prompt": Method(PromptRequest, PromptResponse),
    "session/cancel": Method(SessionRequest, None),
}
"""Methods that a client may call on us."""

CLIENT_METHODS: Mapping[str, Method] = {
    "session/update": Method(SessionNotification, None),
    "session/request_permission": Method(PermissionRequest, PermissionResponse),
    "elicitation/create": Method(ElicitationRequest, ElicitationResponse),
    "fs/read_text_file": Method(ReadTextFileRequest, ReadTextFileResponse),
    "fs/write_text_file": Method(WriteTextFileRequest, EmptyResponse),
    "terminal/create": Method(CreateTerminalRequest, CreateTerminalResponse),
    "terminal/output": Method(TerminalRequest, TerminalOutputResponse),
    "terminal/wait_for_exit": Method(TerminalRequest, TerminalExitStatus),
    "terminal/kill": Method(TerminalRequest, EmptyResponse),
    "terminal/release": Method(TerminalRequest, EmptyResponse),
}
"""Methods that we may call on a client, where it advertises them."""

MCP_MESSAGE = "mcp/message"
"""Carries the messages of MCP servers that a client of version 2 offers over its connection, both ways."""

UNREADABLE_SERVER = "(one that cannot be read)"
"""The name of an MCP server whose entry is not one (interop rule 8: servers never fail a session)."""

_OPTIONAL_DETAIL = late_pattern(r"^clientCapabilities\b|^clientInfo\b|^exitStatus\b")


def read_params(raw: msgspec.Raw, kind: type[T]) -> T:
    """The parameters of a request or notification.

    Capabilities, client info and `_meta` that do not fit are dropped, as the schema asks (`default on error`), and a
    prompt's block of an unknown type becomes an `UnsupportedBlock`.

    Raises:
        RpcError: `INVALID_PARAMS`, with one sentence that names the parameter and what was expected.
    """
    return decode_params(raw, kind, repair=repair)


def repair(path: str, value: object) -> object:
    """Repair tolerable faults in ACP's messages (see `pattern_acp.jsonrpc.messages.Repair`)."""
    if path.startswith("mcpServers"):
        return _repair_servers(path, value)
    if path == "clientInfo" and isinstance(value, dict) and "version" not in value:
        return {**cast("dict[str, object]", value), "version": ""}
    if _OPTIONAL_DETAIL.search(path) or (path.rpartition(".")[2] == "_meta" and not isinstance(value, dict)):
        return DROP
    if path == "prompt[].type" and isinstance(value, str) and value not in CONTENT_BLOCK_TYPES:
        return "unsupported"
    return KEEP


def _repair_servers(path: str, value: object) -> object:
    """A server that cannot be read has no name: reported like the others, and no reason to refuse a session."""
    if path == "mcpServers":
        return [{"name": UNREADABLE_SERVER}]
    if path == "mcpServers[]":
        is_sound = isinstance(value, dict) and "name" in value
        return KEEP if is_sound else {"name": UNREADABLE_SERVER}
    if path == "mcpServers[].name":
        return KEEP if isinstance(value, str) else UNREADABLE_SERVER
    # The same misfit is repaired in all servers at once, so what fits in the others has to stay.
    if path in {"mcpServers[].args", "mcpServers[].env", "mcpServers[].headers"}:
        return KEEP if isinstance(value, list) else DROP
    if path in {"mcpServers[].env[]", "mcpServers[].headers[]"}:
        is_pair = isinstance(value, dict) and {"name", "value"} <= cast("dict[str, object]", value).keys()
        return KEEP if is_pair else {"name": "", "value": ""}
    return KEEP if isinstance(value, str) else ""


def parse_protocol_version(raw: msgspec.Raw) -> int:
    """The protocol version as an integer; a numeric string is taken for its number.

    Raises:
        RpcError: `INVALID_PARAMS` for anything else, such as the dates that MCP clients send.
    """
    value = cast("object", msgspec.json.decode(raw))
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    raise RpcError(INVALID_PARAMS, "The parameter `protocolVersion` must be an integer, such as 1.")
