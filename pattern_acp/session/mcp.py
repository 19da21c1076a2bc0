"""MCP servers of a session.

Owns: waiting for them before the first prompt, notices about them, the user's agreements, and their prompts
as slash commands. Must not know: how servers are started or called.
"""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Column, Result, Table, as_result
from pattern_acp.db.connection import Database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.action_lines import split_action
from pattern_acp.domain.messages import Message, ResourcePart
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.journal.events import PinnedTool, ServerToolsPinned
from pattern_acp.mcp_servers.catalogue import (
    FileTools,
    Pin,
    RemotePrompt,
    RemoteTool,
    clean,
    load_pins,
    pin_of,
    typed_names,
)
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.tools.mcp_toolbox import McpToolbox
from pattern_acp.turn.recorder import NewEvent, TurnRecorder

FIRST_PROMPT_SECONDS = 3.0
"""Longest that the first prompt waits for servers (issue 4, section 1; peers took up to 192 s, copilot-cli#4678)."""

TOOLS_SHOWN = 20
"""Tools of one server that /mcp names."""

SHOWN_CELL = 200
"""Characters of a state, or of what was left out, that /mcp shows."""

LEFT_OUT_SHOWN = 5
"""Entries of servers' lists that a notice names at most; /mcp names all."""


SignIn = Callable[[Server], Awaitable[bool]]
"""Asks the user whether to sign in at a server, and does it; whether that came to an end."""


class ServerCommand(Struct, frozen=True):
    """A server's prompt as a slash command, as it is advertised."""

    name: str
    description: str
    usage: str


class RecordedAgreements:
    """`tools.mcp_tools.Agreements` in the constellation: they outlive the session, unlike what is allowed always."""

    def __init__(self, database: Database, recorder: TurnRecorder) -> None:
        self._database = database
        self._recorder = recorder

    async def known(self, server: Server) -> Mapping[str, Pin]:
        """See `Agreements.known`."""
        return await self._database.read(lambda tx: load_pins(tx, server.name, server.identity))

    async def agree(self, server: Server, tools: Sequence[RemoteTool]) -> None:
        """See `Agreements.agree`."""
        pins = [pin_of(tool) for tool in tools]
        pinned = tuple(PinnedTool(pin.tool, pin.digest, pin.definition) for pin in pins)
        event = ServerToolsPinned(server.name, server.identity, pinned)
        await self._recorder.record(NewEvent(event, Actor.HUMAN, Origin.PERSON))


class SessionMcp:
    """The servers of one session."""

    def __init__(self, servers: SessionServers, toolbox: McpToolbox) -> None:
        self.servers = servers
        self.toolbox = toolbox
        self._told: set[str] = set()
        """Servers of which the user knows that they are not used."""
        self._late: set[str] = set()
        """Servers of which the user knows that they are not ready yet."""
        self._restarts_told = 0
        self._waited_for_files = False
        self._declined: set[str] = set()
        """Servers at which the user did not sign in when they were asked."""
        self._left_out_told: set[tuple[str, str]] = set()
        """Offers of servers that we leave out and have reported to the user."""

    async def get_ready(self, sign_in: SignIn) -> tuple[str, ...]:
        """Collect notices for the user before this turn; the first time, wait for servers and fix the prompt's tools.

        One sentence names all that are missing, so that nobody wonders where a tool is. `sign_in` asks about servers
        that want a login, each once a session.
        """
        if self.toolbox.is_fixed:
            if not self.servers.servers:
                return ()
            await self._offer(sign_in)
            return self._news()
        if not self._waited_for_files:
            await self.servers.wait_settled(FIRST_PROMPT_SECONDS)
        await self._offer(sign_in)
        self.toolbox.fix()
        missing = [f"{server.name} ({self._why(server)})" for server in self.servers.servers if not is_ready(server)]
        told = (f"MCP servers that are missing: {', '.join(missing)}. /mcp shows all.",) if missing else ()
        return (*told, *self._left_out())

    async def file_server(self, *, may_wait: bool) -> tuple[Server, FileTools] | None:
        """Return the server by which the client serves files, if it brought one; waits for it the first time."""
        if not self.servers.may_serve_files:
            return None
        if may_wait and not self._waited_for_files:
            self._waited_for_files = True
            await self.servers.wait_settled(FIRST_PROMPT_SECONDS)
        server = self.servers.files
        tools = None if server is None else server.catalogue.files
        return None if server is None or tools is None else (server, tools)

    async def _offer(self, sign_in: SignIn) -> None:
        for server in self.servers.servers:
            if server.offers_login and server.name not in self._declined and not await sign_in(server):
                self._declined.add(server.name)

    def _left_out(self) -> tuple[str, ...]:
        """A sentence for what was left out of the lists of servers and not told yet."""
        found = [(server.name, what) for server in self.servers.ready for what in server.catalogue.left_out]
        fresh = [one for one in found if one not in self._left_out_told]
        self._left_out_told.update(fresh)
        if not fresh:
            return ()
        shown = "; ".join(f"{one_line(name, 40)}: {one_line(what, 200)}" for name, what in fresh[:LEFT_OUT_SHOWN])
        more = f"; and {len(fresh) - LEFT_OUT_SHOWN} more" if len(fresh) > LEFT_OUT_SHOWN else ""
        return (f"Left out of what MCP servers offer, since it cannot be used: {shown}{more}. /mcp shows all.",)

    def _why(self, server: Server) -> str:
        if server.state is not ServerState.FAILED:
            self._late.add(server.name)
            return "not ready yet"
        self._told.add(server.name)
        return server.problem

    def _news(self) -> tuple[str, ...]:
        news: list[str] = []
        restarts = sum(server.restarts for server in self.servers.servers)
        again = [server.name for server in self.servers.ready if server.restarts]
        if restarts > self._restarts_told and again:
            news.append(f"MCP servers that ended and were started again: {', '.join(again)}.")
            self._restarts_told = restarts
        failed = [server for server in self.servers.servers if server.state is ServerState.FAILED]
        fresh = [server for server in failed if server.name not in self._told]
        late = [f"{server.name} ({self._why(server)})" for server in fresh if server.name in self._late]
        gone = [f"{server.name} ({self._why(server)})" for server in fresh if server.name not in self._late]
        if late:
            news.append(f"MCP servers that did not start: {', '.join(late)}.")
        if gone:
            news.append(f"MCP servers that are not used any more: {', '.join(gone)}.")
        return (*news, *self._left_out())

    def commands(self) -> tuple[ServerCommand, ...]:
        """The prompts of the servers that answer now."""
        if not self.servers.servers:
            return ()
        return tuple(
            ServerCommand(name, one_line(prompt.description or prompt.name, 200), hint_of(prompt))
            for name, (_, prompt) in self._prompts().items()
        )

    def _prompts(self) -> dict[str, tuple[Server, RemotePrompt]]:
        prompts = [(server, prompt) for server in self.servers.ready for prompt in server.catalogue.prompts]
        names = typed_names([(server.name, prompt.name) for server, prompt in prompts])
        return dict(zip(names, prompts, strict=True))

    async def expanded(self, message: Message) -> Message:
        """The message with the text of the server's prompt that it names; any other message as it is.

        The text comes as a resource: it is the server's, chosen by the user (invariant 8).

        Raises:
            ServerError: the server could not give it.
        """
        typed = message.typed_line
        command = split_action(typed.strip())
        if command is None or ":" not in command[0] or not self.servers.servers:
            return message
        await self.servers.wait_settled(FIRST_PROMPT_SECONDS)
        found = self._prompts().get(command[0])
        if found is None:
            return message
        server, prompt = found
        text = await server.prompt(prompt.name, arguments_of(prompt, command[1]))
        about = f"The user chose this prompt of the MCP server {server.name}:\n\n{text}"
        resource = ResourcePart(f"mcp://{clean(server.name, 24)}/prompts/{clean(prompt.name, 40)}", prompt.name, about)
        return replace(message, parts=(*message.parts, resource))

    def summary(self) -> str:
        """Number of servers and their states, for /status; empty when there are none."""
        servers = self.servers.servers
        counts = {state: sum(server.state is state for server in servers) for state in ServerState}
        return ", ".join(f"{count} {state}" for state, count in counts.items() if count)

    def report(self) -> Result:
        """All servers, their state and tools."""
        if not self.servers.servers:
            return as_result(
                "This session has no MCP servers. The editor or config.toml names them: docs/how-to/mcp.md."
            )
        heads = tuple(Column(title, limit=SHOWN_CELL) for title in ("Server", "State", "Offers"))
        lines: list[str] = []
        for server in self.servers.ready:
            names = [tool.spec.name for tool in self.toolbox.tools() if tool.server is server]
            more = f" and {len(names) - TOOLS_SHOWN} more" if len(names) > TOOLS_SHOWN else ""
            lines.append(f"**{server.name}**: " + ", ".join(f"`{name}`" for name in names[:TOOLS_SHOWN]) + more)
            lines += [f"Left out: {one_line(what, SHOWN_CELL)}" for what in server.catalogue.left_out]
        return as_result(Table(heads, tuple(map(cells_of, self.servers.servers))), *lines)


async def run_mcp(mcp: SessionMcp) -> Result:
    """List the MCP servers."""
    return mcp.report()


def is_ready(server: Server) -> bool:
    """True when the server answers now."""
    return server.state is ServerState.READY


def cells_of(server: Server) -> tuple[str, ...]:
    """A server as a row of the table of `/mcp`."""
    state = server.state.value + (f": {server.problem}" if server.problem else "")
    offered = server.catalogue
    offers = [plural(len(offered.tools), "tool"), plural(len(offered.prompts), "prompt")]
    offers.append(plural(len(offered.resources), "resource"))
    shown = ", ".join(offers) if is_ready(server) else ""
    return server.name, f"{state} ({server.settings.transport})", shown


def hint_of(prompt: RemotePrompt) -> str:
    """Hint at the arguments of a prompt's command."""
    return " ".join(
        argument.name.upper() if argument.required else f"[{argument.name.upper()}]" for argument in prompt.arguments
    )


def arguments_of(prompt: RemotePrompt, typed: str) -> dict[str, str]:
    """The arguments in their order; quotes keep words together, and the last one takes the rest."""
    names = [argument.name for argument in prompt.arguments]
    if not names or not typed.strip():
        return {}
    if len(names) == 1:
        return {names[0]: typed.strip()}
    try:
        words = shlex.split(typed)
    except ValueError:
        words = typed.split()
    head, rest = words[: len(names) - 1], words[len(names) - 1 :]
    return dict(zip(names, [*head, *([" ".join(rest)] if rest else [])], strict=False))
