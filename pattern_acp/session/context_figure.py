"""The editor's figure of how full the context is, where no request follows that would count.

Owns: when it is outdated, and the estimate that takes its place. Must not know: how an editor is told.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.context.builder import build_request
from pattern_acp.context.window import request_tokens
from pattern_acp.journal.events import ContextCompacted, Event, HistoryCleared, UsageReported
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.session.request_prefix import stable_part
from pattern_acp.turn.events import ContextChanged

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def show_context(session: "Session") -> None:
    """Tell how full the context of the session's model is by our estimate."""
    state = session.state
    used = context_tokens(session, state.model)
    await session.view.show(ContextChanged(used, state.model.context_window, state.cost))


def context_tokens(session: "Session", model: ModelInfo) -> int:
    """About how many tokens a request of the conversation as it is would have; memory that changed is not in it."""
    request = build_request(
        session_id=session.session_id,
        stable=stable_part(session),
        model=model,
        thought_level=ThoughtLevel.DEFAULT,
        history=session.state.history,
        memory=(),
        max_output_tokens=session.state.settings.turn.max_output_tokens,
    )
    return session.state.window.calibration.tokens(model.name, request_tokens(request))


def is_outdated(events: Sequence[Event]) -> bool:
    """Whether the last figure that these events report is of a conversation that was changed since."""
    changed = (
        event for event in reversed(events) if isinstance(event, UsageReported | ContextCompacted | HistoryCleared)
    )
    return isinstance(next(changed, None), ContextCompacted | HistoryCleared)
