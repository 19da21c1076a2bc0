"""From the journal to the message list that a provider accepts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pattern_acp.context.memory_notices import state_message
from pattern_acp.domain.ids import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, ToolResultPart
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.journal.events import (
    Event,
    HistoryCleared,
    MemoryShown,
    MessageRecorded,
    ToolCallFinished,
    ToolResultExtended,
    TurnStarted,
)

NO_RESULT = "This call did not run to its end: the turn was cancelled or the process ended."
"""The result of a call that has none; invariant 4 wants exactly one for each."""


def history_of(events: Iterable[Event]) -> list[Message]:
    """The conversation as the model knows it: prompts, answers, and one result for every call."""
    messages: list[Message] = []
    results: dict[ToolCallId, ToolResultPart] = {}
    for event in events:
        match event:
            case TurnStarted(message=message, command=""):
                messages.append(message)
            case MemoryShown():
                # It is recorded after the prompt of its turn, and stands before it.
                messages.insert(max(0, len(messages) - 1), state_message(event))
            case MessageRecorded(message=message, for_model=True) if message.parts:
                messages.append(message)
            case HistoryCleared():
                messages.clear()
            case ToolCallFinished():
                failed = event.status is ToolCallStatus.FAILED
                results[event.call_id] = ToolResultPart(event.call_id, event.result_text, failed, event.images)
            case ToolResultExtended(call_id=call_id, text=text) if call_id in results:
                results[call_id] = replace(results[call_id], text=f"{results[call_id].text}{text}")
            case _:
                pass
    return paired(messages, results)


def paired(messages: Sequence[Message], results: dict[ToolCallId, ToolResultPart]) -> list[Message]:
    """`messages` with a tool message behind every message that calls tools."""
    complete: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            continue
        complete.append(message)
        calls = message.tool_calls
        if calls:
            parts = tuple(results.get(c.call_id) or ToolResultPart(c.call_id, NO_RESULT, is_error=True) for c in calls)
            complete.append(Message(MessageId(f"{message.message_id}_results"), Role.TOOL, parts))
    return complete
