from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.tool_calls import StopReason, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    ErrorReported,
    Event,
    MessagePartial,
    MessageRecorded,
    SessionTitled,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.journal.turn_ends import InterruptedTurn, close_interrupted, find_interrupted
from pattern_acp.journal.writer import append
from tests.support.constellation import temporary_constellation

OLD, TURN = TurnId("turn_old"), TurnId("turn_1")
DONE, OPEN, ASKED = ToolCallId("call_done"), ToolCallId("call_open"), ToolCallId("call_asked")


def view(call_id: ToolCallId) -> ToolCallView:
    return ToolCallView(call_id, "run_command", "pytest", ToolKind.EXECUTE, {"command": "pytest"})


def prompt(turn_id: TurnId) -> TurnStarted:
    return TurnStarted(turn_id, Message(MessageId(f"user_{turn_id}"), Role.USER, (TextPart("go"),)))


def answer(name: str, *calls: ToolCallId, arguments: str = "{}") -> MessageRecorded:
    parts = tuple(ToolCallPart(call, "run_command", arguments) for call in calls)
    return MessageRecorded(TURN, Message(MessageId(name), Role.ASSISTANT, (TextPart("I will"), *parts)))


def failed(call_id: ToolCallId) -> ToolCallFinished:
    content = (TextContent("interrupted"),)
    return ToolCallFinished(
        TURN,
        call_id,
        ToolCallStatus.FAILED,
        "interrupted",
        content=content,
        interrupted=True,
        failure="tool.interrupted",
    )


SENTENCE = "The process ended during this turn."
ENDED = (
    ErrorReported(TURN, "", SENTENCE, "turn.interrupted"),
    TurnEnded(TURN, StopReason.CANCELLED, SENTENCE),
)


async def closing_of(*recorded: Event) -> list[Event]:
    """What is appended after `recorded`, having checked that it is what a reader then finds and nothing is left."""
    async with temporary_constellation() as constellation:

        def close(tx: Transaction) -> list[Event]:
            for event in recorded:
                append(tx, "s", event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=1)
            closed = close_interrupted(tx, "s", at_ms=9)
            entries = read_stream(tx, "s")
            assert tuple(entries[len(recorded) :]) == closed
            assert find_interrupted(entries) == ()
            assert close_interrupted(tx, "s", at_ms=10) == ()
            assert verify_stream(tx, "s").ok
            return [entry.event for entry in closed]

        return await constellation.database.write(close)


async def test_a_turn_that_ended_is_left_alone():
    ended = TurnEnded(TURN, StopReason.END_TURN)
    assert await closing_of(prompt(TURN), answer("m"), ended, SessionTitled("x")) == []


async def test_an_empty_stream_is_left_alone():
    assert await closing_of() == []


async def test_a_turn_killed_before_anything_came_is_ended():
    assert await closing_of(prompt(OLD), TurnEnded(OLD, StopReason.END_TURN), prompt(TURN)) == [*ENDED]


async def test_a_call_without_a_result_is_shown_as_failed():
    recorded = (
        prompt(TURN),
        answer("m", DONE, OPEN),
        ToolCallStarted(TURN, view(DONE)),
        ToolCallStarted(TURN, view(OPEN)),
        ToolCallFinished(TURN, DONE, ToolCallStatus.COMPLETED, "ok"),
    )
    assert await closing_of(*recorded) == [failed(OPEN), *ENDED]


async def test_a_call_that_was_never_announced_is_announced_and_failed_so_that_it_has_its_result():
    arguments = '{"command": "make", "limit": 1.5}'
    announced = ToolCallView(ASKED, "run_command", "run_command", ToolKind.OTHER, {"command": "make", "limit": 1.5})
    assert await closing_of(prompt(TURN), answer("m", ASKED, arguments=arguments)) == [
        ToolCallStarted(TURN, announced),
        failed(ASKED),
        *ENDED,
    ]


async def test_arguments_that_are_not_an_object_are_left_out_of_the_announcement():
    closed = await closing_of(prompt(TURN), answer("m", ASKED, arguments='{"command": "ma'))
    assert closed[0] == ToolCallStarted(TURN, ToolCallView(ASKED, "run_command", "run_command", ToolKind.OTHER, {}))


async def test_the_newest_text_of_an_unfinished_message_is_kept():
    message_id = MessageId("m2")
    recorded = (
        prompt(TURN),
        MessagePartial(TURN, MessageId("m1"), "I wi", ""),
        answer("m1"),
        MessagePartial(TURN, message_id, "", "Let me"),
        MessagePartial(TURN, message_id, "Half an ans", "Let me think"),
    )
    kept = Message(message_id, Role.ASSISTANT, (ThinkingPart("Let me think"), TextPart("Half an ans")))
    assert await closing_of(*recorded) == [MessageRecorded(TURN, kept, complete=False), *ENDED]


async def test_the_parts_of_an_unfinished_message_are_put_together():
    message_id = MessageId("m2")
    recorded = (
        prompt(TURN),
        MessagePartial(TURN, message_id, "Half", "", 0, 0),
        MessagePartial(TURN, message_id, " an", "", 4, 0),
        MessagePartial(TURN, message_id, " an ans", "", 4, 0),
    )
    kept = Message(message_id, Role.ASSISTANT, (TextPart("Half an ans"),))
    assert await closing_of(*recorded) == [MessageRecorded(TURN, kept, complete=False), *ENDED]


async def test_an_empty_partial_leaves_no_message():
    assert await closing_of(prompt(TURN), MessagePartial(TURN, MessageId("m"), "", "")) == [*ENDED]


async def test_every_open_turn_is_found():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> tuple[InterruptedTurn, ...]:
            for event in (prompt(OLD), ToolCallStarted(OLD, view(OPEN)), prompt(TURN)):
                append(tx, "s", event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=1)
            return find_interrupted(read_stream(tx, "s"))

        assert await constellation.database.write(write) == (
            InterruptedTurn(OLD, open_calls=(ToolCallStarted(OLD, view(OPEN)),)),
            InterruptedTurn(TURN),
        )


async def test_of_a_subagent_only_the_call_that_it_ran_for_is_closed():
    def inner(event: Event) -> Event:
        return SubagentRecorded(TURN, OPEN, "thread_1", "maker", event)

    recorded = [
        prompt(TURN),
        answer("m", OPEN),
        ToolCallStarted(TURN, view(OPEN)),
        inner(prompt(TURN)),
        inner(answer("n", ASKED)),
        inner(ToolCallStarted(TURN, view(ASKED))),
    ]
    assert await closing_of(*recorded) == [failed(OPEN), *ENDED]
