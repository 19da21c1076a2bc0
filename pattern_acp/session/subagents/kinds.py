"""Kinds of subagents, and the parts of a turn that they share.

Owns: the tools, model and limits of each kind. Must not know: how one runs.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.config.settings import DelegateSettings
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.policy.decision import Approver
from pattern_acp.providers.base import ModelInfo
from pattern_acp.session.hooks import SessionToolHooks
from pattern_acp.tools.base import DELEGATE, Delegation, SubagentKind, Tool, ToolContext
from pattern_acp.turn.budget import Budget, Limits, UserWaitTimer

if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.subagents.memory import SubagentMemory
    from pattern_acp.workspace.overlay import OverlayFileSystem

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

KEPT = frozenset({"update_plan", "job", "ask_user", "skill_write"})
"""Tools that no subagent has: it does not ask; plan, background commands and skills are the session's."""

MOST_LEVELS = 3
"""Levels of subagents: those of the agent, those of its workers, and those of theirs."""


class Nest(Struct, frozen=True):
    """The worker that subagents below it belong to."""

    name: str
    """Its name, behind those above it."""
    level: int
    """1 for one that the agent itself delegated to."""
    call_id: ToolCallId
    """The call that the client knows, which is the one of the topmost."""
    paths: tuple[str, ...]
    """The only places where it may write."""
    files: "OverlayFileSystem | None"
    """Its view, into which their changes land; None where changes are made at once."""
    memory: "SubagentMemory | None"
    """Its memory, which those below read, and into which theirs lands; None where writes count at once."""
    holder: object
    """The holder of its place among those that work at once."""


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
    below: "Callable[[TurnParts], Delegation]"
    """Makes the delegation of a worker to those below it."""
    nest: Nest | None = None
    approver: Approver | None = None
    """Asks the user instead of the session's own."""
    """The worker that delegates; None for the agent itself."""

    @property
    def level(self) -> int:
        """The level of the subagents that are started here."""
        return self.nest.level + 1 if self.nest is not None else 1


def tools_for(kind: SubagentKind, parts: TurnParts) -> tuple[Tool, ...]:
    """Those of the tools that a kind has."""
    if kind.only_reads:
        return tuple(tool for tool in parts.tools if tool.spec.name in READING)
    kept = KEPT if parts.level < MOST_LEVELS else KEPT | {DELEGATE}
    return tuple(tool for tool in parts.tools if tool.spec.name not in kept)


def give_back(places: anyio.CapacityLimiter, holder: object) -> None:
    """Give the place of a subagent back; one that was stopped while its own were at work does not have it."""
    with suppress(RuntimeError):
        places.release_on_behalf_of(holder)


def limits_of(settings: DelegateSettings) -> Limits:
    """The most that one subagent may use."""
    return Limits(settings.max_model_requests, settings.max_wall_seconds, settings.max_tool_calls, settings.max_tokens)


def own_budget(dialogue: "Dialogue") -> Budget:
    """Limits like those of a turn, which begin now."""
    clock, limits = dialogue.shared.clock, dialogue.state.settings.turn
    most = Limits(limits.max_model_requests, limits.max_wall_seconds)
    budget = Budget(most, clock, UserWaitTimer(clock), cost=dialogue.state.cost)
    budget.begin()
    return budget


def model_for(kind: SubagentKind, settings: DelegateSettings, own: str) -> str:
    """`PROVIDER/MODEL` of a subagent; `own` is the session's."""
    by_kind = {
        SubagentKind.EXPLORER: settings.explorer_model,
        SubagentKind.WORKER: settings.worker_model,
        SubagentKind.REVIEWER: settings.reviewer_model,
    }
    return by_kind[kind] or settings.model or own
