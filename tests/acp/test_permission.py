"""Asking through the editor."""

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.client import EditorApprover, EditorView, FlushTimer, abilities_of
from pattern_acp.acp.updates import EditorAbilities
from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId
from pattern_acp.domain.tool_calls import DiffContent, ToolCallView, ToolKind
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.turn.recorder import TextStreamed
from tests.support.connected_editor import connected_editor
from tests.support.constellation import FakeClock
from tests.support.editor import FakeEditor, JsonDict

SESSION = SessionId("ses_1")
ONCE = ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Allow once")
NO = ApprovalOption(PermissionAnswer.REJECT_ONCE, "Reject")
CALL = ToolCallView(
    ToolCallId("call_1"),
    "write_file",
    "Create a.txt",
    ToolKind.EDIT,
    {"path": "a.txt", "content": "x" * 3_000_000},
    content=(DiffContent("/project/a.txt", None, "x" * 3_000_000),),
)
REQUEST = ApprovalRequest(CALL, "It changes a file.", (ONCE, NO))


def approver(dispatcher: Dispatcher) -> tuple[EditorApprover, EditorView]:
    view = EditorView(SESSION, dispatcher, EditorAbilities(), FlushTimer(), FakeClock())
    return EditorApprover(SESSION, dispatcher, EditorAbilities(), view), view


async def asked(editor: FakeEditor, dispatcher: Dispatcher) -> PermissionAnswer:
    del editor
    with anyio.fail_after(30):
        return await approver(dispatcher)[0].ask(REQUEST)


async def test_the_answer_is_the_option_that_was_chosen():
    async with connected_editor() as (editor, dispatcher):
        assert await asked(editor, dispatcher) is PermissionAnswer.ALLOW_ONCE


async def test_an_option_that_was_not_offered_is_a_refusal():
    async with connected_editor() as (editor, dispatcher):

        async def always(params: JsonDict) -> JsonDict:
            del params
            return {"outcome": "selected", "optionId": "allow_always"}

        editor.permission = always
        assert await asked(editor, dispatcher) is PermissionAnswer.REJECT_ONCE


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        ({"outcome": "cancelled"}, PermissionAnswer.CANCELLED),
        ({"outcome": "postponed", "optionId": "allow_once"}, PermissionAnswer.REJECT_ONCE),
        ({"outcome": "selected"}, PermissionAnswer.REJECT_ONCE),
    ],
)
async def test_nothing_is_allowed_without_an_option(outcome: JsonDict, answer: PermissionAnswer):
    async with connected_editor() as (editor, dispatcher):

        async def say(params: JsonDict) -> JsonDict:
            del params
            return outcome

        editor.permission = say
        assert await asked(editor, dispatcher) is answer


ALWAYS = ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Always in this session")
IN_PROJECT = ApprovalOption(PermissionAnswer.ALLOW_PROJECT, "Always in this project")


async def test_each_option_has_an_id_of_its_own_and_a_kind_of_the_protocol():
    request = replace(REQUEST, options=(ONCE, ALWAYS, IN_PROJECT, NO))
    async with connected_editor() as (editor, dispatcher):

        async def project(params: JsonDict) -> JsonDict:
            assert [(option["optionId"], option["kind"]) for option in params["options"]] == [
                ("allow_once", "allow_once"),
                ("allow_always", "allow_always"),
                ("allow_always_project", "allow_always"),
                ("reject_once", "reject_once"),
            ]
            return {"outcome": "selected", "optionId": "allow_always_project"}

        editor.permission = project
        with anyio.fail_after(30):
            assert await approver(dispatcher)[0].ask(request) is PermissionAnswer.ALLOW_PROJECT


@pytest.mark.parametrize(("info", "options"), [(None, 3), ("agent-shell", 3), ("zed", 4)])
async def test_a_client_that_merges_options_of_a_kind_gets_one_of_each(info: str | None, options: int):
    client = schema.Implementation(name=info, version="1") if info is not None else None
    abilities = abilities_of(schema.ClientCapabilities(), client)
    request = replace(REQUEST, options=(ONCE, ALWAYS, IN_PROJECT, NO))
    async with connected_editor() as (editor, dispatcher):

        async def count(params: JsonDict) -> JsonDict:
            assert len(params["options"]) == options
            return {"outcome": "selected", "optionId": "allow_once"}

        editor.permission = count
        view = EditorView(SESSION, dispatcher, abilities, FlushTimer(), FakeClock())
        with anyio.fail_after(30):
            answer = await EditorApprover(SESSION, dispatcher, abilities, view).ask(request)
            assert answer is PermissionAnswer.ALLOW_ONCE


async def test_the_question_fits_into_a_line_whatever_it_is_about():
    async with connected_editor() as (editor, dispatcher):
        await asked(editor, dispatcher)
        assert max(len(line) for by_agent, line in editor.recording.both if by_agent) < 1_000_000


async def test_text_that_waits_is_shown_before_the_question():
    async with connected_editor() as (editor, dispatcher):
        permission, view = approver(dispatcher)
        said: list[str] = []

        async def look(params: JsonDict) -> JsonDict:
            del params
            said.append("".join(str(update["update"]["content"]["text"]) for update in editor.updates))
            return {"outcome": "selected", "optionId": "reject_once"}

        editor.permission = look
        # The connected dispatcher knows no session/update of ours as anything but a notification.
        for word in ("I ", "will ", "write."):
            await view.show(TextStreamed(MessageId("msg_1"), word))
        with anyio.fail_after(30):
            assert await permission.ask(REQUEST) is PermissionAnswer.REJECT_ONCE
        assert said == ["I will write."]
