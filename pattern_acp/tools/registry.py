"""The tools that a session has.

Owns: which tools there are and which of them a mode offers. Must not know: what any of them does.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.config.settings import EditToolSetting
from pattern_acp.providers.base import ModelInfo
from pattern_acp.tools.apply_patch import ApplyPatch
from pattern_acp.tools.ask_user import AskUser
from pattern_acp.tools.base import Tool
from pattern_acp.tools.code_map import CodeMap
from pattern_acp.tools.delegate import Delegate
from pattern_acp.tools.edit_file import EditFile, WriteFile
from pattern_acp.tools.fetch_url import FetchUrlTool
from pattern_acp.tools.find_files import FindFiles, ListDirectory, SearchText
from pattern_acp.tools.job import JobTool
from pattern_acp.tools.memory_tools import MemoryRead, MemorySearch, MemoryWrite
from pattern_acp.tools.read_file import ReadAttachment, ReadFileTool
from pattern_acp.tools.run_command import RunCommandTool
from pattern_acp.tools.schema import argument_names
from pattern_acp.tools.session_search import SearchSessions
from pattern_acp.tools.task import TaskTool, UpdatePlan
from pattern_acp.web import Pages

if TYPE_CHECKING:
    from pattern_acp.web import WebSearcher

TASK_TOOL = "task"
"""Name of the tool that only sessions with tasks in sight are offered."""

PLAN_TOOL = "update_plan"
"""Name of the tool that few models are offered beside `task`."""


def default_tools(*, private_addresses: bool = False, searcher: "WebSearcher | None" = None) -> tuple[Tool, ...]:
    """Every built-in tool (issue 2, section 5), in the order that the model reads them; the order never changes.

    `private_addresses`: whether pages of this machine and its networks may be fetched. `searcher` searches the web.
    """
    return (
        ReadFileTool(),
        WriteFile(),
        EditFile(),
        ApplyPatch(),
        ListDirectory(),
        FindFiles(),
        SearchText(),
        CodeMap(),
        RunCommandTool(),
        JobTool(),
        UpdatePlan(),
        TaskTool(),
        MemoryRead(),
        MemoryWrite(),
        MemorySearch(),
        SearchSessions(),
        ReadAttachment(),
        FetchUrlTool(Pages(private_addresses=private_addresses)),
        Delegate(),
        AskUser(),
        *_web_search(searcher),
    )


def _web_search(searcher: "WebSearcher | None") -> tuple[Tool, ...]:
    if searcher is None:
        return ()
    # Late: most users set up no search.
    from pattern_acp.tools.web_search import WebSearch

    return (WebSearch(searcher),)


def parameter_names() -> frozenset[str]:
    """The names of all arguments of built-in tools, which stay whatever words are forgotten."""
    return argument_names()


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
