"""One session in the editor: everything in the order in which it was shown."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from pattern_acp.acp.client import EditorView, FlushTimer
from pattern_acp.acp.updates import EditorAbilities
from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.tool_calls import TerminalContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.turn.recorder import (
    TerminalEnded,
    TerminalStreamed,
    TextStreamed,
    ThinkingStreamed,
    ToolCallRunning,
    ToolCallShows,
)
from tests.support.connected_editor import connected_editor
from tests.support.constellation import FakeClock
from tests.support.editor import FakeEditor, JsonDict

TURN, CALL, MESSAGE = TurnId("turn_1"), ToolCallId("call_1"), MessageId("msg_1")
VIEW = ToolCallView(CALL, "run_command", "make", ToolKind.EXECUTE, {"command": "make"})
OURS = TerminalContent("local_7", "make", "/project")


@asynccontextmanager
async def shown_to(abilities: EditorAbilities) -> AsyncGenerator[tuple[EditorView, FakeEditor], None]:
    async with connected_editor() as (editor, dispatcher):
        yield EditorView(SessionId("ses_1"), dispatcher, abilities, FlushTimer(), FakeClock()), editor


async def updates(editor: FakeEditor, count: int) -> list[JsonDict]:
    await editor.wait_until(lambda: len(editor.updates) >= count)
    return [update["update"] for update in editor.updates]


async def test_text_that_waits_goes_before_whatever_follows():
    async with shown_to(EditorAbilities()) as (view, editor):
        with anyio.fail_after(30):
            for word in ("Let ", "me ", "see."):
                await view.show(TextStreamed(MESSAGE, word))
            await view.show(ThinkingStreamed(MESSAGE, "Hm."))
            await view.show(ToolCallStarted(TURN, VIEW))
            shown = await updates(editor, 4)
        assert [update["sessionUpdate"] for update in shown] == [
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_thought_chunk",
            "tool_call",
        ]
        assert [update["content"]["text"] for update in shown[:3]] == ["Let ", "me see.", "Hm."]
        assert [update["messageId"] for update in shown[:3]] == ["msg_1", "msg_1", "msg_1_thought"]


async def test_settling_sends_what_waits():
    async with shown_to(EditorAbilities()) as (view, editor):
        with anyio.fail_after(30):
            await view.show(TextStreamed(MESSAGE, "One"))
            await view.show(TextStreamed(MESSAGE, " two"))
            await view.settle()
            shown = await updates(editor, 2)
        assert [update["content"]["text"] for update in shown] == ["One", " two"]


async def test_a_terminal_of_ours_is_followed_by_one_name_from_its_announcement_to_its_end():
    async with shown_to(EditorAbilities(terminal_meta=True)) as (view, editor):
        with anyio.fail_after(30):
            await view.show(ToolCallStarted(TURN, VIEW))
            await view.show(ToolCallRunning(CALL))
            await view.show(ToolCallShows(CALL, (OURS,)))
            await view.show(TerminalStreamed(CALL, "local_7", "built\n"))
            await view.show(ToolCallShows(CALL, (OURS,)))
            await view.show(TerminalEnded(CALL, "local_7", 0, None))
            await view.show(ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "Exit code 0.", (OURS,)))
            shown = await updates(editor, 7)
        assert [update.get("_meta") for update in shown] == [
            {"terminal_info": {"terminal_id": "call_1"}},
            None,
            {"terminal_info": {"terminal_id": "call_1", "cwd": "/project"}},
            {"terminal_output": {"terminal_id": "call_1", "data": "built\n"}},
            None,
            {"terminal_exit": {"terminal_id": "call_1", "exit_code": 0, "signal": None}},
            {"pattern": {"durationMs": 0}},
        ]
        terminals = [update["content"] for update in shown if update.get("content")]
        assert terminals == [[{"type": "terminal", "terminalId": "call_1"}]] * 3


async def test_other_clients_get_no_terminal_of_ours():
    async with shown_to(EditorAbilities(embeds_terminals=True)) as (view, editor):
        with anyio.fail_after(30):
            await view.show(TerminalStreamed(CALL, "local_7", "built\n"))
            await view.show(TerminalEnded(CALL, "local_7", 0, None))
            await view.show(ToolCallShows(CALL, (OURS,)))
            (update,) = await updates(editor, 1)
        assert "_meta" not in update
        assert update["content"][0]["type"] == "content"


async def test_a_burst_of_terminal_output_is_cut_for_the_line():
    async with shown_to(EditorAbilities(terminal_meta=True)) as (view, editor):
        with anyio.fail_after(30):
            await view.show(TerminalStreamed(CALL, "local_7", "\x01" * 400_000))
            shown = await updates(editor, 3)
        assert "".join(update["_meta"]["terminal_output"]["data"] for update in shown) == "\x01" * 400_000
        assert max(len(line) for by_agent, line in editor.recording.both if by_agent) < 1_000_000
