"""Slash commands about the model's window: /compact and /pin.

Owns: what they answer. Must not know: how space is made.
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import MessagePinned, MessageRecorded, TurnStarted
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.session.budgets import BudgetGate
from pattern_acp.session.compaction import CompactionRequest, compact, pinned_of, told
from pattern_acp.session.context_usage import context_tokens, show_context
from pattern_acp.session.window import session_limits, strategy_of, tokens_in
from pattern_acp.turn.loop import ModelInUse
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.domain.clock import SessionId
    from pattern_acp.memory.service.session_memory import ConstellationMemory
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session

SHOWN_CHARACTERS = 160
"""Characters of a pinned message that /pin repeats."""


async def run_compact(session: "Session", argument: str) -> str:
    """Sum up all of the conversation but its last exchange."""
    state, shared = session.state, session.constellation
    if missing := shared.models.missing_key(state.model.qualified):
        raise InvalidRequestError(missing)
    provider, info = shared.models.resolve(state.model.qualified)
    turn_id = session.turn_id
    gate = BudgetGate(session, turn_id, None)
    model = ModelInUse(shared.models.with_fallback(provider, info, tokens_in(session.state), gate.refusal), info)
    tokens = context_tokens(session, info)
    wanted = CompactionRequest(
        "person", strategy_of(session.state, model), tokens, 0, session_limits(session.state, model), argument
    )

    def spend(_usage: Usage, cost: Cost | None) -> Cost | None:
        before = state.cost.micro_units if state.cost is not None else 0
        state.cost = state.cost if cost is None else Cost(before + cost.micro_units, cost.currency)
        return state.cost

    outcome = await compact(session, turn_id, model, wanted, spend, gate)
    if outcome is None:
        return (
            "There is nothing to compact: what could leave the conversation is no longer than a note that it is gone."
        )
    # What the model does not know any more it must read again before it edits.
    state.fingerprints.clear()
    await show_context(session)
    short = told(outcome.event, outcome.problem).partition(" In their place the model reads:")[0]
    return f"The conversation is compacted. {short}"


async def run_pin(session: "Session", argument: str) -> str:
    """Keep the user's last message and its answer in the context, whatever is compacted."""
    said, pinned = await _messages(session.constellation, session.session_id)
    if argument == "off":
        events = [_pinning(session.memory, message_id, pinned=False) for message_id in sorted(pinned)]
        if events:
            await session.recorder.record(*events)
        return f"{plural(len(events), 'message')} can be compacted again."
    if argument == "list":
        lines = [f"- {one_line(m.text, SHOWN_CHARACTERS)}" for m in said if m.message_id in pinned]
        return "\n".join(lines) or "No message is pinned."
    if argument:
        raise CommandMisusedError("/pin pins your last message and its answer; /pin list shows them, /pin off ends it.")
    known = {message.message_id for message in session.state.history}
    last = next((place for place in range(len(said) - 1, -1, -1) if said[place].role == "user"), None)
    chosen = [message for message in said[last:] if message.message_id in known] if last is not None else []
    # The prompt and the last word of its answer: what is between are steps.
    chosen = chosen if len(chosen) < 2 else [chosen[0], chosen[-1]]
    if not chosen:
        raise CommandMisusedError("There is no message of yours to pin in what the model sees.")
    await session.recorder.record(*[_pinning(session.memory, message.message_id, pinned=True) for message in chosen])
    return f"Pinned: “{one_line(chosen[0].text, SHOWN_CHARACTERS)}” and its answer stay, whatever is compacted."


def _pinning(memory: "ConstellationMemory", message_id: MessageId, *, pinned: bool) -> NewEvent:
    event = MessagePinned(memory.turn_id or TurnId(""), message_id, pinned)
    return NewEvent(event, Actor.HUMAN, Origin.PERSON)


async def _messages(shared: "Constellation", session_id: "SessionId") -> tuple[list[Message], frozenset[MessageId]]:
    """The prompts and answers so far, in order, and the ids of those that are pinned."""
    stream = await shared.database.read(lambda tx: read_history(tx, session_id))
    events = [item.event for item in active_events(stream)]
    said: list[Message] = []
    for event in events:
        match event:
            case TurnStarted(message=message, command=""):
                said.append(message)
            case MessageRecorded(message=message, for_model=True) if not message.tool_calls:
                said.append(message)
            case _:
                pass
    return said, pinned_of([event for event in events if isinstance(event, MessagePinned)])
