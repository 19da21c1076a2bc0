"""The tools that stand for tools and resources of MCP servers: mcp_search, mcp_call, mcp_read_resource.

Owns: finding a tool among many, calling it by name, reading resources. Must not know: which tools are in the prompt.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, cast

from msgspec import Meta, Struct

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.mcp_servers.catalogue import RemoteTool
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.policy.access import CallServer, NoEffect
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolInputError, ToolOutcome
from pattern_acp.tools.mcp_tools import Agreements, ServerTool, asked, definition_of, outcome_of
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.text_limits import cut_middle, one_line, plural

FOUND = 8
"""Tools that one search describes."""

LISTED_RESOURCES = 100
READ_RESOURCES = "resources/read"
"""What a permission for a server's resources is remembered by, in MCP's own word."""


CALL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "description": "Name that mcp_search gave"},
        "arguments": {"type": "object", "description": "As the tool's schema wants them"},
    },
    "required": ["tool"],
    "additionalProperties": False,
}


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of mcp_search."""

    query: Annotated[str, Meta(description="Words of what the tool should do, or a server's name")]


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of mcp_read_resource."""

    server: str
    uri: Annotated[str, Meta(description="Leave out to list them")] = ""


class McpSearch:
    """Finds tools by words. `lines` is one line a server, fixed when the session began."""

    kind = ToolKind.SEARCH
    changes_things = False

    def __init__(self, tools: Callable[[], Sequence[ServerTool]], lines: Sequence[str]) -> None:
        self._tools = tools
        about = "Find tools of MCP servers and how to call them with mcp_call. Servers:"
        self.spec = ToolSpec("mcp_search", "\n".join((about, *lines)), input_schema(SearchArguments))

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        query = parse_arguments(arguments, SearchArguments).query
        return PreparedCall(
            one_line(f"Search tools of MCP servers: {query}", 120), (NoEffect(),), partial(self._run, query, context)
        )

    async def _run(self, query: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
        tools = self._tools()
        found = best_tools(tools, query)
        if not found:
            text = f"None of {plural(len(tools), 'tool')} fits; search with other words, or by a server's name."
            return ToolOutcome(text, origin=Origin.MCP)
        text = "\n\n".join(described(tool) for tool in found)
        names = "\n".join(f"- `{tool.spec.name}`: {one_line(tool.spec.description, 100)}" for tool in found)
        cut = cut_middle(text, context.result_limit)
        return ToolOutcome(cut.text, content=(TextContent(names),), origin=Origin.MCP)


class McpCall:
    """Calls a tool that is not in the prompt. It may change things, so it never runs beside others."""

    kind = ToolKind.OTHER
    changes_things = True

    def __init__(self, tools: Callable[[], Sequence[ServerTool]]) -> None:
        self._tools = tools
        self.spec = ToolSpec("mcp_call", "Call a tool that mcp_search found.", CALL_SCHEMA)

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        name, inner = call_arguments(arguments)
        tool = next((tool for tool in self._tools() if tool.spec.name == name), None)
        if tool is None:
            raise ToolInputError(f"There is no tool {name[:80]!r} of an MCP server; find it by mcp_search.")
        return await tool.prepare(inner, call_id, context)


class McpReadResource:
    """Reads or lists a server's resources."""

    kind = ToolKind.READ
    changes_things = False

    def __init__(self, servers: SessionServers, agreements: Agreements) -> None:
        self._servers = servers
        self._agreements = agreements
        names = ", ".join(server.name for server in servers.ready if server.catalogue.resources)
        about = f"Read a resource of an MCP server, or list them. Servers with resources: {names}."
        self.spec = ToolSpec("mcp_read_resource", about, input_schema(ReadArguments))

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, _context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        wanted = parse_arguments(arguments, ReadArguments)
        server = self._servers.named(wanted.server)
        if server is None or server.state is ServerState.FAILED:
            known = ", ".join(server.name for server in self._servers.ready)
            raise ToolInputError(f"There is no MCP server {wanted.server[:80]!r}; there are {known or 'none'}.")
        if not wanted.uri:
            return PreparedCall(f"{server.name}: list resources", (NoEffect(),), partial(_list, server))
        known_tools = await self._agreements.known(server)
        news = "" if known_tools else f"It is the first use of the MCP server `{server.name}` as it is set up now."
        access = CallServer(
            server.name, READ_RESOURCES, definition_of(server, READ_RESOURCES), read_only=True, news=news
        )
        title = one_line(f"{server.name}: read {wanted.uri}", 200)
        return PreparedCall(title, (access,), partial(_read, server, wanted.uri, _context))


async def _list(server: Server, _progress: Progress) -> ToolOutcome:
    resources = server.catalogue.resources
    lines = [f"{item.uri} ({one_line(item.name, 80)}) {one_line(item.description, 120)}".strip() for item in resources]
    more = len(lines) - LISTED_RESOURCES
    if more > 0:
        lines = [*lines[:LISTED_RESOURCES], f"… and {more} more"]
    return ToolOutcome("\n".join(lines) or "It has none.", origin=Origin.MCP)


async def _read(server: Server, uri: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
    return await outcome_of(await asked(server.read(uri)), context.result_limit)


def call_arguments(arguments: JsonObject) -> tuple[str, JsonObject]:
    """The tool and the arguments that a call of mcp_call means. Models write the inner object as text now and then.

    Raises:
        ToolInputError: one of them is missing, or something else is there.
    """
    name, inner = arguments.get("tool"), arguments.get("arguments", {})
    if isinstance(inner, str):
        try:
            inner = cast("Json", json.loads(inner or "{}"))
        except (ValueError, RecursionError):
            inner = None
    if not isinstance(name, str) or not isinstance(inner, Mapping) or arguments.keys() - {"tool", "arguments"}:
        raise ToolInputError('Send {"tool": the name that mcp_search gave, "arguments": {…} as its schema wants them}.')
    return name, inner


def best_tools(tools: Sequence[ServerTool], query: str) -> list[ServerTool]:
    """The tools that share most words with the query, names before descriptions; no words at all find the first."""
    words = [word for word in query.lower().replace("_", " ").replace("-", " ").split() if word]
    scored = [(_score(tool, words), -position, tool) for position, tool in enumerate(tools)]
    best = sorted((item for item in scored if item[0] > 0 or not words), key=lambda item: item[:2], reverse=True)
    return [tool for _, _, tool in best[:FOUND]]


def _score(tool: ServerTool, words: Sequence[str]) -> int:
    name, description = tool.spec.name.lower(), tool.spec.description.lower()
    parts = set(name.replace("_", " ").replace("-", " ").split())
    return sum(4 * (word in parts) + 2 * (word in name) + (word in description) for word in words)


def described(tool: ServerTool) -> str:
    """How to call a tool."""
    now: RemoteTool = tool.server.catalogue.tool(tool.remote.name) or tool.remote
    schema = json.dumps(now.input_schema, ensure_ascii=False)
    return f"{tool.spec.name}: {now.description or now.name}\narguments: {schema}"
