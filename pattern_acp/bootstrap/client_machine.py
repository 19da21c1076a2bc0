"""Does on the machine that has the files what an agent elsewhere cannot: search, lists of files, code map, git status.

Owns: which requests of a server are answered here, and that they only read what the folders of the editor's sessions
have, without credentials. Must not know: connections (`bootstrap.connector`), or how anything is searched (`tools`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.errors import to_rpc_error
from pattern_acp.acp.schema import read_params
from pattern_acp.domain.access import Access, ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId, SystemClock, ToolCallId, TurnId
from pattern_acp.domain.paths import is_within, resolve_path
from pattern_acp.domain.tool_calls import TextContent, ToolContent
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RpcError
from pattern_acp.jsonrpc.transport import Transport
from pattern_acp.tools.base import PreparedCall, Tool, ToolContext, ToolFailedError

if TYPE_CHECKING:
    from pattern_acp.bootstrap.code_maps import ServedCode
    from pattern_acp.memory.service.access import MemoryAccess, MemoryHit
    from pattern_acp.policy.decision import Decision

OFFERED = ("list_directory", "find_files", "search_text", "code_map", "git_status")
"""The last parts of the methods that are served here, as `initialize` promises them."""

GIT_SECONDS = 1.0
"""Longest that git may take; the server waits less where a turn waits for it."""

Folders: TypeAlias = Callable[[str], "tuple[str, ...] | None"]
"""Tells the folders of a session that the editor has open, its own first; None for any other id."""

OUTSIDE = "Only the folders of the session are searched on the user's machine, without files of credentials: {reason}"


class ClientMachine:
    """Answers a server's requests about the folders of one editor's sessions."""

    def __init__(self, environment: Mapping[str, str], cache: Path) -> None:
        """Code maps are stored in `cache`."""
        self._environment = environment
        self._cache = cache
        self._tasks: TaskGroup | None = None
        self._code: ServedCode | None = None
        self._tools: dict[str, Tool] = {}

    async def run(self) -> None:
        """Own the code maps, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = self._code = None

    def dispatcher(self, server: Transport, folders: Folders, open_folders: Callable[[], Sequence[str]]) -> Dispatcher:
        """Return what answers the requests of one server."""
        requests: dict[str, RequestHandler] = {
            f"{wire.AT_CLIENT}{name}": partial(self._answer, name, folders) for name in OFFERED
        }
        requests[wire.GIT_STATUS] = partial(self._git_status, open_folders)
        return Dispatcher(server, requests=requests, notifications={}, translate=to_rpc_error)

    async def _answer(
        self, name: str, folders: Folders, raw: msgspec.Raw, context: RequestContext
    ) -> wire.ToolAtClientResponse:
        del context
        request = read_params(raw, wire.ToolAtClientRequest)
        named = folders(request.session_id)
        if named is None:
            raise RpcError(INVALID_PARAMS, "The editor has no such session open.")
        call = await self._prepared(name, request.arguments, named)
        outcome = await call.run(_Quiet())
        summary = next((item.text for item in outcome.content if isinstance(item, TextContent)), "")
        places = tuple((each.path, each.line) for each in outcome.locations)
        return wire.ToolAtClientResponse(text=outcome.text, summary=summary, places=places)

    async def _prepared(self, name: str, arguments: JsonObject, named: Sequence[str]) -> PreparedCall:
        from pattern_acp.policy.decision import Verdict

        roots = await anyio.to_thread.run_sync(lambda: tuple(resolve_path(folder) for folder in named))
        context = self._context(named[0], roots)
        call = await self._tool(name).prepare(arguments, ToolCallId("call_at_client"), context)
        decision = _decided(call.accesses, roots)
        if decision.verdict is not Verdict.ALLOW:
            raise ToolFailedError(OUTSIDE.format(reason=decision.reason))
        return call

    def _tool(self, name: str) -> Tool:
        if not self._tools:
            from pattern_acp.tools.elsewhere import reading_tools

            self._tools = {tool.spec.name: tool for tool in reading_tools()}
        return self._tools[name]

    def _context(self, cwd: str, roots: tuple[str, ...]) -> ToolContext:
        from pattern_acp.acp.editor_ports import NoTerminal
        from pattern_acp.bootstrap.code_maps import ServedCode
        from pattern_acp.policy.decision import Verdict
        from pattern_acp.tools.base import shown_name
        from pattern_acp.workspace.local_files import LocalFileSystem

        if self._code is None and self._tasks is not None:
            self._code = ServedCode(self._tasks, self._cache, self._environment, SystemClock())
        return ToolContext(
            session_id=SessionId("at-client"),
            turn_id=TurnId("at-client"),
            cwd=cwd,
            roots=roots,
            files=LocalFileSystem(),
            terminal=NoTerminal(),
            memory=cast("MemoryAccess", _NothingRemembered()),
            code=self._code,
            may_read=lambda path: _decided((ReadPath(shown_name(path)),), roots).verdict is Verdict.ALLOW,
        )

    async def _git_status(
        self, open_folders: Callable[[], Sequence[str]], raw: msgspec.Raw, context: RequestContext
    ) -> wire.GitStatusResponse:
        del context
        from pattern_acp.workspace.git import git_status

        cwd = read_params(raw, wire.GitStatusRequest).cwd
        named = tuple(open_folders())
        if not is_within(cwd, named):
            raise RpcError(INVALID_PARAMS, "The editor has no session open in this folder.")
        found = await git_status(cwd, self._environment, seconds=GIT_SECONDS)
        if found is None:
            return wire.GitStatusResponse()
        resolved = await anyio.to_thread.run_sync(lambda: tuple(map(resolve_path, named)))
        # The repository may be larger than the folders.
        inside = tuple(path for path in found.paths if is_within(path, (*named, *resolved)))
        return wire.GitStatusResponse(status=msgspec.to_builtins(replace(found, paths=inside)))


def _decided(accesses: Sequence[Access], roots: Sequence[str]) -> "Decision":
    from pattern_acp.policy.decide import decide
    from pattern_acp.policy.decision import Mode

    # Whatever the server allows there, here nothing is changed and nobody can be asked.
    return decide(accesses, mode=Mode.PLAN, roots=roots)


class _NothingRemembered:
    """The part of memory that a tool asks which only reads code: memory is the agent's."""

    async def search(self, query: str, limit: int) -> "tuple[MemoryHit, ...]":
        """Find nothing."""
        del query, limit
        return ()


class _Quiet:
    """`Progress` of a call whose end alone is reported."""

    async def show(self, content: tuple[ToolContent, ...], *, title: str = "") -> None:
        """See `Progress.show`."""

    def note(self, text: str) -> None:
        """See `Progress.note`."""

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""
