"""Delegation from a turn to subagents.

Owns: starting a subagent by a call, and ending it. Must not know: how one runs, which is imported with the first call.
"""

from typing import TYPE_CHECKING

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.session.subagents.kinds import TurnParts
from pattern_acp.tools.base import DelegatedTask, Progress, SubagentKind, ToolOutcome
from pattern_acp.turn.checks import ConfiguredChecks

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


class Subagents:
    """`tools.delegation.Delegation` of one turn."""

    def __init__(self, session: "Session", parts: TurnParts) -> None:
        self._session = session
        self._parts = parts
        self.checks: ConfiguredChecks | None = None
        """Those of the turn: what subagents edit counts for the checks at its end."""

    def tool_names(self, kind: SubagentKind) -> tuple[str, ...]:
        """See `Delegation.tool_names`."""
        from pattern_acp.session.subagents.kinds import tools_for

        return tuple(tool.spec.name for tool in tools_for(kind, self._parts.tools))

    async def run(self, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
        """See `Delegation.run`."""
        from pattern_acp.session.subagents.subagent import Subagent

        subagent = Subagent(self._session, self._parts, task, call_id, progress)
        self._session.subagents[call_id] = subagent.scope.cancel
        try:
            return await subagent.run()
        finally:
            del self._session.subagents[call_id]
            await subagent.close()
            # A hook that wants the turn to end wants all of it to.
            self._parts.hooks.stop = self._parts.hooks.stop or subagent.hooks.stop
            if self.checks is not None:
                self.checks.note_edited(subagent.edited)
