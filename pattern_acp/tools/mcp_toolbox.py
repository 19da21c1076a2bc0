"""Which tools of MCP servers a session has.

Owns: what is in the prompt, which is fixed at the first prompt of a session's process, and what changed since. Must not
know: what a call does.
"""

from collections.abc import Sequence

from pattern_acp.mcp_servers.catalogue import RemoteTool
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.mcp_servers.names import tool_names
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.tools.base import Tool
from pattern_acp.tools.mcp_access import McpCall, McpReadResource, McpSearch
from pattern_acp.tools.mcp_tools import Agreements, ServerTool
from pattern_acp.tools.text_limits import one_line, plural

TOOL_LIMIT = 40
"""Most tools in a prompt, ours counted in; above it those of servers are searched (issue 4, section 1)."""

TOLD = 10
"""Tools that a note names at most."""


class McpToolbox:
    """The tools of a session's servers. `own` are the names of the built-in tools."""

    def __init__(self, servers: SessionServers, agreements: Agreements, own: Sequence[str]) -> None:
        self._servers = servers
        self._agreements = agreements
        self._own = tuple(own)
        self._tools: dict[tuple[str, str], ServerTool] = {}
        """Every tool seen so far: its name stays its own for the session."""
        self._fixed: tuple[Tool, ...] | None = None
        self._digests: dict[str, dict[str, str]] = {}
        """What each server offered when the prompt was fixed: digests by tool."""

    @property
    def is_fixed(self) -> bool:
        """Whether the first prompt has decided what is in the prompt."""
        return self._fixed is not None

    def fix(self) -> None:
        """Decide what is in the prompt, from what is known now; later calls change nothing."""
        if self._fixed is not None:
            return
        listed = self.tools()
        self._digests = {server.name: _digests(server) for server in self._servers.ready}
        searching: list[Tool] = [McpSearch(self.tools, self._lines()), McpCall(self.tools)]
        reading: list[Tool] = []
        if any(server.catalogue.resources for server in self._servers.ready):
            reading.append(McpReadResource(self._servers, self._agreements))
        growing = searching if any(_may_grow(server) for server in self._servers.servers) else []
        whole = [*listed, *growing, *reading]
        is_whole = len(self._own) + len(whole) <= TOOL_LIMIT
        self._fixed = tuple(whole if is_whole else [*searching, *reading])

    def offered(self, *, mode_is_plan: bool) -> tuple[Tool, ...]:
        """The tools in the prompt. In plan mode those that only read, and mcp_call, where policy looks at each call."""
        fixed = self._fixed or ()
        return tuple(tool for tool in fixed if not mode_is_plan or not tool.changes_things or isinstance(tool, McpCall))

    def callable(self) -> tuple[Tool, ...]:
        """Every tool that a call may name, also those outside the prompt."""
        others = [tool for tool in self._fixed or () if not isinstance(tool, ServerTool)]
        return (*self._tools.values(), *others)

    def tools(self) -> tuple[ServerTool, ...]:
        """The tools of all servers that answer now."""
        now = [(server, tool) for server in self._servers.ready for tool in server.catalogue.tools]
        fresh = [(server, tool) for server, tool in now if (server.name, tool.name) not in self._tools]
        taken = (*self._own, *(tool.spec.name for tool in self._tools.values()))
        names = tool_names([(server.name, tool.name) for server, tool in fresh], taken)
        for (server, tool), name in zip(fresh, names, strict=True):
            self._tools.setdefault((server.name, tool.name), ServerTool(server, tool, name, self._agreements))
        seen = {(server.name, tool.name): None for server, tool in now}
        return tuple(self._tools[key] for key in seen)

    def notes(self) -> tuple[str, ...]:
        """What changed since the prompt was fixed, for the part of a request that may change."""
        if self._fixed is None:
            return ()
        self.tools()
        notes = [self._note(server) for server in self._servers.servers]
        return tuple(note for note in notes if note)

    def _note(self, server: Server) -> str:
        before = self._digests.get(server.name)
        if server.state is not ServerState.READY:
            return f"The MCP server {server.name} is not there now." if before is not None else ""
        if before is None:
            count = plural(len(server.catalogue.tools), "tool")
            return f"The MCP server {server.name} is ready now, with {count}; mcp_search finds them."
        now = _digests(server)
        changes = {
            "added": [name for name in now if name not in before],
            "changed": [name for name in now if name in before and now[name] != before[name]],
            "removed": [name for name in before if name not in now],
        }
        told = [f"{what}: {self._named(server, names)}" for what, names in changes.items() if names]
        if not told:
            return ""
        return f"The MCP server {server.name} has changed its tools ({'; '.join(told)}); mcp_search describes them."

    def _named(self, server: Server, names: Sequence[str]) -> str:
        shown = [
            self._tools[server.name, name].spec.name for name in names[:TOLD] if (server.name, name) in self._tools
        ]
        more = len(names) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def _lines(self) -> list[str]:
        """One line a server, for the prompt."""
        return [_line(server) for server in self._servers.servers if server.state is not ServerState.FAILED]


def _may_grow(server: Server) -> bool:
    return server.state is ServerState.STARTING or (server.state is ServerState.READY and server.catalogue.may_change)


def _digests(server: Server) -> dict[str, str]:
    return {tool.name: tool.digest for tool in server.catalogue.tools}


def _line(server: Server) -> str:
    if server.state is not ServerState.READY:
        return f"- {server.name}: still starting"
    tools = server.catalogue.tools
    about = server.catalogue.instructions or _some(tools)
    return f"- {server.name}: {plural(len(tools), 'tool')}. {one_line(about, 160)}"


def _some(tools: Sequence[RemoteTool]) -> str:
    return ", ".join(tool.name for tool in tools[:6])
