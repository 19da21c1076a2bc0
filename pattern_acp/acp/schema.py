"""The wire types of ACP version 1 that we speak, under the names of its schema.

Owns: one struct for every message we read or write, the tables of methods, and what is forgiven when reading. Must not
know: sessions, models, tools. Wire structs stay inside `pattern_acp.acp`, tests, and fakes that play a client.
"""

import re
from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from pattern_acp.acp.initialize_response import PROTOCOL_VERSION
from pattern_acp.acp.schema_client import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationRequest,
    ElicitationResponse,
    PermissionOption,
    PermissionOutcome,
    PermissionRequest,
    PermissionResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    TerminalRequest,
    WriteTextFileRequest,
)
from pattern_acp.acp.schema_session import (
    CONTENT_BLOCK_TYPES,
    AgentAuthCapabilities,
    AgentCapabilities,
    AudioContent,
    AuthCapabilities,
    AuthenticateRequest,
    AuthMethod,
    BooleanConfigOption,
    ClientCapabilities,
    ClientSessionCapabilities,
    ConfigOption,
    ConfigOptionCapabilities,
    Content,
    ContentBlock,
    Diff,
    ElicitationCapabilities,
    EmbeddedResource,
    EmptyResponse,
    EnvVariable,
    FileSystemCapabilities,
    Flag,
    HttpHeader,
    ImageContent,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LogoutRequest,
    McpCapabilities,
    McpServer,
    Meta,
    MetaWire,
    NewSessionRequest,
    NewSessionResponse,
    OpenedSessionResponse,
    PromptBlock,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    ResourceContents,
    ResourceLink,
    ResumeSessionRequest,
    SelectConfigOption,
    SelectGroup,
    SelectOption,
    SessionCapabilities,
    SessionInfo,
    SessionMode,
    SessionModeState,
    SessionRequest,
    SetConfigOptionRequest,
    SetConfigOptionResponse,
    SetModeRequest,
    Terminal,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
    UnsupportedBlock,
    Wire,
)
from pattern_acp.acp.schema_updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CommandInput,
    CompactionStatus,
    CompactionUpdate,
    ConfigOptionUpdate,
    Cost,
    CurrentModeUpdate,
    Notice,
    PlanEntry,
    PlanUpdate,
    SessionInfoUpdate,
    SessionNotification,
    SessionUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)
from pattern_acp.jsonrpc.decoding import DROP, KEEP, decode_params
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError

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

_OPTIONAL_DETAIL = re.compile(r"^clientCapabilities\b|^clientInfo\b|^exitStatus\b")


def read_params(raw: msgspec.Raw, kind: type[T]) -> T:
    """The parameters of a request or notification.

    Capabilities, client info and `_meta` that do not fit are dropped, as the schema asks (`default on error`), and a
    prompt's block of an unknown type becomes an `UnsupportedBlock`.

    Raises:
        RpcError: `INVALID_PARAMS`, with one sentence that names the parameter and what was expected.
    """
    return decode_params(raw, kind, repair=repair)


def repair(path: str, value: object) -> object:
    """Repair tolerable faults in ACP's messages (see `pattern_acp.jsonrpc.decoding.Repair`)."""
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
    # The same misfit is mended in all servers at once, so what fits in the others has to stay.
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


__all__ = [
    "AGENT_METHODS",
    "CLIENT_METHODS",
    "MCP_MESSAGE",
    "PROTOCOL_VERSION",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AudioContent",
    "AuthCapabilities",
    "AuthMethod",
    "AuthenticateRequest",
    "AvailableCommand",
    "AvailableCommandsUpdate",
    "BooleanConfigOption",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CommandInput",
    "CompactionStatus",
    "CompactionUpdate",
    "ConfigOption",
    "ConfigOptionCapabilities",
    "ConfigOptionUpdate",
    "Content",
    "ContentBlock",
    "Cost",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "Diff",
    "ElicitationCapabilities",
    "ElicitationRequest",
    "ElicitationResponse",
    "EmbeddedResource",
    "EmptyResponse",
    "EnvVariable",
    "FileSystemCapabilities",
    "Flag",
    "HttpHeader",
    "ImageContent",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LogoutRequest",
    "McpCapabilities",
    "McpServer",
    "Meta",
    "MetaWire",
    "Method",
    "NewSessionRequest",
    "NewSessionResponse",
    "Notice",
    "OpenedSessionResponse",
    "PermissionOption",
    "PermissionOutcome",
    "PermissionRequest",
    "PermissionResponse",
    "PlanEntry",
    "PlanUpdate",
    "PromptBlock",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ResourceContents",
    "ResourceLink",
    "ResumeSessionRequest",
    "SelectConfigOption",
    "SelectGroup",
    "SelectOption",
    "SessionCapabilities",
    "SessionInfo",
    "SessionInfoUpdate",
    "SessionMode",
    "SessionModeState",
    "SessionNotification",
    "SessionRequest",
    "SessionUpdate",
    "SetConfigOptionRequest",
    "SetConfigOptionResponse",
    "SetModeRequest",
    "Terminal",
    "TerminalExitStatus",
    "TerminalOutputResponse",
    "TerminalRequest",
    "TextContent",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallProgress",
    "ToolCallStart",
    "ToolCallUpdate",
    "UnsupportedBlock",
    "UsageUpdate",
    "UserMessageChunk",
    "Wire",
    "WriteTextFileRequest",
    "parse_protocol_version",
    "read_params",
    "repair",
]
