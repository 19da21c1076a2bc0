"""A live server, through the official `mcp` package.

Owns: the handshake, the lists, calls with progress and cancel, and the sentences about failures. Must not know:
restarts, or how the server is reached.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from pattern_acp import __version__
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.mcp_servers.catalogue import (
    CannotStartError,
    Catalogue,
    FileUse,
    HttpRefusedError,
    LaunchContext,
    LoginWantedError,
    PromptArgument,
    RemotePrompt,
    RemoteResource,
    RemoteTool,
    Reply,
    Report,
    ServerError,
    SessionForgottenError,
)
from pattern_acp.mcp_servers.listing import (
    call_reply,
    named_arguments,
    own_names,
    plain_arguments,
    prompt_text,
    read_reply,
)
from pattern_acp.mcp_servers.transports import HttpRefusal, ServerStreams, open_streams, refusal_of


def tool_of(tool: types.Tool) -> RemoteTool:
    """Convert a listed tool, whose schema was already repaired (`listing`)."""
    notes = tool.annotations
    title = tool.title or (notes.title if notes is not None else None) or ""
    read_only = notes is not None and notes.read_only_hint is True
    repeatable = read_only or (notes is not None and notes.idempotent_hint is True)
    schema = plain_arguments(tool.input_schema)
    files = _file_use(tool, read_only=read_only)
    return RemoteTool(tool.name, tool.description or "", schema, title, read_only, repeatable, files)


_FILE_ARGUMENTS: Mapping[FileUse, frozenset[str]] = {
    "read": frozenset({"path"}),
    "write": frozenset({"path", "content"}),
}

_FILE_NAMES: Mapping[str, FileUse] = {"read_text_file": "read", "write_text_file": "write"}
"""The names of ACP's own methods, behind `fs/` or alone."""


def _file_use(tool: types.Tool, *, read_only: bool) -> FileUse | None:
    """The use of a tool for the text files of an editor, by its `_meta`, or by its name and annotations."""
    arguments = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    own = (tool.meta or {}).get("pattern")
    said = cast("Mapping[str, object]", own).get("files") if isinstance(own, Mapping) else None
    named = _FILE_NAMES.get(tool.name.removeprefix("fs/")) if tool.annotations is not None else None
    for use, wanted in _FILE_ARGUMENTS.items():
        takes = isinstance(arguments, Mapping) and wanted <= arguments.keys()
        needs_no_more = not isinstance(required, Sequence) or set(cast("Sequence[object]", required)) <= wanted
        if takes and needs_no_more and (said == use or (named == use and read_only is (use == "read"))):
            return use
    return None


def prompt_of(prompt: types.Prompt) -> RemotePrompt:
    """Convert a listed prompt."""
    arguments = tuple(PromptArgument(item.name, item.required is True) for item in prompt.arguments or ())
    return RemotePrompt(prompt.name, prompt.description or prompt.title or "", arguments)


def resource_of(resource: types.Resource) -> RemoteResource:
    """Convert a listed resource."""
    return RemoteResource(resource.uri, resource.name, resource.description or "", resource.mime_type or "")


logger = logging.getLogger(__name__)

SILENCE_SECONDS = 300.0
"""Longest time of a call without an answer or progress."""

LONGEST_CALL_SECONDS = 3_600.0
"""Longest time of a call despite progress; a server that reports it for ever would block the turn."""

LIST_SECONDS = 30.0
RETRIES = 2
"""Number of retries after a server was too busy."""

RETRY_SECONDS = 1.0
"""Delay before the first retry, and twice that before the second, unless the server says how long."""

LONGEST_RETRY_SECONDS = 20.0
"""Longest delay that a server may ask for; beyond it, the caller gets an error."""

PAGES = 50
"""Limit on pages of one list; a list without an end is cut there."""

_CHANGES = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)

T = TypeVar("T")

_Page: TypeAlias = tuple[dict[str, T], str | None]
"""Entries by their names, and the cursor of the next page."""


class CallLimits(Struct, frozen=True):
    """Time limits for a tool call, in seconds."""

    silence: float = SILENCE_SECONDS
    longest: float = LONGEST_CALL_SECONDS


_USUAL = CallLimits()


class McpConnection:
    """`LiveConnection` over a session of the `mcp` package."""

    def __init__(self, name: str, session: ClientSession, streams: ServerStreams, limits: CallLimits = _USUAL) -> None:
        self._name = name
        self._limits = limits
        self._session = session
        self._link = streams
        self._forgotten = False
        self._own_names: dict[str, dict[str, str]] = {}
        """The server's own names of tool arguments that have another name here."""
        self._repeatable: frozenset[str] = frozenset()
        """Tools of which the server says that a second call changes nothing more."""

    @property
    def forgotten(self) -> bool:
        """See `LiveConnection.forgotten`."""
        refusal = self._link.refusal
        return self._forgotten or (refusal is not None and refusal.forgot_session)

    @property
    def ended(self) -> anyio.Event:
        """See `LiveConnection.ended`."""
        return self._link.ended

    async def catalogue(self) -> Catalogue:
        """See `LiveConnection.catalogue`. A list that a server promises and does not send stays empty."""
        offered = self._session.server_capabilities or types.ServerCapabilities()
        left_out = self._link.sieve.left_out = {}
        tools = await self._pages(self._tools) if offered.tools is not None else {}
        prompts = await self._pages_or_none(self._prompts) if offered.prompts is not None else {}
        resources = await self._pages_or_none(self._resources) if offered.resources is not None else {}
        self._repeatable = frozenset(tool.name for tool in tools.values() if tool.repeatable)
        return Catalogue(
            tuple(tools.values()),
            tuple(prompts.values()),
            tuple(resources.values()),
            self._session.instructions or "",
            may_change=offered.tools is not None and offered.tools.list_changed is True,
            left_out=tuple(left_out),
        )

    async def call(self, tool: str, arguments: JsonObject, report: Report) -> Reply:
        """See `LiveConnection.call`."""
        last = anyio.current_time() + self._limits.longest
        with anyio.CancelScope(deadline=anyio.current_time() + self._limits.silence) as silence:

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                silence.deadline = min(anyio.current_time() + self._limits.silence, last)
                await report(progress_line(progress, total, message))

            async def ask() -> Reply:
                named = cast("dict[str, object]", named_arguments(arguments, self._own_names.get(tool, {})))
                result = await self._session.call_tool(tool, named, progress_callback=progress)
                return call_reply(result)

            return await self._explained(ask, repeatable=tool in self._repeatable)
        if silence.deadline >= last:
            raise ServerError(
                f"The MCP server {self._name} took longer than {self._limits.longest:,.0f} s; the call was abandoned."
            )
        raise ServerError(
            f"The MCP server {self._name} was silent for {self._limits.silence:.0f} s; the call was abandoned."
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
        """Agree on a version, first with the handshake that most servers know; only newer servers do without it.

        Raises:
            ServerError: it does not speak MCP, or is gone.
        """
        try:
            await self._patient(
                self._session.discover if self._link.is_new else self._session.initialize, repeatable=True
            )
        except MCPError as error:
            refusal = self._refusal(error)
            if refusal is not None and refusal.concerns_login:
                kind = LoginWantedError if refusal.wants_login else CannotStartError
                raise kind(refusal.why) from error
            if self._link.ended.is_set() or (refusal is not None and refusal.may_pass(repeatable=True)):
                raise ServerError(self._reason(error)) from error
            await self._explained(self._session.discover)
        except (ValueError, RuntimeError) as error:
            raise ServerError("it does not speak MCP as this version does") from error
        self._link.sieve.version = self._session.protocol_version or self._link.sieve.version

    async def _tools(self, params: types.PaginatedRequestParams) -> _Page[RemoteTool]:
        page = await self._session.list_tools(params=params)
        self._own_names |= {tool.name: own_names(tool.input_schema) for tool in page.tools}
        return {tool.name: tool_of(tool) for tool in page.tools}, page.next_cursor

    async def _prompts(self, params: types.PaginatedRequestParams) -> _Page[RemotePrompt]:
        page = await self._session.list_prompts(params=params)
        return {prompt.name: prompt_of(prompt) for prompt in page.prompts}, page.next_cursor

    async def _resources(self, params: types.PaginatedRequestParams) -> _Page[RemoteResource]:
        page = await self._session.list_resources(params=params)
        return {resource.uri: resource_of(resource) for resource in page.resources}, page.next_cursor

    async def _pages(self, ask: Callable[[types.PaginatedRequestParams], Awaitable[_Page[T]]]) -> dict[str, T]:
        """Collect all entries of a list, each once. Only a cursor that is missing, or repeats, ends it."""
        found: dict[str, T] = {}
        cursor: str | None = None
        asked: set[str | None] = set()
        while cursor not in asked and len(asked) < PAGES:
            asked.add(cursor)
            params = types.PaginatedRequestParams(cursor=cursor)
            try:
                page, cursor = await self._within(LIST_SECONDS, lambda params=params: ask(params))
            except ServerError as error:
                if cursor is None or isinstance(error, SessionForgottenError):
                    raise
                # A partial list is worth more than none; some servers end a list by an empty cursor that they refuse.
                if cursor:
                    self._link.sieve.left_out[f"what followed in a list of {len(found)} ({error.sentence})"] = None
                break
            found |= {key: item for key, item in page.items() if key not in found}
            if cursor is None:
                break
        return found

    async def _pages_or_none(self, ask: Callable[[types.PaginatedRequestParams], Awaitable[_Page[T]]]) -> dict[str, T]:
        try:
            return await self._pages(ask)
        except SessionForgottenError:
            raise
        except ServerError as error:
            logger.info("A list could not be had. %s", error)
            return {}

    async def _within(self, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with anyio.fail_after(seconds):
                return await self._explained(ask, repeatable=True)
        except TimeoutError as error:
            raise ServerError(f"The MCP server {self._name} did not answer within {seconds:.0f} s.") from error

    async def _patient(self, ask: Callable[[], Awaitable[T]], *, repeatable: bool) -> T:
        """Ask, and ask again if the server is too busy to begin, or if asking twice changes nothing more."""
        for attempt in range(1, RETRIES + 1):
            try:
                return await ask()
            except MCPError as error:
                refusal = refusal_of(error)
                if refusal is None or not refusal.may_pass(repeatable=repeatable):
                    raise
                wait = RETRY_SECONDS * attempt if refusal.retry_after is None else refusal.retry_after
                if wait > LONGEST_RETRY_SECONDS:
                    raise
                await anyio.sleep(wait)
        return await ask()

    async def _explained(self, ask: Callable[[], Awaitable[T]], *, repeatable: bool = False) -> T:
        try:
            return await self._patient(ask, repeatable=repeatable)
        except MCPError as error:
            refusal, why = self._refusal(error), self._reason(error)
            sentence = f"The MCP server {self._name} could not do it: {why}."
            if refusal is None:
                raise ServerError(sentence) from error
            if refusal.forgot_session:
                # Streamable HTTP has no connection that could break; this is how a server reports an unknown session.
                self._forgotten = True
                self._link.ended.set()
                raise SessionForgottenError(sentence) from error
            raise HttpRefusedError(sentence, why, wants_login=refusal.wants_login) from error
        except (ValueError, RuntimeError) as error:
            effect = "" if repeatable else "; the call may have taken effect"
            raise ServerError(
                f"The answer of the MCP server {self._name} does not have the form that it promised{effect}."
            ) from error

    def _refusal(self, error: MCPError) -> HttpRefusal | None:
        return refusal_of(error) or (self._link.refusal if self._link.ended.is_set() else None)

    def _reason(self, error: MCPError) -> str:
        refusal = self._refusal(error)
        if refusal is not None:
            return refusal.why
        # The package's code for it, -32000, is one that servers use for other errors as well.
        if error.code != types.CONNECTION_CLOSED or not self._link.ended.is_set():
            return " ".join(error.message.split()).rstrip(".")[:500]
        program = self._link.program
        words = program.last_line if program is not None else ""
        return f"it ended; its last words were: {words}" if words else "it ended"


@asynccontextmanager
async def connect(
    settings: McpServerSettings, launch: LaunchContext, on_change: Callable[[], None]
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
            open_streams(settings, launch) as streams,
            ClientSession(streams.reading, streams.writing, message_handler=note, client_info=info) as session,
        ):
            connection = McpConnection(settings.name, session, streams)
            await connection.greet()
            yield connection
    except ExceptionGroup as group:
        raise _first_reason(group) from group
    except (OSError, httpx2.HTTPError) as error:
        raise _not_reached(error) from error


def _first_reason(group: ExceptionGroup[Exception]) -> Exception:
    """Return the one error behind a group of the package's tasks, converted to ours if it is the network's."""
    leaves = list(_leaves(group))
    for leaf in leaves:
        if isinstance(leaf, ServerError):
            return leaf
    for leaf in leaves:
        if isinstance(leaf, OSError | httpx2.HTTPError):
            return _not_reached(leaf)
    return leaves[0]


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(cast("ExceptionGroup[Exception]", error))
        else:
            yield error


def _not_reached(error: OSError | httpx2.HTTPError) -> ServerError:
    wants_login = isinstance(error, httpx2.HTTPStatusError) and HttpRefusal(error.response.status_code).wants_login
    return (LoginWantedError if wants_login else ServerError)(unreachable(error))


def unreachable(error: OSError | httpx2.HTTPError) -> str:
    """The reason why a server cannot be reached, as the end of a sentence; never the address, which may carry a key."""
    if isinstance(error, httpx2.HTTPStatusError):
        return HttpRefusal(error.response.status_code).why
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be reached ({error.strerror})"
    return "it cannot be reached"


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """The progress of a call in one line."""
    share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
    return f"{share}: {' '.join(message.split())}" if message else share
