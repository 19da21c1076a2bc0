"""Requests of the agent to the client, and their responses (ACP v1, permission, file system, terminals)."""

from pattern_acp.acp.schema_session import EnvVariable, MetaWire, ToolCallUpdate
from pattern_acp.domain.canonical import JsonObject


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
