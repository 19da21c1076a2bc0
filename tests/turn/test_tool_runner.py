"""Running the calls of one message."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.access import Actor, Origin, RunCommand
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.messages import ToolCallPart, ToolResultPart
from pattern_acp.domain.tool_calls import Plan, TextContent, ToolCallStatus
from pattern_acp.journal.events import (
    PermissionAnswered,
    PermissionAsked,
    PermissionDecided,
    PlanUpdated,
    ToolCallFinished,
    ToolCallStarted,
)
from pattern_acp.policy.decide import Mode
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolFailedError, ToolOutcome
from pattern_acp.turn.permissions import PermissionChecker, PolicyState
from pattern_acp.turn.recorder import ToolCallRunning
from pattern_acp.turn.tool_runner import CANCELLED_SENTENCE, MOST_LEVELS, SIDE_BY_SIDE, ToolRunner
from tests.support.approver import ScriptedApprover
from tests.support.constellation import FakeClock
from tests.support.tools import FakeTool, tool_bench
from tests.support.turn_recorder import FakeRecorder
from tests.support.turns import of_type

TURN = TurnId("turn_1")
ROOT = Path("/project")


@dataclass(slots=True)
class Bench:
    tools: Sequence[FakeTool]
    answers: list[PermissionAnswer] = field(default_factory=list[PermissionAnswer])
    clock: FakeClock = field(default_factory=FakeClock)
    recorder: FakeRecorder = field(default_factory=FakeRecorder)
    runner: ToolRunner = field(init=False)

    def __post_init__(self) -> None:
        state = PolicyState(Mode.ASK, (str(ROOT),))
        permissions = PermissionChecker(
            state, ScriptedApprover(self.answers, self.clock), self.recorder, clock=self.clock
        )
        self.runner = ToolRunner(self.tools, tool_bench(ROOT).context, permissions, self.recorder, clock=self.clock)

    async def run(self, *calls: ToolCallPart) -> list[ToolResultPart]:
        with anyio.fail_after(30):
            return await self.runner.run(TURN, calls)

    @property
    def finished(self) -> list[ToolCallFinished]:
        return of_type(self.recorder.events, ToolCallFinished)


def call(number: int = 1, name: str = "look", arguments: str = "{}") -> ToolCallPart:
    return ToolCallPart(ToolCallId(f"call_{number}"), name, arguments)


@dataclass(slots=True)
class Together:
    """An effect that counts how many calls are inside it at once, and waits for the test."""

    inside: int = 0
    most: int = 0
    entered: list[str] = field(default_factory=list[str])
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self, progress: Progress) -> ToolOutcome:
        del progress
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.opened.wait()
        self.inside -= 1
        return ToolOutcome("done")


async def most_at_once(tool: FakeTool, together: Together, count: int) -> int:
    bench = Bench([tool])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, *(call(number, arguments=f'{{"n": {number}}}') for number in range(count)))
            await anyio.wait_all_tasks_blocked()
            together.opened.set()
    assert len(bench.finished) == count
    return together.most


async def test_calls_that_only_read_run_side_by_side_up_to_four():
    together = Together()
    assert SIDE_BY_SIDE == 4
    assert await most_at_once(FakeTool(effect=together.wait), together, 7) == 4


async def test_calls_side_by_side_are_announced_as_they_were_written_however_long_each_takes_to_prepare():
    ready, begun = anyio.Event(), list[str]()

    class Slow(FakeTool):
        async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
            begun.append(call_id)
            await ready.wait()
            return await super().prepare(arguments, call_id, context)

    bench = Bench([Slow("slow"), FakeTool("fast"), FakeTool()])
    written = [call(1, "slow"), call(2, "fast"), call(3, "fast", "[1]"), call(4, "slow"), call(5, "fast"), call(6)]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, *written)
            await anyio.wait_all_tasks_blocked()
            assert of_type(bench.recorder.order, ToolCallStarted) == []
            ready.set()
    assert len(begun) == 2
    announced = [event.call.call_id for event in of_type(bench.recorder.order, ToolCallStarted)]
    assert announced == [one.call_id for one in written]


async def test_calls_that_change_things_run_alone():
    together = Together()
    assert await most_at_once(FakeTool(changes_things=True, effect=together.wait), together, 3) == 1


async def test_a_change_waits_for_the_reads_before_it_and_holds_up_those_behind_it():
    order: list[str] = []

    def noting(name: str, *, changes_things: bool) -> FakeTool:
        async def note(progress: Progress) -> ToolOutcome:
            del progress
            order.append(f"{name} begins")
            await anyio.lowlevel.checkpoint()
            order.append(f"{name} ends")
            return ToolOutcome(name)

        return FakeTool(name, changes_things, effect=note)

    bench = Bench([noting("read", changes_things=False), noting("write", changes_things=True)])
    results = await bench.run(call(1, "read"), call(2, "write"), call(3, "read"))
    assert [result.text for result in results] == ["read", "write", "read"]
    assert order == [f"{name} {what}" for name in ("read", "write", "read") for what in ("begins", "ends")]


async def test_a_call_is_announced_with_its_decision_in_one_transaction_before_it_runs():
    bench = Bench([FakeTool()])
    await bench.run(call())
    assert [type(new.event) for new in bench.recorder.transactions[0]] == [ToolCallStarted, PermissionDecided]
    kinds = [type(event) for event in bench.recorder.order]
    assert kinds == [ToolCallStarted, PermissionDecided, ToolCallRunning, ToolCallFinished]


async def test_what_a_tool_read_is_recorded_with_its_origin():
    async def read(progress: Progress) -> ToolOutcome:
        del progress
        return ToolOutcome("text", origin=Origin.COMMAND)

    bench = Bench([FakeTool(effect=read)])
    await bench.run(call())
    [new] = bench.recorder.transactions[-1]
    assert (new.actor, new.origin) == (Actor.TOOL, Origin.COMMAND)


async def test_a_plan_is_recorded_with_the_end_of_its_call():
    async def plan(progress: Progress) -> ToolOutcome:
        del progress
        return ToolOutcome("planned", plan=Plan(()))

    bench = Bench([FakeTool(effect=plan)])
    await bench.run(call())
    assert [type(new.event) for new in bench.recorder.transactions[-1]] == [ToolCallFinished, PlanUpdated]


async def test_a_cancelled_call_ends_once_as_interrupted_with_what_it_had_shown():
    shown = TextContent("half of the output")
    reached = anyio.Event()

    async def hang(progress: Progress) -> ToolOutcome:
        await progress.show((shown,))
        reached.set()
        await anyio.sleep_forever()
        raise AssertionError

    bench = Bench([FakeTool(effect=hang)])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, call())
            await reached.wait()
            tasks.cancel_scope.cancel()
    [finished] = bench.finished
    assert (finished.status, finished.interrupted) == (ToolCallStatus.FAILED, True)
    assert finished.content == (shown, TextContent(CANCELLED_SENTENCE))


async def test_every_one_of_several_cancelled_calls_ends_once():
    together = Together()
    bench = Bench([FakeTool(effect=together.wait)])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, call(1), call(2), call(3))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert sorted(finished.call_id for finished in bench.finished) == ["call_1", "call_2", "call_3"]
    assert all(finished.interrupted for finished in bench.finished)


async def test_a_tool_that_fails_tells_the_model_why_and_shows_its_preview():
    preview = TextContent("what it would do")

    async def fail(progress: Progress) -> ToolOutcome:
        del progress
        raise ToolFailedError("The file is gone; look again.")

    bench = Bench([FakeTool(effect=fail, preview=(preview,))])
    [result] = await bench.run(call())
    assert (result.text, result.is_error) == ("The file is gone; look again.", True)
    assert bench.finished[0].content == (preview, TextContent("The file is gone; look again."))


async def test_a_tool_that_breaks_is_a_result_and_not_the_end_of_the_turn():
    async def break_down(progress: Progress) -> ToolOutcome:
        del progress
        raise KeyError("secret words")

    bench = Bench([FakeTool(effect=break_down)])
    [result] = await bench.run(call())
    assert result.is_error
    assert "secret words" not in result.text


@pytest.mark.parametrize("count", [1, 3])
async def test_what_cannot_be_recorded_stops_the_turn_with_the_error_itself(count: int):
    async def lose(progress: Progress) -> ToolOutcome:
        del progress
        raise DatabaseError("The disk is full; free some space.")

    bench = Bench([FakeTool(effect=lose)])
    with pytest.raises(DatabaseError):
        await bench.run(*(call(number) for number in range(count)))


async def test_a_refused_call_does_not_run():
    together = Together()
    bench = Bench(
        [FakeTool(accesses=(RunCommand("make", str(ROOT)),), effect=together.wait)], [PermissionAnswer.REJECT_ONCE]
    )
    [result] = await bench.run(call())
    assert result.is_error
    assert together.most == 0
    assert of_type(bench.recorder.order, ToolCallRunning) == []


def nested(levels: int) -> str:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return json.dumps(value)


@pytest.mark.parametrize("answer", [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE])
async def test_the_time_that_the_user_takes_to_answer_is_not_the_call_s(answer: PermissionAnswer):
    clock = FakeClock()

    async def work(progress: Progress) -> ToolOutcome:
        del progress
        clock.advance(40)
        return ToolOutcome("done")

    tool = FakeTool(accesses=(RunCommand("make", str(ROOT)),), effect=work)
    bench = Bench([tool], [answer], clock)
    await bench.run(call())
    (finished,) = bench.finished
    assert finished.duration_ms == (40 if answer is PermissionAnswer.ALLOW_ONCE else 0)


async def test_arguments_may_be_nested_as_deep_as_clients_can_read_and_no_deeper():
    tool = FakeTool()
    bench = Bench([tool])
    fits, too_deep = await bench.run(call(1, arguments=nested(MOST_LEVELS)), call(2, arguments=nested(MOST_LEVELS + 1)))
    assert not fits.is_error
    assert str(MOST_LEVELS) in too_deep.text
    assert len(tool.prepared) == 1


async def test_a_near_valid_call_runs_as_it_was_meant_and_its_repair_is_in_the_journal():
    tool = FakeTool()
    bench = Bench([tool])
    [result] = await bench.run(call(name="Look", arguments='```json\n{"a": "planted",}\n```'))
    assert not result.is_error
    [started] = of_type(bench.recorder.events, ToolCallStarted)
    assert (started.call.name, started.call.raw_input) == ("look", {"a": "planted"})
    assert started.repairs == (
        "read a misspelt name as the tool look",
        "removed a code fence",
        "removed a trailing comma",
    )


async def test_a_valid_call_has_no_repairs():
    bench = Bench([FakeTool()])
    await bench.run(call(arguments='{"a": 1}'))
    assert [started.repairs for started in of_type(bench.recorder.events, ToolCallStarted)] == [()]


async def test_calls_in_another_case_run_side_by_side_too():
    together = Together()
    bench = Bench([FakeTool(effect=together.wait)])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.run, call(1, "LOOK"), call(2, "look"))
            await anyio.wait_all_tasks_blocked()
            together.opened.set()
    assert together.most == 2


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '"text"'])
async def test_arguments_that_are_no_object_are_an_announced_and_failed_call(arguments: str):
    bench = Bench([FakeTool()])
    [result] = await bench.run(call(arguments=arguments))
    assert result.is_error
    assert [type(event) for event in bench.recorder.order] == [ToolCallStarted, ToolCallFinished]


async def test_a_tool_that_does_not_exist_is_answered_with_those_that_do():
    bench = Bench([FakeTool("look"), FakeTool("touch")])
    [result] = await bench.run(call(name="x" * 200))
    assert "look, touch" in result.text
    assert "x" * 81 not in result.text


@pytest.mark.parametrize("failed", [True, False])
async def test_a_repeated_call_is_noted_at_the_third_time_and_asked_about_at_the_fifth(failed: bool):
    ran: list[int] = []

    async def act(progress: Progress) -> ToolOutcome:
        del progress
        ran.append(1)
        return ToolOutcome("the same", is_error=failed)

    bench = Bench([FakeTool(effect=act)], [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE])
    noted = [" 3 times" in (await bench.run(call(number)))[0].text for number in range(3)]
    assert noted == [False, False, True]
    await bench.run(call(3))
    # The user lets the fifth go on, and refuses the ninth.
    for number in range(4, 9):
        assert bench.runner.repeats.stop == ""
        results = await bench.run(call(number))
        assert ("refused" in results[0].text) is (number == 8)
    assert len(ran) == 8
    assert "again and again" in bench.runner.repeats.stop


async def test_a_repeated_call_that_cannot_be_prepared_is_asked_about_and_reads_its_error_again():
    bench = Bench([FakeTool("look")], [PermissionAnswer.ALLOW_ONCE])
    texts = [(await bench.run(call(number, "nosuch")))[0].text for number in range(5)]
    assert "4 times" in texts[3]
    assert texts[4] == texts[0]
    assert [type(event) for event in bench.recorder.order][-6:] == [
        ToolCallStarted,
        PermissionDecided,
        PermissionAsked,
        PermissionAnswered,
        ToolCallRunning,
        ToolCallFinished,
    ]
    assert bench.runner.repeats.stop == ""


async def test_a_call_that_cannot_be_prepared_begins_and_ends_in_one_transaction():
    bench = Bench([])
    await bench.run(call(name="nosuch"))
    recorded = [[type(new.event) for new in events] for events in bench.recorder.transactions]
    assert recorded == [[ToolCallStarted, ToolCallFinished]]
