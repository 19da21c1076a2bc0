"""What stands in requests about sessions and in lists of them, between the wire and the session layer. Pure."""

from collections.abc import Sequence
from typing import cast

from pattern_acp.acp import schema
from pattern_acp.acp.updates import config_options, iso_time, mode_state
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.journal.session_lists import ListedSession
from pattern_acp.session.opening import Opening
from pattern_acp.session.session import Session


def asked_of(meta: dict[str, object] | None) -> dict[str, object]:
    """What a client that knows us says in `_meta.pattern`."""
    pattern = (meta or {}).get("pattern")
    return cast("dict[str, object]", pattern) if isinstance(pattern, dict) else {}


def session_info(listed: ListedSession) -> schema.SessionInfo:
    """One session of the list; what ACP has no field for stands in `_meta.pattern`."""
    row = listed.row
    more: dict[str, object] = {
        "status": listed.status.value,
        "preview": listed.preview,
        "messages": row.message_count,
        "archived": row.archived,
    }
    if row.parent is not None:
        more["parent"] = row.parent
    return schema.SessionInfo(
        session_id=row.session_id,
        cwd=row.cwd,
        title=row.title or None,
        updated_at=iso_time(row.updated_ms),
        additional_directories=row.additional_directories,
        meta={"pattern": more},
    )


def opening_of(request: schema.LoadSessionRequest | schema.ResumeSessionRequest) -> Opening:
    """What the client says when it opens a recorded session."""
    return Opening(request.cwd, request.additional_directories, servers_of(request.mcp_servers))


def opened(session: Session) -> schema.OpenedSessionResponse:
    """Modes and options, as session/new returns them."""
    options = session.options()
    return schema.OpenedSessionResponse(modes=mode_state(options), config_options=config_options(options))


def servers_of(servers: Sequence[schema.McpServer]) -> tuple[McpServerSettings, ...]:
    """The MCP servers that the client passed, also those that cannot work: the session reports them."""
    return tuple(
        McpServerSettings(
            server.name,
            server.type,
            server.command,
            server.args,
            {item.name: item.value for item in server.env if item.name},
            server.url,
            {item.name: item.value for item in server.headers if item.name},
        )
        for server in servers
    )
