"""What every `Approver` does. A new implementation adds its factory to `APPROVERS`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from pattern_acp.acp.client import EditorApprover, EditorView, FlushTimer
from pattern_acp.acp.updates import EditorAbilities
from pattern_acp.domain.clock import SessionId, ToolCallId
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, Approver, PermissionAnswer
from tests.support.approver import ScriptedApprover
from tests.support.connected_editor import connected_editor
from tests.support.constellation import FakeClock
from tests.support.editor import JsonDict

SESSION = SessionId("ses_1")

Factory = Callable[[list[PermissionAnswer]], AbstractAsyncContextManager[Approver]]
"""A factory's person gives the answers in turn."""


@asynccontextmanager
async def scripted(answers: list[PermissionAnswer]) -> AsyncGenerator[Approver, None]:
    yield ScriptedApprover(answers, FakeClock())


@asynccontextmanager
async def editor(answers: list[PermissionAnswer]) -> AsyncGenerator[Approver, None]:
    async with connected_editor() as (fake, dispatcher):

        async def permit(params: JsonDict) -> JsonDict:
            del params
            answer = answers.pop(0)
            if answer is PermissionAnswer.CANCELLED:
                return {"outcome": "cancelled"}
            return {"outcome": "selected", "optionId": answer.value}

        fake.permission = permit
        view = EditorView(SESSION, dispatcher, EditorAbilities(), FlushTimer(), FakeClock())
        yield EditorApprover(SESSION, dispatcher, EditorAbilities(), view)


APPROVERS: dict[str, Factory] = {"scripted": scripted, "editor": editor}


@pytest.fixture(params=list(APPROVERS))
def factory(request: pytest.FixtureRequest) -> Factory:
    return APPROVERS[request.param]


WITH_WORDS = {PermissionAnswer.ALLOW_EDITED, PermissionAnswer.REJECT_WITH_REASON}
"""Answers that an editor offers only where it can show a form for the words."""

OFFERABLE = [answer for answer in PermissionAnswer if answer not in {PermissionAnswer.CANCELLED, *WITH_WORDS}]


def question(*offered: PermissionAnswer, call_id: str = "call_1") -> ApprovalRequest:
    call = ToolCallView(ToolCallId(call_id), "run_command", "pytest", ToolKind.EXECUTE, {"command": "pytest"})
    return ApprovalRequest(
        call, "It runs a command.", tuple(ApprovalOption(answer, answer.value) for answer in offered)
    )


@pytest.mark.parametrize("answer", OFFERABLE)
async def test_the_answer_is_what_the_person_chose(factory: Factory, answer: PermissionAnswer):
    with anyio.fail_after(30):
        async with factory([answer]) as approver:
            assert await approver.ask(question(*OFFERABLE)) is answer


@pytest.mark.parametrize("answer", OFFERABLE)
async def test_an_answer_that_was_not_offered_is_a_refusal_of_this_one(factory: Factory, answer: PermissionAnswer):
    others = [other for other in OFFERABLE if other is not answer]
    with anyio.fail_after(30):
        async with factory([answer]) as approver:
            assert await approver.ask(question(*others)) is PermissionAnswer.REJECT_ONCE


async def test_a_question_that_was_withdrawn_is_no_consent(factory: Factory):
    with anyio.fail_after(30):
        async with factory([PermissionAnswer.CANCELLED]) as approver:
            answer = await approver.ask(question(*OFFERABLE))
    assert answer is PermissionAnswer.CANCELLED
    assert not answer.allows


async def test_each_question_gets_its_own_answer(factory: Factory):
    with anyio.fail_after(30):
        async with factory(
            [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE, PermissionAnswer.ALLOW_ALWAYS]
        ) as approver:
            answers = [await approver.ask(question(*OFFERABLE, call_id=f"call_{number}")) for number in range(3)]
    assert answers == [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE, PermissionAnswer.ALLOW_ALWAYS]
