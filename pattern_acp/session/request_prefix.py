"""The part of every request that stays byte-identical while mode and model stay: system prompt and tools.

Owns: which tools a model is offered. Must not know: when a request is built (`turn_stages`).
"""

from typing import TYPE_CHECKING

from pattern_acp.context.builder import Stable
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo
from pattern_acp.session.code import CODE_TOOL, code_of
from pattern_acp.session.window import with_room
from pattern_acp.tools.base import Tool
from pattern_acp.tools.registry import edit_tool_left_out, offered

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


def stable_part(session: "Session") -> Stable:
    """System prompt and tools, the cached prefix of every request."""
    tools = tuple(tool.spec for tool in offered_tools(session))
    state = session.state
    return Stable(state.system, tools, state.tool_form, state.settings.cache_ttl, state.window.texts)


def offered_tools(session: "Session", model: ModelInfo | None = None) -> tuple[Tool, ...]:
    """The tools that a model, the session's own unless it is given, has in this mode; those of MCP servers last."""
    plan = session.state.policy.mode is Mode.PLAN
    left_out = edit_tool_left_out(session.state.settings.edit_tool, model or session.state.model)
    if code_of(session) is None:
        left_out = (*left_out, CODE_TOOL)
    own = offered(session.constellation.tools, mode_is_plan=plan, left_out=left_out)
    return with_room(session, (*own, *skill_tools(session), *session.mcp.toolbox.offered(mode_is_plan=plan)))


def skill_tools(session: "Session") -> tuple[Tool, ...]:
    """The tool that loads skills, when there are any."""
    return (session.state.skill_tool,) if session.state.skill_tool is not None else ()
