"""Events to session updates, live and in a replay."""

import msgspec

from pattern_acp.acp import schema
from pattern_acp.acp.updates import (
    RAW_OUTPUT_BYTES,
    EditorAbilities,
    live_updates,
    named_by_call,
    replay_updates,
    text_item,
    tool_call,
    usage_update,
)
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, Role, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.tool_calls import (
    DiffContent,
    Plan,
    PlanEntry,
    StopReason,
    TerminalContent,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import (
    Event,
    MessagePartial,
    MessageRecorded,
    PlanUpdated,
    SessionTitled,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)

TURN, CALL = TurnId("turn_1"), ToolCallId("call_1")
VIEW = ToolCallView(CALL, "run_command", "make", ToolKind.EXECUTE, {"command": "make"})
TERMINAL = TerminalContent("term_1", "make", "/project", "built\n", client_owned=True)


def said(*parts: TextPart | ThinkingPart | ToolCallPart, number: int = 1) -> MessageRecorded:
    return MessageRecorded(TURN, Message(MessageId(f"msg_{number}"), Role.ASSISTANT, parts))


def kinds(updates: list[schema.SessionUpdate]) -> list[str]:
    return [type(update).__name__ for update in updates]


def test_text_was_streamed_already_and_is_not_shown_again_live():
    assert live_updates(said(TextPart("Hello.")), EditorAbilities()) == []
    assert live_updates(TurnEnded(TURN, StopReason.END_TURN), EditorAbilities()) == []


def test_a_command_s_terminal_is_named_when_it_is_announced_and_only_to_those_who_follow_it():
    follows = tool_call(VIEW, EditorAbilities(terminal_meta=True))
    assert follows.meta == {"terminal_info": {"terminal_id": "call_1"}}
    assert tool_call(VIEW, EditorAbilities()).meta is None
    assert tool_call(VIEW, EditorAbilities(embeds_terminals=True)).meta is None


def test_a_terminal_of_ours_is_named_by_its_call_and_one_of_the_client_keeps_its_name():
    ours = TerminalContent("local_7", "make")
    assert named_by_call((ours, TERMINAL, TextContent("x")), CALL) == (
        TerminalContent("call_1", "make"),
        TERMINAL,
        TextContent("x"),
    )


def test_cost_is_in_whole_units():
    update = usage_update(UsageReported(TURN, Usage(10, 2), 12, 100, Cost(1_500_000)))
    assert (update.used, update.size, update.cost) == (12, 100, schema.Cost(amount=1.5, currency="USD"))


def test_a_replay_shows_everything_once_in_order_and_the_last_state_at_the_end():
    plan = Plan((PlanEntry("Look"),))
    prompt = Message(
        MessageId("msg_u"),
        Role.USER,
        (
            TextPart("Go."),
            ImagePart("image/png", "aGk="),
            ResourcePart("file:///a", "a", "text"),
            ResourcePart("u", "n"),
        ),
    )
    events: list[Event] = [
        TurnStarted(TURN, prompt),
        SessionTitled("Go."),
        PlanUpdated(TURN, Plan(())),
        MessagePartial(TURN, MessageId("msg_1"), "Let", ""),
        said(ThinkingPart("Hm."), TextPart("Let me see."), ToolCallPart(CALL, "run_command", "{}")),
        UsageReported(TURN, Usage(1, 1), 2, 100),
        ToolCallStarted(TURN, VIEW),
        ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "Exit code 0.", (TERMINAL,)),
        PlanUpdated(TURN, plan),
        UsageReported(TURN, Usage(5, 1), 6, 100),
        said(TextPart("Done."), number=2),
    ]
    updates = replay_updates(events)
    assert kinds(updates) == [
        *["UserMessageChunk"] * 4,
        "AgentThoughtChunk",
        "AgentMessageChunk",
        "ToolCallStart",
        "ToolCallProgress",
        "AgentMessageChunk",
        "PlanUpdate",
        "UsageUpdate",
        "SessionInfoUpdate",
    ]
    ended = updates[7]
    assert isinstance(ended, schema.ToolCallProgress)
    assert ended.content == (schema.Content(content=schema.TextContent(text="```console\n$ make\nbuilt\n```")),)


def test_a_call_that_never_ended_is_shown_as_failed():
    updates = replay_updates([ToolCallStarted(TURN, VIEW)])
    assert kinds(updates) == ["ToolCallStart", "ToolCallProgress"]
    last = updates[-1]
    assert isinstance(last, schema.ToolCallProgress)
    assert last.status is ToolCallStatus.FAILED


def test_a_call_that_failed_names_the_code_of_its_failure_live_and_replayed():
    failed = ToolCallFinished(
        TURN, CALL, ToolCallStatus.FAILED, "There is no such file.", failure="tool.target-missing"
    )
    for update in (*live_updates(failed, EditorAbilities()), replay_updates([failed])[0]):
        assert isinstance(update, schema.ToolCallProgress)
        assert update.meta == {"pattern": {"durationMs": 0, "failure": "tool.target-missing"}}
    (well,) = live_updates(ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "Done."), EditorAbilities())
    assert isinstance(well, schema.ToolCallProgress)
    assert well.meta == {"pattern": {"durationMs": 0}}


def ended(*content: ToolContent, abilities: EditorAbilities, duration_ms: int = 5482) -> schema.ToolCallProgress:
    event = ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "Done.", content, duration_ms=duration_ms)
    (update,) = live_updates(event, abilities)
    assert isinstance(update, schema.ToolCallProgress)
    return update


def test_the_raw_output_is_what_the_call_came_to_and_its_duration_stands_apart():
    shows = ended(TERMINAL, TextContent("It took long."), abilities=EditorAbilities(embeds_terminals=True))
    assert shows.raw_output == "built\nIt took long."
    assert shows.meta == {"pattern": {"durationMs": 5482}}


def test_a_client_that_draws_no_terminals_gets_one_text_twice_so_that_it_can_show_it_once():
    shows = ended(TERMINAL, abilities=EditorAbilities())
    assert shows.content == (text_item("```console\n$ make\nbuilt\n```"),)
    assert shows.raw_output == "```console\n$ make\nbuilt\n```"


def test_a_call_that_shows_a_diff_or_nothing_has_no_raw_output():
    for content in ((), (DiffContent("/project/a.txt", "old\n", "new\n"),)):
        assert ended(*content, abilities=EditorAbilities()).raw_output is msgspec.UNSET


def test_a_long_raw_output_is_cut_in_the_middle():
    shows = ended(TextContent("a" * 100_000 + "z"), abilities=EditorAbilities())
    assert isinstance(shows.raw_output, str)
    assert len(shows.raw_output) <= RAW_OUTPUT_BYTES + 100
    assert shows.raw_output.endswith("az")
