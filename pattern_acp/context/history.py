"""From the journal to the message list that a provider accepts."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pattern_acp.context.compaction import compacted, short_result
from pattern_acp.context.memory_notices import state_message
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, ToolResultPart
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.journal.events import (
    ContextAdded,
    ContextCompacted,
    Event,
    HistoryCleared,
    MemoryShown,
    MessageRecorded,
    PromptRefused,
    ToolCallFinished,
    ToolResultExtended,
    TurnStarted,
)

NO_RESULT = "This call did not run to its end: the turn was cancelled or the process ended."
"""The result of a call that has none; invariant 4 wants exactly one for each."""


def history_of(events: Iterable[Event], before: Sequence[Message] = ()) -> list[Message]:
    """The conversation as the model knows it: prompts, answers, and one result for every call.

    `before` is the conversation up to the end of a turn, when `events` are those after it.
    """
    messages = list(before)
    results = {part.call_id: part for message in before for part in message.parts if isinstance(part, ToolResultPart)}
    prompts: dict[TurnId, MessageId] = {}
    for event in events:
        match event:
            case TurnStarted(message=message, command=""):
                messages.append(message)
                prompts[event.turn_id] = message.message_id
            case MemoryShown():
                # It is recorded after the prompt of its turn, and stands before it.
                add_context(messages, state_message(event))
            case ContextAdded():
                add_context(messages, event.message)
            case PromptRefused():
                messages[:] = [message for message in messages if message.message_id != prompts.get(event.turn_id)]
            case MessageRecorded(message=message, for_model=True) if message.parts:
                messages.append(message)
            case HistoryCleared():
                messages.clear()
            case ContextCompacted():
                messages[:] = compacted(messages, event)
                _take_result(results, event)
            case _:
                _take_result(results, event)
    return paired(messages, results)


def calls_of(events: Iterable[Event]) -> set[ToolCallId]:
    """The ids of all tool calls that a model asked for, also those that the model no longer sees."""
    return {call.call_id for event in events if isinstance(event, MessageRecorded) for call in event.message.tool_calls}


def _take_result(results: dict[ToolCallId, ToolResultPart], event: Event) -> None:
    match event:
        case ToolCallFinished():
            failed = event.status is ToolCallStatus.FAILED
            results[event.call_id] = ToolResultPart(event.call_id, event.result_text, failed, event.images)
        case ToolResultExtended(call_id=call_id, text=text) if call_id in results:
            results[call_id] = replace(results[call_id], text=f"{results[call_id].text}{text}")
        case ContextCompacted():
            for call_id in results.keys() & set(event.shortened):
                results[call_id] = short_result(results[call_id], event.keep_characters)
        case _:
            pass


def result_text(events: Iterable[Event]) -> str | None:
    """The whole result of a call from the events about it, as the model read it first; None when it has none."""
    text: str | None = None
    for event in events:
        if isinstance(event, ToolCallFinished):
            text = event.result_text
        elif isinstance(event, ToolResultExtended) and text is not None:
            text += event.text
    return text


def add_context(messages: list[Message], added: Message) -> None:
    """Put a message that goes with a prompt right before it, or at the end if the prompt was answered already.

    The same for a conversation that runs and for one that is read back, so that both are the same to the byte.
    """
    is_prompt_last = bool(messages) and messages[-1].role is Role.USER
    messages.insert(len(messages) - 1 if is_prompt_last else len(messages), added)


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
