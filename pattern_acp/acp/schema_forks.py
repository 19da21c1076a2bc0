"""Requests about sessions beyond what ACP v1 has: forks (unstable in ACP), sessions in use, and one subagent of a turn.

Owns: their wire structs. `session/fork` and `_pattern/session/fork` take the same; the turn stands in `turn` or, where
only ACP's own members may be sent, in `_meta.pattern.turn`.
"""

from pattern_acp.acp.schema_base import MetaWire
from pattern_acp.acp.schema_session import ConfigOption, LoadSessionRequest, McpServer, SessionModeState

FORK = "session/fork"
OWN_FORK = "_pattern/session/fork"
OPEN = "_pattern/session/open"
STOP_SUBAGENT = "_pattern/subagent/stop"


class ForkSessionRequest(MetaWire, frozen=True, kw_only=True):
    """Begin a session with the history of another one, up to a turn: its number or id; the last one by default."""

    session_id: str
    cwd: str
    mcp_servers: tuple[McpServer, ...] = ()
    additional_directories: tuple[str, ...] = ()
    turn: int | str | None = None


class ForkSessionResponse(MetaWire, frozen=True, kw_only=True):
    """The new session. Nothing is replayed: the client shows the history already."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class OpenSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """session/load that says what to do with a session in use: `read` or `take_over`."""

    mode: str


class StopSubagentRequest(MetaWire, frozen=True, kw_only=True):
    """End a subagent that runs: that of a tool call, or without one the subagent that was started last."""

    session_id: str
    tool_call_id: str = ""


class StopSubagentResponse(MetaWire, frozen=True, kw_only=True):
    """The tool call whose subagent is being ended; empty when none runs, or it had ended before."""

    tool_call_id: str
