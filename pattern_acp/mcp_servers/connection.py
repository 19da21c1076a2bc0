"""A live server, through the official `mcp` package.

Owns: the handshake, the lists, calls with progress and cancel, and the sentences for what goes wrong. Must not know:
restarts, or how the server is reached.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError

from pattern_acp import __version__
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.mcp_servers.catalogue import Catalogue, Reply, Report
from pattern_acp.mcp_servers.errors import ServerError
from pattern_acp.mcp_servers.replies import call_reply, prompt_of, prompt_text, read_reply, resource_of, tool_of
from pattern_acp.mcp_servers.server import Place
from pattern_acp.mcp_servers.transports import Link, link_to

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 300.0
"""Longest that a call may go without an answer or a word of progress."""

LONGEST_CALL_SECONDS = 3_600.0
"""Longest that a call may take whatever progress it tells; a server that counts on for ever would hold the turn."""

LIST_SECONDS = 30.0
PAGES = 50
"""Most pages of one list; a server whose list has no end is cut there."""

_CHANGES = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long a call of a tool may take, in seconds."""

    silence: float = SILENCE_SECONDS
    longest: float = LONGEST_CALL_SECONDS


_USUAL = CallLimits()


class McpConnection:
    """`LiveConnection` over a session of the `mcp` package."""

    def __init__(self, name: str, session: ClientSession, link: Link, limits: CallLimits = _USUAL) -> None:
        self._name = name
        self._limits = limits
        self._session = session
        self._link = link

    @property
    def ended(self) -> anyio.Event:
        """See `LiveConnection.ended`."""
        return self._link.ended

    async def catalogue(self) -> Catalogue:
        """See `LiveConnection.catalogue`. A list that a server promises and does not give is left empty."""
        offered = self._session.server_capabilities or types.ServerCapabilities()
        tools = await self._pages(self._tools) if offered.tools is not None else []
        prompts = await self._pages_or_none(self._prompts) if offered.prompts is not None else []
        resources = await self._pages_or_none(self._resources) if offered.resources is not None else []
        return Catalogue(
            tuple(tool_of(tool) for tool in tools),
            tuple(prompt_of(prompt) for prompt in prompts),
            tuple(resource_of(resource) for resource in resources),
            self._session.instructions or "",
            may_change=offered.tools is not None and offered.tools.list_changed is True,
        )

    async def call(self, tool: str, arguments: JsonObject, report: Report) -> Reply:
        """See `LiveConnection.call`."""
        last = anyio.current_time() + self._limits.longest
        with anyio.CancelScope(deadline=anyio.current_time() + self._limits.silence) as silence:

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                silence.deadline = min(anyio.current_time() + self._limits.silence, last)
                await report(progress_line(progress, total, message))

            async def ask() -> Reply:
                result = await self._session.call_tool(tool, dict(arguments), progress_callback=progress)
                return call_reply(result)

            return await self._explained(ask)
        if silence.deadline >= last:
            raise ServerError(
                f"The MCP server {self._name} took longer than {self._limits.longest:,.0f} s; the call was given up."
            )
        raise ServerError(
            f"The MCP server {self._name} was silent for {self._limits.silence:.0f} s; the call was given up."
        )

    async def read(self, uri: str) -> Reply:
        """See `LiveConnection.read`."""

        async def ask() -> Reply:
            return read_reply(await self._session.read_resource(uri))

        return await self._within(SILENCE_SECONDS, ask)

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """See `LiveConnection.prompt`."""

        async def ask() -> str:
            return prompt_text(await self._session.get_prompt(name, dict(arguments)))

        return await self._within(LIST_SECONDS, ask)

    async def greet(self) -> None:
        """Agree on a version. The handshake that every server knows comes first; only newer ones do without it.

        Raises:
            ServerError: it does not speak MCP, or is gone.
        """
        try:
            await self._session.initialize()
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise ServerError(self._reason(error)) from error
            await self._explained(self._session.discover)
        except (ValueError, RuntimeError) as error:
            raise ServerError("it does not speak MCP as this version does") from error

    async def _tools(self, params: types.PaginatedRequestParams) -> tuple[list[types.Tool], str | None]:
        page = await self._session.list_tools(params=params)
        return page.tools, page.next_cursor

    async def _prompts(self, params: types.PaginatedRequestParams) -> tuple[list[types.Prompt], str | None]:
        page = await self._session.list_prompts(params=params)
        return page.prompts, page.next_cursor

    async def _resources(self, params: types.PaginatedRequestParams) -> tuple[list[types.Resource], str | None]:
        page = await self._session.list_resources(params=params)
        return page.resources, page.next_cursor

    async def _pages(
        self, ask: Callable[[types.PaginatedRequestParams], Awaitable[tuple[list[T], str | None]]]
    ) -> list[T]:
        items: list[T] = []
        cursor: str | None = None
        for _ in range(PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page, cursor = await self._within(LIST_SECONDS, lambda params=params: ask(params))
            items += page
            if not cursor:
                break
        return items

    async def _pages_or_none(
        self, ask: Callable[[types.PaginatedRequestParams], Awaitable[tuple[list[T], str | None]]]
    ) -> list[T]:
        try:
            return await self._pages(ask)
        except ServerError as error:
            logger.info("A list could not be had. %s", error)
            return []

    async def _within(self, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with anyio.fail_after(seconds):
                return await self._explained(ask)
        except TimeoutError as error:
            raise ServerError(f"The MCP server {self._name} did not answer within {seconds:.0f} s.") from error

    async def _explained(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except MCPError as error:
            if error.message == "Session terminated":
                # Streamable HTTP has no connection that could break; this is how a server that forgot us says so.
                self._link.ended.set()
            raise ServerError(f"The MCP server {self._name} could not do it: {self._reason(error)}.") from error
        except (ValueError, RuntimeError) as error:
            raise ServerError(
                f"The answer of the MCP server {self._name} does not have the form that it promised."
            ) from error

    def _reason(self, error: MCPError) -> str:
        if error.code != types.CONNECTION_CLOSED:
            return " ".join(error.message.split()).rstrip(".")[:500]
        program = self._link.program
        words = program.last_line if program is not None else ""
        return f"it ended; its last words were: {words}" if words else "it ended"


@asynccontextmanager
async def connect(
    settings: McpServerSettings, place: Place, on_change: Callable[[], None]
) -> AsyncGenerator[McpConnection, None]:
    """`server.Connect` of the `mcp` package.

    Raises:
        ServerError: it cannot be reached, ended, or does not speak MCP.
    """

    async def note(message: IncomingMessage) -> None:
        if isinstance(message, _CHANGES):
            on_change()

    info = types.Implementation(name="pattern-acp", version=__version__)
    try:
        async with (
            link_to(settings, place) as link,
            ClientSession(link.reading, link.writing, message_handler=note, client_info=info) as session,
        ):
            connection = McpConnection(settings.name, session, link)
            await connection.greet()
            yield connection
    except ExceptionGroup as group:
        raise _first_reason(group) from group
    except (OSError, httpx2.HTTPError) as error:
        raise ServerError(unreachable(error)) from error


def _first_reason(group: ExceptionGroup[Exception]) -> Exception:
    """The one error behind a group of the package's tasks, as ours where it is the network's."""
    leaves = list(_leaves(group))
    for leaf in leaves:
        if isinstance(leaf, ServerError):
            return leaf
    for leaf in leaves:
        if isinstance(leaf, OSError | httpx2.HTTPError):
            return ServerError(unreachable(leaf))
    return leaves[0]


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(cast("ExceptionGroup[Exception]", error))
        else:
            yield error


def unreachable(error: OSError | httpx2.HTTPError) -> str:
    """Why a server cannot be reached, as the end of a sentence; never the address, which may carry a key."""
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with HTTP status {error.response.status_code}"
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be reached ({error.strerror})"
    return "it cannot be reached"


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """How far a call is, in a line."""
    share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
    return f"{share}: {' '.join(message.split())}" if message else share
