"""What subagents share with the turn that starts them."""

from collections.abc import Callable

from msgspec import Struct

from pattern_acp.domain.ids import TurnId
from pattern_acp.providers.base import ModelInfo
from pattern_acp.session.hooks import SessionToolHooks
from pattern_acp.tools.base import Tool, ToolContext
from pattern_acp.turn.budget import Budget


class TurnParts(Struct, frozen=True):
    """What a subagent shares with the turn that it belongs to."""

    turn_id: TurnId
    tools: tuple[Tool, ...]
    """Those that the turn may call."""
    offered: Callable[[ModelInfo], tuple[Tool, ...]]
    """Those that a model is offered now."""
    context: ToolContext
    hooks: SessionToolHooks
    budget: Budget
