"""Requests of the client to the agent, their responses, and content blocks (ACP v1)."""

from typing import TypeAlias

import msgspec

from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind

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
    """Go on with a session, replaying it first."""

    session_id: str


class ResumeSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """Go on with a session without replaying it."""


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


class SelectGroup(MetaWire, frozen=True, kw_only=True):
    """Values of a select under one heading."""

    group: str
    name: str
    options: tuple[SelectOption, ...]


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
