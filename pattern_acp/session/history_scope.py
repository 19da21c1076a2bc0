"""Whose history of memory a session sees, for the user and for the agent.

Owns: putting both together from what the session is. Must not know: commands, or how history is stored.
"""

from typing import TYPE_CHECKING

from pattern_acp.domain.ids import TurnId
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.scope import PERSON, PERSONA, Writer
from pattern_acp.memory.service.undo import AgentHistory, MemoryReverts
from pattern_acp.memory.write_validation import SecretRule
from pattern_acp.session.memory_context import memory_owner

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.state import SessionState


def history_scope(shared: "Constellation", state: "SessionState", writer: Writer = PERSON) -> HistoryScope:
    """Whose blocks a session sees, for the user or the agent."""
    owners, secrets = memory_owner(state).owners, SecretRule(state.settings.memory.secrets)
    return HistoryScope(owners, state.session_id, writer.actor, writer.origin, shared.peer, secrets)


def agent_history(shared: "Constellation", state: "SessionState", turn_id: TurnId) -> AgentHistory:
    """History as the agent may look at it and propose changes."""
    scope = history_scope(shared, state, PERSONA)
    reverts = MemoryReverts(shared.database, scope, clock=shared.clock)
    reverts.turn_id = turn_id
    return AgentHistory(MemoryHistory(shared.database, scope.owners), reverts)
