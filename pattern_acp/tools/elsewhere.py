"""Tools that run where the files are, for sessions whose files are on another machine.

Owns: which tools these are, and the sentence where the client cannot do it. Must not know: how the client is asked
(`acp.editor_ports`), or how it does it (`bootstrap.client_machine`).
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    CodeOperation,
    NotAvailableError,
    PreparedCall,
    Progress,
    Tool,
    ToolContext,
    ToolOutcome,
)
from pattern_acp.tools.code_map import CodeMap
from pattern_acp.tools.find_files import FindFiles, ListDirectory, SearchText

AGENTS = frozenset(
    {
        *("read_file", "write_file", "edit_file", "run_command", "job", "update_plan", "task", "memory_read"),
        *("memory_write", "memory_search", "session_search", "read_attachment", "fetch_url", "delegate", "ask_user"),
        "web_search",
    }
)
"""Tools that need no disk of the agent's machine."""

OF_LANGUAGE_SERVERS = frozenset({CodeOperation.DEFINITION, CodeOperation.REFERENCES, CodeOperation.RENAME})
"""Operations of code_map that no client does."""


def reading_tools() -> tuple[Tool, ...]:
    """Return the tools that a client may do where the files are."""
    return ListDirectory(), FindFiles(), SearchText(), CodeMap()


def tools_elsewhere(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools of sessions whose files are on another machine, in their order."""
    at_client = {tool.spec.name for tool in reading_tools()}
    return tuple(
        AtClient(tool) if tool.spec.name in at_client else tool
        for tool in tools
        if tool.spec.name in at_client or tool.spec.name in AGENTS
    )


class AtClient:
    """A tool as the model knows it, whose calls the client runs."""

    changes_things = False

    def __init__(self, inner: Tool) -> None:
        self._inner = inner

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return self._inner.spec

    @property
    def kind(self) -> ToolKind:
        """See `Tool.kind`."""
        return self._inner.kind

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        name = self.spec.name
        if context.at_client is None or not context.at_client.offers(name):
            raise NotAvailableError(
                f"{name} works on the machine that has the files, and this client does not offer it (`pattern-acp "
                "connect` does)",
                advice="use run_command with rg, ls, find or git.",
            )
        if arguments.get("operation") in OF_LANGUAGE_SERVERS:
            raise NotAvailableError(
                "Language servers are off, since the files are on another machine", advice="use search_text."
            )
        prepared = await self._inner.prepare(arguments, call_id, context)
        return replace(prepared, run=partial(self._run, arguments, context))

    async def _run(self, arguments: JsonObject, context: ToolContext, _progress: Progress) -> ToolOutcome:
        if context.at_client is None:
            raise NotAvailableError("The client that did this has left; try again.")
        return await context.at_client.run(self.spec.name, arguments)
