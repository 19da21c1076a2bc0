"""Counting calls that are repeated with the same result."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.policy.decision import Decision, Verdict
from pattern_acp.turn.budget import REPEAT_RULE, RepeatGuard, RepeatLimits, repeat_note
from pattern_acp.turn.tool_runner import sandbox_of

ALLOWED = Decision(Verdict.ALLOW, "read", "It only reads.")
DENIED = Decision(Verdict.DENY, "plan_mode", "Plan mode.")


def view(name: str = "read_file", arguments: JsonObject | None = None) -> ToolCallView:
    return ToolCallView(
        ToolCallId("call_a"), name, "Read a", ToolKind.READ, {"path": "a"} if arguments is None else arguments
    )


def noted(
    guard: RepeatGuard, call: ToolCallView, text: str = "x", *, failed: bool = False, changes: bool = False
) -> bool:
    return bool(guard.note(call, text, failed=failed, changes=changes))


def is_due(guard: RepeatGuard, call: ToolCallView) -> bool:
    return guard.is_due(call.call_id, call.name, call.raw_input)


def test_the_same_call_with_the_same_result_is_noted_from_the_third_on_whatever_the_order_of_its_arguments():
    guard = RepeatGuard()
    one, other = view(arguments={"path": "a", "start_line": 2}), view(arguments={"start_line": 2, "path": "a"})
    assert [noted(guard, each) for each in (one, other, one, other)] == [False, False, True, True]


def test_other_arguments_or_another_tool_are_another_call():
    guard = RepeatGuard()
    for name, path in (("read_file", "a"), ("read_file", "b"), ("list_directory", "a")) * 2:
        assert not noted(guard, view(name, {"path": path}))


def test_another_result_begins_the_count_anew():
    guard = RepeatGuard()
    assert [noted(guard, view(), text) for text in "aabbb"] == [False, False, False, False, True]


def test_a_failure_is_the_same_result_whatever_its_error_says():
    guard = RepeatGuard()
    assert [noted(guard, view(), text, failed=True) for text in "abc"] == [False, False, True]


def test_the_time_that_a_command_took_is_no_other_result():
    guard = RepeatGuard()
    texts = [f"Exit code 0 after {seconds:.1f} s.\nhi" for seconds in range(3)]
    assert [noted(guard, view("run_command"), text, changes=True) for text in texts] == [False, False, True]


def test_a_change_of_the_workspace_begins_all_counts_anew():
    guard = RepeatGuard()
    edit = view("edit_file", {"path": "b"})
    assert [noted(guard, view()), noted(guard, view())] == [False, False]
    noted(guard, edit, changes=True)
    assert [noted(guard, view()), noted(guard, view()), noted(guard, view())] == [False, False, True]


def test_two_commands_in_turn_do_not_hide_that_both_are_repeated():
    guard = RepeatGuard()
    one, other = view("run_command", {"command": "a"}), view("run_command", {"command": "b"})
    assert [noted(guard, each, changes=True) for each in (one, other) * 4][-2:] == [True, True]


def test_the_fifth_is_asked_about_and_its_count_begins_anew_when_the_user_lets_it_go_on():
    guard = RepeatGuard()
    for _ in range(4):
        assert guard.decide(view(), ALLOWED) == ALLOWED
        noted(guard, view())
    asked = guard.decide(view(), ALLOWED)
    assert (asked.verdict, asked.rule, "4 times" in asked.reason) == (Verdict.ASK, REPEAT_RULE, True)
    guard.answered(view(), asked, goes_on=True)
    assert (is_due(guard, view()), guard.stop) == (False, "")


def test_a_refusal_to_let_it_go_on_stops_the_turn():
    guard = RepeatGuard(RepeatLimits(asked=2))
    noted(guard, view())
    guard.answered(view(), ALLOWED, goes_on=False)
    assert guard.stop == ""
    guard.answered(view(), guard.decide(view(), ALLOWED), goes_on=False)
    assert "read_file again and again" in guard.stop


def test_a_repeated_call_that_the_user_lets_go_on_stays_in_its_sandbox():
    guard = RepeatGuard(RepeatLimits(asked=2))
    confined = replace(ALLOWED, sandbox="writes in the project only")
    noted(guard, view())
    assert sandbox_of(guard.decide(view(), confined)) == sandbox_of(confined) != ""


def test_a_repeated_call_that_policy_denies_stops_the_turn_without_a_question():
    guard = RepeatGuard()
    for _ in range(4):
        assert guard.decide(view(), DENIED) == DENIED
        noted(guard, view(), failed=True)
    assert guard.stop == ""
    assert guard.decide(view(), DENIED) == DENIED
    assert "after 4 refusals" in guard.stop


@given(st.integers(2, 20), st.integers(2, 20))
def test_the_limits_are_those_of_the_settings(note: int, question: int):
    guard = RepeatGuard(RepeatLimits(note, question))
    for count in range(1, 25):
        assert is_due(guard, view()) is (count >= question)
        assert noted(guard, view()) is (count >= note)


def test_the_note_says_what_to_do_instead():
    assert "read_file has now failed 3 times" in repeat_note("read_file", 3, failed=True)
    assert "read_file has now had the same result 3 times" in repeat_note("read_file", 3, failed=False)
