"""Tools of MCP servers: which of them a session has, and calling one.

Owns: the part of them in the prompt, which is fixed at the first prompt of a session's process, what changed since, and
the results of calls. Must not know: the protocol.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Protocol, cast

import anyio
from msgspec import Meta, Struct

from pattern_acp.domain.access import CallServer, NoEffect, Origin
from pattern_acp.domain.canonical import Json, JsonObject, sha256_hex
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.text_limits import cut_middle, fenced, one_line, plural, short_diff
from pattern_acp.domain.tool_calls import ImageContent, TextContent, ToolContent, ToolKind
from pattern_acp.mcp_servers.catalogue import News, Pin, RemoteTool, Reply, ServerError, news_of, tool_names
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    Tool,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import image_of_base64

DESCRIPTION_LIMIT = 1500
"""Characters of a description that the model reads; the user sees all of a changed one."""

SHOWN_LIMIT = 4000
"""Characters of a reply that the user sees in the call."""

PROGRESS_SECONDS = 0.1
"""Between two lines of progress that are shown."""


class Agreements(Protocol):
    """The user's agreements to servers' tools."""

    async def known(self, server: Server) -> Mapping[str, Pin]:
        """The tools agreed to, by name; empty before the first use."""
        ...

    async def agree(self, server: Server, tools: Sequence[RemoteTool]) -> None:
        """Record that the user agreed to tools as they are now."""
        ...


class ServerTool:
    """One tool of a server. `spec` stays as it was when the session began; a call sees the tool as it is now."""

    def __init__(self, server: Server, remote: RemoteTool, name: str, agreements: Agreements) -> None:
        description = remote.description or remote.title or remote.name
        self.server = server
        self.remote = remote
        self.spec = ToolSpec(name, cut_middle(description, DESCRIPTION_LIMIT).text, remote.input_schema)
        self.kind = ToolKind.READ if remote.read_only else ToolKind.OTHER
        self.changes_things = not remote.read_only
        self._agreements = agreements

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`. The arguments are the server's to judge."""
        now = self._now()
        pins = await self._agreements.known(self.server)
        news = news_of(self.server.name, now, pins)
        access = CallServer(
            self.server.name, now.name, definition_of(self.server, now.digest), now.read_only, news.sentence
        )
        run = partial(self._run, now, arguments, context, is_news=bool(news.sentence), is_first=not pins)
        return PreparedCall(title_of(self.server, now, arguments), (access,), run, preview=preview_of(now, news))

    def _now(self) -> RemoteTool:
        now = self.server.catalogue.tool(self.remote.name)
        if now is None and self.server.state is ServerState.READY:
            raise NotAvailableError(f"The MCP server {self.server.name} no longer has the tool {self.remote.name}.")
        return now or self.remote

    async def _run(
        self,
        tool: RemoteTool,
        arguments: JsonObject,
        context: ToolContext,
        progress: Progress,
        *,
        is_news: bool,
        is_first: bool,
    ) -> ToolOutcome:
        if is_news:
            # Only now: a call that runs was agreed to. The first agreement is to the server as it is.
            await self._agreements.agree(self.server, self.server.catalogue.tools if is_first else (tool,))
        reply = await asked(self.server.call(tool.name, arguments, Ticker(progress).show, agreed=tool.digest))
        return await outcome_of(reply, context.result_limit)


class Ticker:
    """Shows the progress of a call, no more often than a user can read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._next = 0.0

    async def show(self, line: str) -> None:
        """Show a line, instead of the one before."""
        now = anyio.current_time()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            await self._progress.show((TextContent(line),))


def definition_of(server: Server, digest: str) -> str:
    """The hash of what is agreed to: this program or address, and this definition."""
    return sha256_hex(f"{server.identity}{digest}".encode())


def title_of(server: Server, tool: RemoteTool, arguments: JsonObject) -> str:
    """Describe the call, with its arguments: some clients show nothing else when they ask."""
    shown = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return one_line(f"{server.name}: {tool.title or tool.name} {shown}".strip(), 200)


def preview_of(tool: RemoteTool, news: News) -> tuple[ToolContent, ...]:
    """Show the news of a tool: the difference, or its definition if it was never agreed to."""
    if not news.sentence:
        return ()
    if news.before:
        return (TextContent(f"{news.sentence}\n\n{fenced(short_diff(news.before, tool.definition), 'diff')}"),)
    return (TextContent(f"{news.sentence}\n\n{fenced(cut_middle(tool.definition, SHOWN_LIMIT).text)}"),)


async def outcome_of(reply: Reply, limit: int) -> ToolOutcome:
    """A server's reply for the model and the user. It is data, whatever it says (invariant 8).

    Images are made such as models take: one that is damaged would have every later request refused.
    """
    images, problems = await usable_images(reply.images)
    text = "\n".join(line for line in (reply.text, *problems) if line)
    if not text and not images:
        text = "(no content)"
    cut = cut_middle(text, limit)
    texts = (TextContent(fenced(cut_middle(text, SHOWN_LIMIT).text)),) if text else ()
    return ToolOutcome(
        cut.text,
        is_error=reply.is_error,
        content=(*texts, *(ImageContent(image.media_type, image.data) for image in images)),
        images=images,
        full_output=text if cut.bytes_cut else "",
        origin=Origin.MCP,
    )


async def usable_images(images: Sequence[ImagePart]) -> tuple[tuple[ImagePart, ...], list[str]]:
    """The images that can be looked at, and a sentence for each of the others."""
    usable: list[ImagePart] = []
    problems: list[str] = []
    for image in images:
        try:
            usable.append(await image_of_base64(image.data, image.name))
        except ImageError as error:
            problems.append(f"({error.sentence})")
    return tuple(usable), problems


async def asked(question: Awaitable[Reply]) -> Reply:
    """The reply of a server. Raises ToolFailedError where there is none, and why."""
    try:
        return await question
    except ServerError as error:
        raise ToolFailedError(error.sentence, failure_code=error.failure_code) from error


FOUND = 8
"""Tools that one search describes."""

LISTED_RESOURCES = 100
READ_RESOURCES = "resources/read"
"""The name of a permission for a server's resources, in MCP's own word."""


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
            raise ToolInputError(f"There is no tool {name[:80]!r} of an MCP server", advice="find it by mcp_search.")
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
        advice = 'Send {"tool": the name that mcp_search gave, "arguments": {…} as its schema wants them}.'
        raise ToolInputError("`tool` is no name, or `arguments` is no object.", advice=advice)
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
    """Return the name, description and arguments of a tool."""
    now: RemoteTool = tool.server.catalogue.tool(tool.remote.name) or tool.remote
    schema = json.dumps(now.input_schema, ensure_ascii=False)
    return f"{tool.spec.name}: {now.description or now.name}\narguments: {schema}"


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
        """The tools of each server when the prompt was fixed: digests by tool."""
        self.kept: dict[str, tuple[RemoteTool, ...]] = {}
        """The tools with which the session continues of a server that may have others by now, by its name."""

    @property
    def is_fixed(self) -> bool:
        """True once the first prompt has fixed the tools in it."""
        return self._fixed is not None

    def fix(self) -> None:
        """Decide what is in the prompt, from what is known now; later calls change nothing."""
        if self._fixed is not None:
            return
        listed = self.tools()
        self._digests = {server.name: self._digests_of(server) for server in self._servers.ready}
        searching: list[Tool] = [McpSearch(self.tools, self._lines()), McpCall(self.tools)]
        reading: list[Tool] = []
        if any(server.catalogue.resources for server in self._servers.ready):
            reading.append(McpReadResource(self._servers, self._agreements))
        growing = searching if any(_may_grow(server) for server in self._servers.servers) else []
        whole = [*listed, *growing, *reading]
        is_whole = len(self._own) + len(whole) <= TOOL_LIMIT
        self._fixed = tuple(whole if is_whole else [*searching, *reading])

    def fix_anew(self) -> None:
        """Put into the prompt what servers offer now, instead of what was stored."""
        self.kept.clear()
        self._tools.clear()
        self._fixed = None
        self.fix()

    def offered(self, *, mode_is_plan: bool) -> tuple[Tool, ...]:
        """The tools in the prompt. In plan mode those that only read, and mcp_call, where policy looks at each call."""
        fixed = self._fixed
        if not fixed:
            return ()
        return tuple(tool for tool in fixed if not mode_is_plan or not tool.changes_things or isinstance(tool, McpCall))

    def callable(self) -> tuple[Tool, ...]:
        """Every tool that a call may name, also those outside the prompt."""
        if not self._tools and not self._fixed:
            return ()
        others = [tool for tool in self._fixed or () if not isinstance(tool, ServerTool)]
        return (*self._tools.values(), *others)

    def tools(self) -> tuple[ServerTool, ...]:
        """The tools of all servers that answer now."""
        serves = self._servers.files
        now = [
            (server, tool)
            for server in self._servers.ready
            for tool in self._in_force(server)
            # The user's files are read and written with our own tools, through it.
            if server is not serves or tool.files is None
        ]
        fresh = [(server, tool) for server, tool in now if (server.name, tool.name) not in self._tools]
        taken = (*self._own, *(tool.spec.name for tool in self._tools.values()))
        names = tool_names([(server.name, tool.name) for server, tool in fresh], taken)
        for (server, tool), name in zip(fresh, names, strict=True):
            self._tools.setdefault((server.name, tool.name), ServerTool(server, tool, name, self._agreements))
        seen = {(server.name, tool.name): None for server, tool in now}
        return tuple(self._tools[key] for key in seen)

    def _in_force(self, server: Server) -> Sequence[RemoteTool]:
        # By name: some servers list them in another order at each start, and a prompt is cached to the byte.
        return sorted(self.kept.get(server.name, server.catalogue.tools), key=attrgetter("name"))

    def _digests_of(self, server: Server) -> dict[str, str]:
        return {tool.name: tool.digest for tool in self._in_force(server)}

    def notes(self) -> tuple[str, ...]:
        """The changes since the prompt was fixed, for the part of a request that may change."""
        if self._fixed is None or not self._servers.servers:
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
        now = self._digests_of(server)
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


def _line(server: Server) -> str:
    if server.state is not ServerState.READY:
        return f"- {server.name}: still starting"
    tools = server.catalogue.tools
    about = server.catalogue.instructions or _some(tools)
    return f"- {server.name}: {plural(len(tools), 'tool')}. {one_line(about, 160)}"


def _some(tools: Sequence[RemoteTool]) -> str:
    return ", ".join(tool.name for tool in tools[:6])
