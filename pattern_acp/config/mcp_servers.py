"""The tables `[mcp_servers.NAME]` of one file.

Owns: their keys. Must not know: how a server is started, or what the editor passes. Those of a project's file are an
offer (config/project_offer.py), since opening a cloned repository must not run its programs.
"""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.providers import normal_base_url, show_url, wrong_header
from pattern_acp.config.settings import McpOAuthSettings, McpServerSettings
from pattern_acp.config.toml_file import EffectiveValue, Problem, TomlFile, is_table
from pattern_acp.config.values import describe_type

MCP_SERVER_KEYS = {
    "command": "text: a program",
    "args": "a list of text",
    "env": "a table of text",
    "url": "an http:// or https:// URL",
    "transport": "one of stdio, http, sse",
    "headers": "a table of text",
    "oauth": "a table with client_id, client_secret and redirect_port",
}


class _Read(Struct):
    servers: dict[str, McpServerSettings] = field(default_factory=dict[str, McpServerSettings])
    problems: list[Problem] = field(default_factory=list[Problem])
    values: list[EffectiveValue] = field(default_factory=list[EffectiveValue])


def read_mcp_servers(
    user: TomlFile,
) -> tuple[Mapping[str, McpServerSettings], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The servers by name, in the file's order. A server with a key that cannot be used is left out and reported."""
    read = _Read()
    raw = user.table.get("mcp_servers", {})
    if not is_table(raw):
        problem = user.problem("mcp_servers", "it must be tables [mcp_servers.NAME], so it is not used.")
        return {}, (problem,), ()
    for name, table in raw.items():
        _read_server(read, user, name, table)
    return read.servers, tuple(read.problems), tuple(read.values)


def _read_server(read: _Read, user: TomlFile, name: str, table: object) -> None:
    key = f"mcp_servers.{name}"
    if not is_table(table) or not name.strip():
        read.problems.append(user.problem(key, "a server is a table [mcp_servers.NAME]; it is left out."))
        return
    server = McpServerSettings(name, transport="")
    for field_name, raw in table.items():
        changed = _with_field(server, field_name, raw)
        if changed is None:
            read.problems.append(user.problem(f"{key}.{field_name}", _refusal(field_name, raw)))
            return
        server = changed
    server = replace(server, transport=server.transport or ("http" if server.url else "stdio"))
    has_target = server.command if server.transport == "stdio" else server.url
    if not has_target:
        wanted = "command" if server.transport == "stdio" else "url"
        read.problems.append(user.problem(key, f"it needs a {wanted}, so the server is left out."))
        return
    read.servers[name] = server
    line = user.line_of(key)
    source = user.path if line is None else f"{user.path}:{line}"
    # A key may stand in the query; what comes before it tells enough.
    shown = server.command or show_url(server.url.partition("?")[0])
    read.values.append(EffectiveValue(key, shown, source))


def _refusal(field_name: str, raw: object) -> str:
    allowed = MCP_SERVER_KEYS.get(field_name)
    if allowed is None:
        return f"there is no such key; allowed are {', '.join(MCP_SERVER_KEYS)}. The server is left out."
    if field_name == "headers" and (wrong := wrong_header(raw)):
        return f"{wrong}; the server is left out."
    written = "" if isinstance(raw, str) else f", not {describe_type(raw)}"
    return f"it must be {allowed}{written}; the server is left out."


def _with_field(server: McpServerSettings, field_name: str, raw: object) -> McpServerSettings | None:
    """The server with one key taken in; None when its value cannot be used."""
    match field_name:
        case "command" if isinstance(raw, str) and raw.strip():
            return replace(server, command=raw)
        case "transport" if raw in {"stdio", "http", "sse"}:
            return replace(server, transport=str(raw))
        case "args" if isinstance(raw, list):
            items = cast("list[object]", raw)
            texts = tuple(item for item in items if isinstance(item, str))
            return replace(server, args=texts) if len(texts) == len(items) else None
        case "env" | "headers" if is_table(raw):
            texts_by_name = {name: value for name, value in raw.items() if isinstance(value, str)}
            if len(texts_by_name) != len(raw) or (field_name == "headers" and wrong_header(raw)):
                return None
            return replace(server, **{field_name: texts_by_name})
        case "oauth" if is_table(raw):
            oauth = _oauth(raw)
            return None if oauth is None else replace(server, oauth=oauth)
        case "url":
            is_url = isinstance(raw, str) and normal_base_url(raw.partition("?")[0]) is not None
            return replace(server, url=raw) if is_url and isinstance(raw, str) else None
        case _:
            return None


def _oauth(raw: Mapping[str, object]) -> McpOAuthSettings | None:
    found = McpOAuthSettings()
    for name, value in raw.items():
        match name, value:
            case "client_id", str() if value.isprintable():
                found = replace(found, client_id=value)
            case "client_secret", str() if value.isprintable():
                found = replace(found, client_secret=value)
            case "redirect_port", int() if not isinstance(value, bool) and 0 <= value < 65536:
                found = replace(found, redirect_port=value)
            case _:
                return None
    return found
