"""Tools of MCP servers, as tools of ours.

Owns: how a call to a server is shown, what policy is told of it, and how its reply is cut. Must not know: how servers
are started, or where agreements are kept.
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Protocol

import anyio

from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import ImageContent, TextContent, ToolContent, ToolKind
from pattern_acp.mcp_servers.catalogue import RemoteTool, Reply
from pattern_acp.mcp_servers.errors import ServerError
from pattern_acp.mcp_servers.pins import News, Pin, news_of
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.policy.access import CallServer
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import NotAvailableError, PreparedCall, Progress, ToolContext, ToolFailedError, ToolOutcome
from pattern_acp.tools.text_limits import cut_middle, fenced, one_line, short_diff
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import image_of_base64

DESCRIPTION_LIMIT = 1500
"""Characters of a description that the model reads; the person is shown all of a changed one."""

SHOWN_LIMIT = 4000
"""Characters of a reply that the person is shown in the call."""

PROGRESS_SECONDS = 0.1
"""Between two lines of progress that are shown."""


class Agreements(Protocol):
    """What the person agreed to of servers' tools."""

    async def known(self, server: Server) -> Mapping[str, Pin]:
        """The tools agreed to, by name; empty before the first use."""
        ...

    async def agree(self, server: Server, tools: Sequence[RemoteTool]) -> None:
        """Record that the person agreed to tools as they are now."""
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
    """Shows the progress of a call, not oftener than a person can read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._next = 0.0

    async def show(self, line: str) -> None:
        """Show a line, in place of the one before."""
        now = anyio.current_time()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            await self._progress.show((TextContent(line),))


def definition_of(server: Server, digest: str) -> str:
    """The hash of what is agreed to: this program or address, and this definition."""
    return sha256_hex(f"{server.identity}{digest}".encode())


def title_of(server: Server, tool: RemoteTool, arguments: JsonObject) -> str:
    """What the call does, with its arguments: some clients show nothing else when they ask."""
    shown = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return one_line(f"{server.name}: {tool.title or tool.name} {shown}".strip(), 200)


def preview_of(tool: RemoteTool, news: News) -> tuple[ToolContent, ...]:
    """What is new about a tool: the difference, or its definition when it was never agreed to."""
    if not news.sentence:
        return ()
    if news.before:
        return (TextContent(f"{news.sentence}\n\n{fenced(short_diff(news.before, tool.definition), 'diff')}"),)
    return (TextContent(f"{news.sentence}\n\n{fenced(cut_middle(tool.definition, SHOWN_LIMIT).text)}"),)


async def outcome_of(reply: Reply, limit: int) -> ToolOutcome:
    """A server's reply for the model and the person. It is data, whatever it says (invariant 8).

    Images are made such as models take: one that is damaged would have every later request refused.
    """
    images, problems = await usable_images(reply.images)
    text = "\n".join(line for line in (reply.text, *problems) if line)
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
    """The reply of a server.

    Raises:
        ToolFailedError: there is none, and why.
    """
    try:
        return await question
    except ServerError as error:
        raise ToolFailedError(error.sentence, failure_code=error.failure_code) from error
