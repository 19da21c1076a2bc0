"""Whose history of memory a session sees, for the user and for the agent.

Owns: putting both together from what the session is. Must not know: commands, or how history is stored.
"""

from typing import TYPE_CHECKING

from pattern_acp.domain.clock import TurnId
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
    owner, secrets = memory_owner(state), SecretRule(state.settings.memory.secrets)
    return HistoryScope(owner.owners, state.session_id, writer.actor, writer.origin, shared.peer, secrets)


def memory_history(shared: "Constellation", state: "SessionState") -> MemoryHistory:
    """History as a session may look at it."""
    owner = memory_owner(state)
    if owner.fork is None:
        return MemoryHistory(shared.database, owner.owners)
    return MemoryHistory(shared.database, owner.owners, inherited=owner.lasting.owners, until_ms=owner.fork.forked_ms)


def agent_history(shared: "Constellation", state: "SessionState", turn_id: TurnId) -> AgentHistory:
    """History as the agent may look at it and propose changes."""
    scope = history_scope(shared, state, PERSONA)
    reverts = MemoryReverts(shared.database, scope, clock=shared.clock)
    reverts.turn_id = turn_id
    return AgentHistory(memory_history(shared, state), reverts)
