"""Kinds of subagents, and the parts of a turn that they share.

Owns: the tools, model and limits of each kind. Must not know: how one runs.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from pattern_acp.config.settings import DelegateSettings
from pattern_acp.domain.ids import TurnId
from pattern_acp.providers.base import ModelInfo
from pattern_acp.session.hooks import SessionToolHooks
from pattern_acp.tools.base import DELEGATE, SubagentKind, Tool, ToolContext
from pattern_acp.turn.budget import Budget, Limits

READING = frozenset(
    {
        "read_file",
        "list_directory",
        "find_files",
        "search_text",
        "code_map",
        "memory_read",
        "memory_search",
        "session_search",
        "fetch_url",
        "web_search",
        "skill",
        "read_attachment",
    }
)
"""Tools of kinds that only read."""

KEPT = frozenset({DELEGATE, "update_plan", "job", "ask_user", "skill_write"})
"""Tools that no subagent has: it neither delegates nor asks; plan, background commands and skills are the session's."""


class TurnParts(Struct, frozen=True):
    """The parts of its turn that a subagent shares."""

    turn_id: TurnId
    tools: tuple[Tool, ...]
    """The tools that the turn may call."""
    offered: Callable[[ModelInfo], tuple[Tool, ...]]
    """The tools that a model is offered now."""
    context: ToolContext
    hooks: SessionToolHooks
    budget: Budget


def tools_for(kind: SubagentKind, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of the session's tools that a kind has."""
    if kind.only_reads:
        return tuple(tool for tool in tools if tool.spec.name in READING)
    return tuple(tool for tool in tools if tool.spec.name not in KEPT)


def limits_of(settings: DelegateSettings) -> Limits:
    """The most that one subagent may use."""
    return Limits(settings.max_model_requests, settings.max_wall_seconds, settings.max_tool_calls, settings.max_tokens)


def model_for(kind: SubagentKind, settings: DelegateSettings, own: str) -> str:
    """`PROVIDER/MODEL` of a subagent; `own` is the session's."""
    by_kind = {
        SubagentKind.EXPLORER: settings.explorer_model,
        SubagentKind.WORKER: settings.worker_model,
        SubagentKind.REVIEWER: settings.reviewer_model,
    }
    return by_kind[kind] or settings.model or own
