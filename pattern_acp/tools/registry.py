"""The tools that a session has.

Owns: which tools there are and which of them a mode offers. Must not know: what any of them does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import msgspec

from pattern_acp.config.settings import EditToolSetting
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ModelInfo, ToolSpec
from pattern_acp.tools.base import PreparedCall, Tool, ToolContext

if TYPE_CHECKING:
    from pattern_acp.web import WebSearcher

TASK_TOOL = "task"
"""Name of the tool that only sessions with tasks in sight are offered."""

PLAN_TOOL = "update_plan"
"""Name of the tool that few models are offered beside `task`."""

FETCH_TOOL = "fetch_url"
"""Name of the tool that is made with a setting."""

BUILT_IN: Mapping[str, str] = {
    "read_file": "pattern_acp.tools.read_file:ReadFileTool",
    "write_file": "pattern_acp.tools.edit_file:WriteFile",
    "edit_file": "pattern_acp.tools.edit_file:EditFile",
    "apply_patch": "pattern_acp.tools.apply_patch:ApplyPatch",
    "list_directory": "pattern_acp.tools.find_files:ListDirectory",
    "find_files": "pattern_acp.tools.find_files:FindFiles",
    "search_text": "pattern_acp.tools.find_files:SearchText",
    "code_map": "pattern_acp.tools.code_map:CodeMap",
    "run_command": "pattern_acp.tools.run_command:RunCommandTool",
    "job": "pattern_acp.tools.job:JobTool",
    "update_plan": "pattern_acp.tools.task:UpdatePlan",
    "task": "pattern_acp.tools.task:TaskTool",
    "memory_read": "pattern_acp.tools.memory_tools:MemoryRead",
    "memory_write": "pattern_acp.tools.memory_tools:MemoryWrite",
    "memory_search": "pattern_acp.tools.memory_tools:MemorySearch",
    "session_search": "pattern_acp.tools.session_search:SearchSessions",
    "read_attachment": "pattern_acp.tools.read_file:ReadAttachment",
    FETCH_TOOL: "pattern_acp.tools.fetch_url:FetchUrlTool",
    "delegate": "pattern_acp.tools.delegate:Delegate",
    "ask_user": "pattern_acp.tools.ask_user:AskUser",
}
"""Every built-in tool (issue 2, section 5) and its class, in the order that the model reads them, which never changes.

No start imports a class: requests are made from `FILE`, and the first call of a tool imports it.
"""

OTHERS_WITH_ARGUMENTS = ("skill", "mcp_toolbox", "web_search")
"""Modules with the arguments of tools that only some sessions have."""

FILE = Path(__file__).parent / "tool_specs.json"
"""Specs, kinds and effects of these tools, in the same order; `scripts/tool_specs` writes it from the classes."""


class KnownTool(msgspec.Struct, frozen=True):
    """All that requests, modes and clients need to know of a tool before its first call."""

    spec: ToolSpec
    kind: ToolKind
    changes_things: bool


class LateTool:
    """A tool that is imported when it is called first."""

    def __init__(self, known: KnownTool, make: Callable[[], Tool]) -> None:
        self.spec = known.spec
        self.kind = known.kind
        self.changes_things = known.changes_things
        self._make = make
        self._tool: Tool | None = None

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        if self._tool is None:
            self._tool = self._make()
        return await self._tool.prepare(arguments, call_id, context)


def default_tools(*, private_addresses: bool = False, searcher: "WebSearcher | None" = None) -> tuple[Tool, ...]:
    """Return every built-in tool, in the order of `BUILT_IN`.

    `private_addresses`: whether pages of this machine and its networks may be fetched. `searcher` searches the web.
    """
    make = partial(made, private_addresses=private_addresses)
    tools = (LateTool(known, partial(make, known.spec.name)) for known in _known_tools())
    return (*tools, *_web_search(searcher))


def made(name: str, *, private_addresses: bool = False) -> Tool:
    """Import a built-in tool and make it; see `default_tools`."""
    kind = resolve_name(BUILT_IN[name])
    if name != FETCH_TOOL:
        return kind()
    from pattern_acp.web import Pages

    return kind(Pages(private_addresses=private_addresses))


@cache
def _known_tools() -> tuple[KnownTool, ...]:
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[KnownTool, ...])


def _web_search(searcher: "WebSearcher | None") -> tuple[Tool, ...]:
    if searcher is None:
        return ()
    # Late: most users set up no search.
    from pattern_acp.tools.web_search import WebSearch

    return (WebSearch(searcher),)


def parameter_names() -> frozenset[str]:
    """The names of all arguments of built-in tools, which stay whatever words are forgotten."""
    from pattern_acp.tools.schema import argument_names

    import_tools()
    for module in OTHERS_WITH_ARGUMENTS:
        import_module(f"pattern_acp.tools.{module}")
    return argument_names()


def import_tools() -> None:
    """Import every built-in tool; calls then wait for nothing."""
    for name in BUILT_IN.values():
        resolve_name(name)


def offered(tools: Sequence[Tool], *, mode_is_plan: bool, left_out: Sequence[str] = ()) -> tuple[Tool, ...]:
    """The tools that the model is offered: in plan mode none that changes anything (issue 2, section 9)."""
    return tuple(
        tool for tool in tools if not (mode_is_plan and tool.changes_things) and tool.spec.name not in left_out
    )


def edit_tool_left_out(setting: EditToolSetting, model: ModelInfo) -> tuple[str, ...]:
    """The edit tool that a model is not offered: each edits best with the one that it was trained on."""
    if setting == "both":
        return ()
    by_patch = model.writes_patches if setting == "auto" else setting == "apply_patch"
    return ("edit_file",) if by_patch else ("apply_patch",)


def one_for_plans(tools: Sequence[Tool], model: ModelInfo, named: Sequence[str] = ()) -> tuple[Tool, ...]:
    """The tools without update_plan where the steps of `task` replace it.

    It stays for models that were trained on it, where there is no `task`, and for a persona that has it among `named`.
    """
    names = {tool.spec.name for tool in tools}
    if model.writes_patches or TASK_TOOL not in names or PLAN_TOOL in named:
        return tuple(tools)
    return tuple(tool for tool in tools if tool.spec.name != PLAN_TOOL)
