"""Asking through the editor."""

import anyio

from pattern_acp.acp import schema
from pattern_acp.acp.client import EditorApprover, EditorView, FlushTimer, answer_of
from pattern_acp.acp.updates import EditorAbilities
from pattern_acp.domain.ids import MessageId, SessionId, ToolCallId
from pattern_acp.domain.tool_calls import DiffContent, ToolCallView, ToolKind
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.policy.approver import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.turn.events import TextStreamed
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
    assert answer_of(schema.CancelledOutcome(), REQUEST) is PermissionAnswer.CANCELLED


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
