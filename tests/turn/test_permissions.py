"""The one way to an effect."""

from dataclasses import dataclass

import anyio
import pytest

from pattern_acp.domain.access import Access, ReadPath, RunCommand
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.journal.events import GrantStored, PermissionAnswered, PermissionAsked, PermissionDecided
from pattern_acp.policy.decide import Mode, Verdict
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.turn.permissions import Denied, PermissionChecker, PolicyState
from tests.support.approver import ScriptedApprover
from tests.support.constellation import FakeClock
from tests.support.turn_recorder import FakeRecorder

TURN, CALL = TurnId("turn_1"), ToolCallId("call_1")
VIEW = ToolCallView(CALL, "run_command", "pytest", ToolKind.EXECUTE, {})
PYTEST: tuple[Access, ...] = (RunCommand("pytest tests/a", "/project"),)


@dataclass(slots=True)
class Bench:
    permissions: PermissionChecker
    state: PolicyState
    recorder: FakeRecorder
    approver: ScriptedApprover

    async def authorize(self, accesses: tuple[Access, ...] = PYTEST) -> Denied | None:
        decision = self.permissions.decide(accesses)
        await self.permissions.announce(TURN, decision, accesses, CALL)
        return await self.permissions.authorize(
            TURN, decision, accesses, VIEW, again=lambda: self.permissions.decide(accesses)
        )


def bench(*answers: PermissionAnswer, mode: Mode = Mode.ASK) -> Bench:
    clock, recorder = FakeClock(), FakeRecorder()
    state = PolicyState(mode, ("/project",))
    approver = ScriptedApprover(list(answers), clock)
    return Bench(PermissionChecker(state, approver, recorder, clock=clock), state, recorder, approver)


async def test_what_is_allowed_runs_without_a_question_and_is_recorded():
    it = bench()
    assert await it.authorize((ReadPath("/project/a.txt"),)) is None
    (decided,) = it.recorder.events
    assert isinstance(decided, PermissionDecided)
    assert (decided.verdict, decided.rule) == ("allow", "inside_read")


async def test_what_is_denied_never_asks():
    it = bench(mode=Mode.PLAN)
    refusal = await it.authorize()
    assert refusal is not None
    assert refusal.for_model.startswith("Not allowed: Plan mode")
    assert it.approver.requests == []


async def test_a_question_and_its_answer_are_recorded_in_order():
    it = bench(PermissionAnswer.ALLOW_ONCE)
    assert await it.authorize() is None
    assert [type(event) for event in it.recorder.events] == [PermissionDecided, PermissionAsked, PermissionAnswered]
    assert it.state.grants == []


async def test_an_always_is_remembered_and_recorded_with_the_answer():
    it = bench(PermissionAnswer.ALLOW_ALWAYS)
    assert await it.authorize() is None
    assert isinstance(it.recorder.events[-1], GrantStored)
    assert it.permissions.decide(PYTEST).verdict is Verdict.ALLOW
    assert await it.authorize() is None
    assert len(it.approver.requests) == 1


async def test_a_refusal_for_ever_beats_an_allowance():
    it = bench(PermissionAnswer.ALLOW_ALWAYS, PermissionAnswer.REJECT_ALWAYS)
    await it.authorize()
    other: tuple[Access, ...] = (RunCommand("pytest tests/a -x && make", "/project"),)
    assert isinstance(await it.authorize(other), Denied)
    assert it.permissions.decide(other).verdict is Verdict.DENY


async def test_a_withdrawn_question_is_a_refusal():
    it = bench(PermissionAnswer.CANCELLED)
    assert isinstance(await it.authorize(), Denied)


async def test_the_person_s_time_is_counted_apart():
    it = bench(PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE)
    await it.authorize()
    await it.authorize()
    assert it.permissions.waited == 120


async def side_by_side(it: Bench) -> list[Denied | None]:
    refusals: list[Denied | None] = []

    async def authorize() -> None:
        refusals.append(await it.authorize())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(authorize)
        tasks.start_soon(authorize)
    return refusals


@pytest.mark.parametrize(
    ("answer", "verdict"), [(PermissionAnswer.ALLOW_ALWAYS, "allow"), (PermissionAnswer.REJECT_ALWAYS, "deny")]
)
async def test_an_always_settles_the_call_that_waited_beside_it(answer: PermissionAnswer, verdict: str):
    it = bench(answer)
    refusals = await side_by_side(it)
    assert [refusal is None for refusal in refusals] == [answer.allows, answer.allows]
    assert len(it.approver.requests) == 1
    decided = [event.verdict for event in it.recorder.events if isinstance(event, PermissionDecided)]
    assert decided == ["ask", "ask", verdict]


async def test_an_answer_for_one_call_leaves_the_question_about_the_next():
    it = bench(PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE)
    first, second = await side_by_side(it)
    assert first is None
    assert isinstance(second, Denied)
    assert it.permissions.waited == 120
