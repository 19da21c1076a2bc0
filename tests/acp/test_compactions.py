"""Compactions as updates of their own."""

import msgspec

from pattern_acp.acp import schema
from pattern_acp.acp.updates import Compactions, replay_updates
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import COMPACT_CALL, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted

TURN, CALL = TurnId("turn_1"), ToolCallId("call_1")
BEGUN = ToolCallStarted(TURN, ToolCallView(CALL, COMPACT_CALL, "Compact", ToolKind.OTHER, {}))
OTHER = ToolCallStarted(TURN, ToolCallView(ToolCallId("call_2"), "read_file", "Read", ToolKind.READ, {}))


def ended(status: ToolCallStatus, text: str, *, interrupted: bool = False) -> ToolCallFinished:
    return ToolCallFinished(TURN, CALL, status, text, content=(TextContent(text),), interrupted=interrupted)


def test_a_cancelled_compaction_says_so_and_why():
    compactions = Compactions()
    compactions.update_of(BEGUN)
    update = compactions.update_of(ended(ToolCallStatus.FAILED, "Cancelled.", interrupted=True))
    assert update == schema.CompactionUpdate(
        compaction_id=CALL, status=schema.CompactionStatus.CANCELLED, error="Cancelled."
    )


def test_other_calls_and_ends_of_unknown_calls_stay_tool_calls():
    compactions = Compactions()
    assert compactions.update_of(OTHER) is None
    assert compactions.update_of(ended(ToolCallStatus.COMPLETED, "Done.")) is None
    assert compactions.given_up(CALL) is None


def test_a_compaction_that_never_ended_is_shown_as_failed():
    shown = replay_updates([BEGUN], compactions=True)
    assert [msgspec.to_builtins(update)["status"] for update in shown] == ["in_progress", "failed"]


def test_a_long_summary_comes_in_several_blocks():
    text = "We spoke. " * 50_000
    shown = replay_updates([BEGUN, ended(ToolCallStatus.COMPLETED, text)], compactions=True)
    last = shown[-1]
    assert isinstance(last, schema.CompactionUpdate)
    assert last.summary is not msgspec.UNSET
    assert len(last.summary) > 1
    assert "".join(block.text for block in last.summary if isinstance(block, schema.TextContent)) == text
