"""The conversation as a provider accepts it: one result for every call, also after a crash."""

from hypothesis import example, given
from hypothesis import strategies as st

from pattern_acp.context.builder import NO_RESULT, history_of
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from pattern_acp.domain.tool_calls import StopReason, ToolCallStatus
from pattern_acp.journal.events import (
    ContextAdded,
    ErrorReported,
    Event,
    HistoryCleared,
    MemoryShown,
    MessagePartial,
    MessageRecorded,
    PromptRefused,
    SubagentRecorded,
    ToolCallFinished,
    ToolResultExtended,
    TurnEnded,
    TurnStarted,
)

TURN = TurnId("turn_1")


def prompt(text: str, command: str = "") -> TurnStarted:
    return TurnStarted(TURN, Message(MessageId("msg_u"), Role.USER, (TextPart(text),)), command)


def answer(*parts: Part, for_model: bool = True) -> MessageRecorded:
    return MessageRecorded(TURN, Message(MessageId("msg_a"), Role.ASSISTANT, parts), for_model=for_model)


def call(call_id: str) -> ToolCallPart:
    return ToolCallPart(ToolCallId(call_id), "read_file", "{}")


def finished(call_id: str, text: str, *, failed: bool = False) -> ToolCallFinished:
    status = ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED
    return ToolCallFinished(TURN, ToolCallId(call_id), status, text)


def test_prompts_answers_and_results_are_in_order():
    events: list[Event] = [
        prompt("Go."),
        answer(TextPart("Let me see."), call("a"), call("b")),
        finished("b", "second", failed=True),
        finished("a", "first"),
        answer(TextPart("Done.")),
        TurnEnded(TURN, StopReason.END_TURN),
    ]
    history = history_of(events)
    assert [message.role for message in history] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert history[2].parts == (
        ToolResultPart(ToolCallId("a"), "first"),
        ToolResultPart(ToolCallId("b"), "second", is_error=True),
    )


def test_commands_notices_errors_and_unfinished_text_are_not_for_the_model():
    events: list[Event] = [
        prompt("/help", "help"),
        answer(TextPart("| Command |"), for_model=False),
        ErrorReported(TURN, "ProviderError", "It failed."),
        MessagePartial(TURN, MessageId("msg_x"), "half", ""),
        answer(),
    ]
    assert history_of(events) == []


def test_a_call_without_a_result_gets_one_that_says_so():
    history = history_of([prompt("Go."), answer(call("a"))])
    assert history[-1].parts == (ToolResultPart(ToolCallId("a"), NO_RESULT, is_error=True),)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_every_call_has_exactly_one_result_directly_behind_it(turns: list[tuple[int, int]]):
    events: list[Event] = []
    number = 0
    for asked, answered in turns:
        events.append(prompt("Go."))
        calls = [f"call_{number + offset}" for offset in range(asked)]
        number += asked
        events.append(answer(TextPart("So."), *(call(name) for name in calls)))
        events += [finished(name, name) for name in calls[:answered]]
    history = history_of(events)
    for position, message in enumerate(history):
        if message.tool_calls:
            results = [part.call_id for part in history[position + 1].parts if isinstance(part, ToolResultPart)]
            assert results == [part.call_id for part in message.tool_calls]


def event_of(kind: int, turn: int, number: int) -> Event:  # noqa: PLR0911  one a kind
    turn_id, call_id = TurnId(f"turn_{turn}"), ToolCallId(f"call_{turn}_{number}")
    message_id = MessageId(f"msg_{turn}_{number}")
    match kind:
        case 0:
            return answer(TextPart("Let me see."), call(call_id))
        case 1:
            return finished(call_id, "result")
        case 2:
            return ToolResultExtended(turn_id, call_id, " more")
        case 3:
            return ContextAdded(turn_id, Message(message_id, Role.USER, (TextPart("By the way."),)))
        case 4:
            return MemoryShown(turn_id, "Memory.", ())
        case 5:
            return PromptRefused(turn_id, "A hook said no.")
        case 6:
            return HistoryCleared(turn_id)
        case 7:
            inner = answer(TextPart("Its own."), call(f"inner_{number}"))
            return SubagentRecorded(turn_id, call_id, "thread_1", "finder", inner)
        case _:
            return answer(TextPart("Done."))


TURNS = st.lists(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)), max_size=6), max_size=4)


@example([[], [(0, 0)], [(5, 0), (4, 0)]], 2)  # memory told although the prompt is gone, behind a call without a result
@given(TURNS, st.integers(0, 4))
def test_a_conversation_read_on_behind_a_turn_is_the_one_read_at_once(turns: list[list[tuple[int, int]]], read: int):
    events: list[list[Event]] = []
    for turn, kinds in enumerate(turns):
        turn_id = TurnId(f"turn_{turn}")
        prompted = TurnStarted(turn_id, Message(MessageId(f"msg_{turn}"), Role.USER, (TextPart("Go."),)), "")
        told = [event_of(kind, turn, number) for kind, number in kinds]
        events.append([prompted, *told, TurnEnded(turn_id, StopReason.END_TURN)])
    first = [event for turn in events[:read] for event in turn]
    rest = [event for turn in events[read:] for event in turn]
    assert history_of(rest, history_of(first)) == history_of([*first, *rest])


@given(TURNS)
def test_a_subagent_s_thread_is_no_part_of_the_conversation(turns: list[list[tuple[int, int]]]):
    events = [event_of(kind, turn, number) for turn, kinds in enumerate(turns) for kind, number in kinds]
    own = [event for event in events if not isinstance(event, SubagentRecorded)]
    assert history_of(events) == history_of(own)
