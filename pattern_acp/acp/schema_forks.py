"""Requests about recorded sessions beyond what ACP v1 has: forks (unstable in ACP), and opening one that is in use.

Owns: their wire structs. `session/fork` and `_pattern/session/fork` take the same; the turn stands in `turn` or, where
only ACP's own members may be sent, in `_meta.pattern.turn`.
"""

from pattern_acp.acp.schema_base import MetaWire
from pattern_acp.acp.schema_session import ConfigOption, LoadSessionRequest, McpServer, SessionModeState

FORK = "session/fork"
OWN_FORK = "_pattern/session/fork"
OPEN = "_pattern/session/open"


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
