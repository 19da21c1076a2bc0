"""Counting identical failing calls."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.turn.budget import REPEATS_TOLD, RepeatGuard, repeat_notice


def test_the_same_failing_call_is_counted_whatever_the_order_of_its_arguments():
    guard = RepeatGuard()
    assert guard.note("read_file", {"path": "a", "start_line": 2}, failed=True) == 1
    guard.end_message()
    assert guard.note("read_file", {"start_line": 2, "path": "a"}, failed=True) == 2


def test_other_arguments_or_another_tool_are_another_call():
    guard = RepeatGuard()
    for name, path in (("read_file", "a"), ("read_file", "b"), ("list_directory", "a")):
        assert guard.note(name, {"path": path}, failed=True) == 1


def test_a_success_of_the_same_call_starts_afresh():
    guard = RepeatGuard()
    guard.note("read_file", {"path": "a"}, failed=True)
    guard.end_message()
    assert guard.note("read_file", {"path": "a"}, failed=False) == 0
    guard.end_message()
    assert guard.note("read_file", {"path": "a"}, failed=True) == 1


def test_a_message_without_the_call_starts_it_afresh():
    guard = RepeatGuard()
    guard.note("read_file", {"path": "a"}, failed=True)
    guard.end_message()
    guard.note("read_file", {"path": "b"}, failed=True)
    guard.end_message()
    assert guard.note("read_file", {"path": "a"}, failed=True) == 1


@given(st.integers(1, 10))
def test_the_worst_count_is_kept(times: int):
    guard = RepeatGuard()
    for _ in range(times):
        guard.note("read_file", {"path": "a"}, failed=True)
        guard.end_message()
    guard.note("read_file", {"path": "a"}, failed=False)
    assert guard.worst == times


def test_the_model_is_told_from_the_third_time_on():
    assert repeat_notice("read_file", REPEATS_TOLD - 1) == ""
    assert "read_file has now failed 3 times" in repeat_notice("read_file", REPEATS_TOLD)
