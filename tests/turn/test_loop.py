"""The loop: build, stream, run tools, repeat until a stop reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import TurnSettings
from pattern_acp.domain.access import RunCommand
from pattern_acp.domain.clock import MessageId, RandomIds, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from pattern_acp.domain.tool_calls import StopReason, ToolCallStatus
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import (
    ContextAdded,
    MessageRecorded,
    ModelRequested,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.policy.decide import Mode
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.providers.base import (
    WINDOW_FULL,
    ProviderRequest,
    ProviderStop,
    Stopped,
    ToolCallBegun,
    ToolCallEnded,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.history import CONTINUE, CONTINUE_CUT_NOTE, CONTINUE_NOTE
from pattern_acp.providers.http_errors import EmptyAnswerError, ProviderOverloadedError
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.tools.base import Progress, ToolOutcome
from pattern_acp.turn import loop as turn_loop
from pattern_acp.turn.budget import Budget, Limits, UserWaitTimer
from pattern_acp.turn.loop import (
    ANSWER_NOW,
    ANSWER_SOONER,
    BEGIN_AGAIN,
    ModelInUse,
    StreamRetries,
    TurnEnd,
    TurnLoop,
    last_answer,
    show_sentence,
    with_plain_names,
)
from pattern_acp.turn.permissions import PermissionChecker, PolicyState
from pattern_acp.turn.recorder import TextStreamed
from pattern_acp.turn.tool_runner import ToolRunner
from tests.support.approver import ScriptedApprover
from tests.support.constellation import FakeClock
from tests.support.models import fake_model
from tests.support.scripts import Turn, calls, calls_raw, gate, says, stops, thinks, uses
from tests.support.tools import FakeTool, tool_bench
from tests.support.turn_recorder import FakeRecorder
from tests.support.turns import of_type

TURN = TurnId("turn_1")
ROOT = Path("/project")
ASKS = (RunCommand("make", str(ROOT)),)


@dataclass(slots=True)
class Bench:
    """A loop over a script, with a clock that moves only when a tool or the person takes time."""

    model: ScriptedProvider
    tools: Sequence[FakeTool] = ()
    answers: list[PermissionAnswer] = field(default_factory=list[PermissionAnswer])
    limits: TurnSettings = field(default_factory=TurnSettings)
    cost: Cost | None = None
    retries: int = 0
    pauses: list[float] = field(default_factory=list[float])
    clock: FakeClock = field(default_factory=FakeClock)
    recorder: FakeRecorder = field(default_factory=FakeRecorder)
    history: list[Message] = field(default_factory=lambda: [Message(MessageId("msg_1"), Role.USER, (TextPart("Go."),))])
    budget: Budget = field(init=False)
    loop: TurnLoop = field(init=False)

    def __post_init__(self) -> None:
        state, waits = PolicyState(Mode.ASK, (str(ROOT),)), UserWaitTimer(self.clock)
        approver = ScriptedApprover(self.answers, self.clock)
        permissions = PermissionChecker(state, approver, self.recorder, clock=self.clock, waits=waits)
        limits = Limits(self.limits.max_model_requests, self.limits.max_wall_seconds)
        self.budget = Budget(limits, self.clock, waits, cost=self.cost)
        runner = ToolRunner(self.tools, tool_bench(ROOT).context, permissions, self.recorder, clock=self.clock)

        async def own_runner() -> ToolRunner:
            return runner

        self.loop = TurnLoop(
            model=ModelInUse(self.model, fake_model("scripted")),
            build=self.build,
            new_runner=own_runner,
            recorder=self.recorder,
            ids=RandomIds(),
            budget=self.budget,
        )

        self.loop.resumption = StreamRetries(self.retries, RetryPolicy(self.pause, jitter=lambda: 0.0))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def build(self, history: Sequence[Message]) -> ProviderRequest:
        return ProviderRequest("test", "", (), tuple(history))

    async def run(self) -> TurnEnd:
        with anyio.fail_after(30):
            return await self.loop.run(TURN, self.history)


def bench(
    *turns: Turn, tool: FakeTool | None = None, repeat: bool = False, limits: TurnSettings | None = None
) -> Bench:
    model = ScriptedProvider(turns, repeat=repeat)
    return Bench(model, (tool or FakeTool(),), limits=limits or TurnSettings())


async def test_time_that_the_person_takes_is_not_the_turns():
    made = bench(calls("look"), says("Done."), tool=FakeTool(accesses=ASKS), limits=TurnSettings(max_wall_seconds=30))
    made.answers.append(PermissionAnswer.ALLOW_ONCE)
    assert (await made.run()).stop_reason is StopReason.END_TURN
    assert made.clock.monotonic() == 60


async def test_time_that_tools_take_is_limited():
    made = bench(calls("look"), repeat=True, limits=TurnSettings(max_wall_seconds=30))

    async def work(progress: Progress) -> ToolOutcome:
        del progress
        made.clock.advance(16_000)
        return ToolOutcome("done")

    made.tools[0].effect = work
    end = await made.run()
    assert end.stop_reason is StopReason.MAX_TURN_REQUESTS
    assert "30 seconds" in end.sentence
    assert len(made.model.requests) == 2


async def test_the_number_of_requests_is_limited():
    made = bench(calls("look"), repeat=True, limits=TurnSettings(max_model_requests=4))
    end = await made.run()
    assert end.stop_reason is StopReason.MAX_TURN_REQUESTS
    assert "4 model requests" in end.sentence
    assert len(made.model.requests) == 4


async def test_the_cost_of_every_request_is_added_to_that_of_the_session():
    def used(micro_units: int) -> Turn:
        return (UsageKnown(Usage(10, 1), Cost(micro_units, "USD")),)

    made = Bench(
        ScriptedProvider([calls("look") + used(5), says("Done.") + used(7)]), (FakeTool(),), cost=Cost(100, "USD")
    )
    await made.run()
    assert [event.cost for event in of_type(made.recorder.events, UsageReported)] == [
        Cost(105, "USD"),
        Cost(112, "USD"),
    ]
    assert made.budget.cost == Cost(112, "USD")


async def test_every_request_is_recorded_before_the_model_is_asked():
    held = gate()
    made = bench((held, *says("Hi.")))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            await held.reached.wait()
            assert [type(event) for event in made.recorder.order] == [ModelRequested]
            held.opened.set()


@pytest.mark.parametrize("stop", [ProviderStop.CONTENT_FILTER, ProviderStop.REFUSAL, ProviderStop.INTERRUPTED])
async def test_calls_of_an_answer_that_was_cut_are_not_run(stop: ProviderStop):
    tool = FakeTool()
    made = bench(says("I look.") + calls("look") + stops(stop), tool=tool)
    end = await made.run()
    assert tool.prepared == []
    assert end.sentence
    assert made.history[-1].tool_calls == ()
    [recorded] = of_type(made.recorder.events, MessageRecorded)
    assert recorded.complete is (stop is not ProviderStop.INTERRUPTED)


CUT = stops(ProviderStop.MAX_TOKENS, "The answer reached its limit of tokens.")


async def test_a_call_that_the_limit_cut_fails_and_the_turn_goes_on():
    tool = FakeTool()
    cut = calls_raw("look", '{"path": "new.txt", "content": "one two th')
    made = bench(says("I write.") + cut + uses(10, 4_096) + CUT, says("In pieces, then."), tool=tool)
    end = await made.run()
    assert (end.stop_reason, end.sentence) == (StopReason.END_TURN, "")
    assert tool.prepared == []
    [call] = made.history[1].tool_calls
    # What was cut is worth nothing, and would be sent again with every request.
    assert call.arguments == '{"path": "new.txt"}'
    [result] = made.history[2].parts
    assert isinstance(result, ToolResultPart)
    assert (result.call_id, result.is_error) == (call.call_id, True)
    assert result.text.startswith("This call was cut at 4,096 tokens, the limit of one answer, before it was complete")
    [started], [ended] = of_type(made.recorder.events, ToolCallStarted), of_type(made.recorder.events, ToolCallFinished)
    assert started.call.raw_input == {"path": "new.txt"}
    assert (ended.status, ended.failure) == (ToolCallStatus.FAILED, "tool.call-cut")
    assert made.history[-1].text == "In pieces, then."


async def test_a_call_that_the_window_cut_is_not_said_to_have_reached_the_limit_of_an_answer():
    full = stops(ProviderStop.MAX_TOKENS, WINDOW_FULL)
    made = bench(calls_raw("look", '{"n": 1') + uses(10, 300) + full, says("Again."))
    await made.run()
    assert made.history[1].tool_calls[0].problem.startswith("This call was cut at 300 tokens, where the context window")


@pytest.mark.parametrize("arguments", ["", "{", '{"path": "a"}'])
async def test_the_last_call_of_a_cut_answer_does_not_run_even_when_it_looks_complete(arguments: str):
    """Servers close what a limit left open, such as the text of a file (vLLM does)."""
    tool = FakeTool()
    made = bench(calls_raw("look", arguments) + CUT, says("Again."), tool=tool)
    await made.run()
    assert tool.prepared == []
    assert made.history[1].tool_calls[0].problem.startswith("This call was cut at 8,192 tokens")


async def test_calls_before_the_cut_one_run():
    tool = FakeTool()
    whole = calls_raw("look", '{"n": 1}', call_id="a") + calls_raw("look", '{"n": 2}', index=1, call_id="b")
    made = bench(whole + calls_raw("look", '{"n": 3', index=2, call_id="c") + CUT, says("Done."), tool=tool)
    await made.run()
    assert tool.prepared == [{"n": 1}, {"n": 2}]
    assert [getattr(part, "is_error", None) for part in made.history[2].parts] == [False, False, True]


async def test_a_call_that_the_wire_calls_whole_runs_also_when_nothing_follows_it():
    tool = FakeTool()
    made = bench((*calls_raw("look", '{"n": 1}'), ToolCallEnded(0), *CUT), says("Done."), tool=tool)
    assert (await made.run()).sentence == ""
    assert tool.prepared == [{"n": 1}]


async def test_calls_whose_pieces_come_mixed_are_both_cut():
    tool = FakeTool()
    mixed = (*call_of("a", 0), ToolCallBegun(1, "b", "look"), ToolCallFragment(0, " "))
    made = bench((*mixed, *CUT), says("Done."), tool=tool)
    await made.run()
    assert tool.prepared == []


async def test_three_answers_in_a_row_with_a_cut_call_end_the_turn_at_its_limit_of_tokens():
    cut = calls_raw("look", '{"path": "new') + CUT
    made = bench(cut, cut, calls("look"), cut, cut, cut, says("Never."))
    end = await made.run()
    assert end.stop_reason is StopReason.MAX_TOKENS
    assert "3 answers in a row" in end.sentence
    assert "`turn.max_output_tokens`" in end.sentence
    assert len(made.model.requests) == 6
    # The last one is told and recorded as failed too.
    assert len(of_type(made.recorder.events, ToolCallFinished)) == 6


async def test_the_model_goes_on_with_text_that_the_limit_cut():
    made = bench(says("Half an ans") + uses(10, 8_192) + CUT, says("wer.") + uses(20, 2))
    assert await made.run() == TurnEnd(StopReason.END_TURN)
    half, note, rest = made.history[1:]
    assert (half.text, note.role, rest.text) == ("Half an ans", Role.USER, "wer.")
    assert note.text == CONTINUE_CUT_NOTE
    recorded = of_type(made.recorder.events, MessageRecorded)
    assert [(event.complete, event.for_model) for event in recorded] == [(True, True), (True, False), (True, True)]
    assert recorded[1].message.parts == (ThinkingPart(f"{turn_loop.CUT} {turn_loop.GOES_ON}"),)
    assert [event.message for event in of_type(made.recorder.events, ContextAdded)] == [note]
    assert [event.usage.output_tokens for event in of_type(made.recorder.events, UsageReported)] == [8_192, 2]
    assert (last_answer(made.history), made.pauses) == ("Half an answer.", [])


@pytest.mark.parametrize("nothing", [(), thinks("Hm.")], ids=["nothing", "a thought"])
async def test_a_model_that_the_limit_cut_before_its_first_word_is_asked_to_reason_less(nothing: Turn):
    made = bench(nothing + CUT, says("Done."))
    await made.run()
    assert f"<note>{ANSWER_SOONER}</note>" in [message.text for message in made.model.requests[1].messages]
    assert made.history[-1].text == "Done."


async def test_three_answers_in_a_row_that_the_limit_cut_end_the_turn_whether_text_or_calls():
    made = bench(
        says("a") + CUT, calls("look"), says("b") + CUT, calls("look") + CUT, thinks("c") + CUT, says("Never.")
    )
    end = await made.run()
    assert end.stop_reason is StopReason.MAX_TOKENS
    assert "3 answers of the model in a row" in end.sentence
    assert "`turn.max_output_tokens`" in end.sentence
    assert end.failure == TurnFailure("provider.answer-cut")
    assert len(made.model.requests) == 5


@pytest.mark.parametrize("end", [stops(ProviderStop.MAX_TOKENS, WINDOW_FULL), uses(99_000, 1_000) + CUT])
async def test_where_the_window_is_full_the_model_is_not_asked_to_go_on(end: Turn):
    made = bench(says("Half") + end, says("Never."))
    assert (await made.run()).sentence == WINDOW_FULL
    assert len(made.model.requests) == 1


async def test_an_answer_that_was_cut_and_then_broke_off_goes_on_and_is_one():
    made = resuming(says("One, ") + CUT, says("two, ") + BREAKS, says("three.") + CUT, thinks("All is said."))
    assert await made.run() == TurnEnd(StopReason.END_TURN)
    assert [made.history[place].text for place in (2, 4, 6)] == [CONTINUE_CUT_NOTE, CONTINUE_NOTE, CONTINUE_CUT_NOTE]
    assert last_answer(made.history) == "One, two, three."


BREAKS = stops(ProviderStop.INTERRUPTED, "The connection to lab broke; try again.")


def resuming(*turns: Turn, retries: int = 4, tool: FakeTool | None = None) -> Bench:
    return Bench(ScriptedProvider(turns), (tool or FakeTool(),), retries=retries)


async def test_the_model_goes_on_with_an_answer_that_broke_off():
    made = resuming(says("Half an ans") + uses(10, 3) + BREAKS, says("wer.") + uses(20, 2))
    assert await made.run() == TurnEnd(StopReason.END_TURN)
    half, note, rest = made.history[1:]
    assert (half.text, note.role, rest.text) == ("Half an ans", Role.USER, "wer.")
    assert note.text == f"<note>{CONTINUE}</note>"
    assert made.model.requests[1].messages[1:] == (half, note)
    recorded = of_type(made.recorder.events, MessageRecorded)
    assert [(event.complete, event.for_model) for event in recorded] == [(False, True), (True, False), (True, True)]
    [thought] = recorded[1].message.parts
    assert thought == ThinkingPart("The connection to lab broke. The model is asked to continue.")
    assert [event.message for event in of_type(made.recorder.events, ContextAdded)] == [note]
    assert [event.usage.output_tokens for event in of_type(made.recorder.events, UsageReported)] == [3, 2]
    assert made.pauses == [0.25]


async def test_answers_that_break_off_again_and_again_end_the_turn_after_so_many_tries():
    made = resuming(*[says("a ") + BREAKS] * 9, retries=2)
    end = await made.run()
    assert (end.stop_reason, end.sentence) == (StopReason.END_TURN, "The connection to lab broke; try again.")
    assert end.failure is not None
    assert end.failure.code == "provider.interrupted"
    assert len(made.model.requests) == 3
    assert made.pauses == [0.25, 0.5]


async def test_breaks_are_counted_in_a_row():
    made = resuming(*[says("a ") + BREAKS, calls("look")] * 3, says("Done."), retries=1)
    assert (await made.run()).sentence == ""
    assert made.pauses == [0.25] * 3


async def test_calls_of_an_answer_that_broke_off_are_made_again_by_the_model_and_not_run():
    tool = FakeTool()
    broken = says("I look. ") + calls_raw("look", '{"n": 1}') + calls_raw("look", '{"n": 2}', index=1) + BREAKS
    made = resuming(broken, calls_raw("look", '{"n": 3}'), says("Done."), tool=tool)
    await made.run()
    assert tool.prepared == [{"n": 3}]
    assert "make it again" in made.history[2].text


@pytest.mark.parametrize("came", [calls("look"), ()], ids=["a call", "nothing"])
async def test_an_answer_that_broke_off_before_any_words_is_asked_for_again_as_it_was(came: Turn):
    made = resuming(came + BREAKS, says("Done."))
    await made.run()
    assert made.model.requests[0].messages == made.model.requests[1].messages
    assert made.history[-1].text == "Done."


async def test_after_mere_reasoning_the_model_is_told_that_nothing_came():
    made = resuming(thinks("Hm.") + BREAKS, says("Done."))
    await made.run()
    assert made.history[2].text == f"<note>{BEGIN_AGAIN}</note>"


async def test_after_reasoning_without_an_answer_the_model_is_told_that_there_was_none():
    empty = EmptyAnswerError("scripted/test ended without an answer; try again.")
    made = resuming((*thinks("Hm."), empty), says("Done."))
    await made.run()
    assert made.history[2].text == f"<note>{ANSWER_NOW}</note>"
    assert made.history[-1].text == "Done."


def test_a_call_has_the_name_of_its_tool_whatever_stands_around_it():
    written = ("functions.read_file<|channel|>commentary", "read_file", "unheard_of")
    parts = [ToolCallPart(ToolCallId(str(place)), name, "{}") for place, name in enumerate(written)]
    named = with_plain_names(Message(MessageId("m"), Role.ASSISTANT, tuple(parts)), ["read_file", "run_command"])
    assert [call.name for call in named.tool_calls] == ["read_file", "read_file", "unheard_of"]
    assert with_plain_names(named, ["read_file"]) is named


async def test_words_that_the_user_has_read_are_not_asked_for_again_after_more_reasoning_broke_off():
    made = resuming(says("Half ") + BREAKS, thinks("Hm.") + BREAKS, says("\n") + BREAKS, says("an answer."), retries=3)
    await made.run()
    assert [told.text for told in made.history[2:7:2]] == [CONTINUE_NOTE] * 3
    assert last_answer(made.history).split() == ["Half", "an", "answer."]


@pytest.mark.parametrize(
    "nothing",
    [(), thinks("All is said."), (EmptyAnswerError("It ended without an answer."),)],
    ids=["nothing", "a thought", "an error"],
)
async def test_a_model_that_has_nothing_to_add_to_an_answer_that_broke_off_ends_the_turn(nothing: Turn):
    made = resuming(says("A whole answer.") + BREAKS, nothing)
    assert await made.run() == TurnEnd(StopReason.END_TURN)
    assert last_answer(made.history) == "A whole answer."


async def test_the_last_answer_is_whole_where_it_broke_off_and_no_longer():
    made = resuming(calls("look") + says("I looked. "), says("Half ") + BREAKS, says("an ") + BREAKS, says("answer."))
    await made.run()
    assert last_answer(made.history) == "Half an answer."
    assert last_answer(made.history[:2]) == "I looked."
    assert last_answer(made.history[:1]) == ""


async def test_a_provider_that_refused_to_go_on_is_not_asked_again():
    made = resuming((*says("Half"), Stopped(ProviderStop.INTERRUPTED, "The key was refused.", is_final=True)))
    assert (await made.run()).sentence == "The key was refused."
    assert len(made.model.requests) == 1


async def test_text_that_came_before_a_cancel_is_recorded_as_incomplete_and_remembered():
    held = gate()
    made = bench((*says("The first half."), held))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            await held.reached.wait()
            tasks.cancel_scope.cancel()
    [recorded] = of_type(made.recorder.events, MessageRecorded)
    assert (recorded.message.text, recorded.complete) == ("The first half.", False)
    assert made.history[-1] == recorded.message


async def test_an_error_of_the_provider_comes_out_as_itself_and_keeps_what_came():
    made = bench((*says("Half."), ProviderOverloadedError("It is overloaded.")))
    with pytest.raises(ProviderOverloadedError):
        await made.run()
    assert [event.message.text for event in of_type(made.recorder.events, MessageRecorded)] == ["Half."]


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_answer_without_words_and_calls_is_an_error(text: str):
    with pytest.raises(EmptyAnswerError):
        await bench(says(text)).run()


async def test_text_is_shown_while_it_comes_and_recorded_once_when_it_is_whole():
    made = bench(says("One ", "two."))
    await made.run()
    assert [event.text for event in of_type(made.recorder.order, TextStreamed)] == ["One ", "two."]
    [recorded] = of_type(made.recorder.events, MessageRecorded)
    assert (recorded.message.text, recorded.complete) == ("One two.", True)


def call_of(call_id: str, index: int) -> Turn:
    return (ToolCallBegun(index, call_id, "look"), ToolCallFragment(index, "{}"))


@pytest.mark.parametrize("call_id", ["", "a b", "é", "x" * 257, "line\nfeed"])
async def test_an_id_that_is_not_short_and_printable_is_replaced(call_id: str):
    made = bench(call_of(call_id, 0), says("Done."))
    await made.run()
    [call] = made.history[1].tool_calls
    assert call.call_id.startswith("call_")
    assert call.call_id != call_id


async def test_ids_are_unique_in_one_answer_and_over_the_whole_session():
    made = bench(call_of("c", 0) + call_of("c", 1), call_of("c", 0), call_of("d", 0), says("Done."))
    await made.run()
    asked = [call.call_id for message in made.history for call in message.tool_calls]
    assert len(asked) == len(set(asked)) == 4
    assert (asked[0], asked[3]) == ("c", "d")


async def test_a_call_that_fails_the_same_way_ends_the_turn_when_the_user_refuses_the_fifth():
    async def fail(progress: Progress) -> ToolOutcome:
        del progress
        return ToolOutcome("No.", is_error=True)

    made = bench(calls("look"), repeat=True, tool=FakeTool(effect=fail))
    made.answers.append(PermissionAnswer.REJECT_ONCE)
    end = await made.run()
    assert end.stop_reason is StopReason.END_TURN
    assert "again and again" in end.sentence
    assert len(made.model.requests) == 5


async def test_results_follow_their_calls_in_the_history():
    made = bench(calls("look") + calls("look"), says("Done."))
    await made.run()
    asked = [part.call_id for part in made.history[1].parts if isinstance(part, ToolCallPart)]
    given = [getattr(part, "call_id", ToolCallId("")) for part in made.history[2].parts]
    assert made.history[2].role is Role.TOOL
    assert given == asked


async def test_a_sentence_of_ours_begins_a_paragraph_of_its_own_and_is_nothing_that_the_model_said():
    recorder = FakeRecorder()
    await show_sentence(recorder, TURN, RandomIds(), "First.")
    await show_sentence(recorder, TURN, RandomIds(), "Second.")
    assert [event.text for event in of_type(recorder.order, TextStreamed)] == ["First.", "\n\nSecond."]
    assert [event.for_model for event in of_type(recorder.events, MessageRecorded)] == [False, False]
