"""Budgets of turns and of the subagents in them."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.turn.budget import Budget, Limits, UserWaitTimer
from tests.support.constellation import FakeClock


def budget(limits: Limits, clock: FakeClock | None = None, outer: Budget | None = None) -> Budget:
    clock = clock or FakeClock()
    return Budget(limits, clock, UserWaitTimer(clock, outer.waits if outer is not None else None), outer)


def test_each_limit_is_named_when_it_is_reached():
    clock = FakeClock()
    it = budget(Limits(3, 10, tool_calls=2, tokens=100), clock)
    it.begin()
    assert it.used_up() == ""
    it.take_usage(Usage(60, 40), None)
    assert it.used_up() == "its limit of 100 tokens"
    it.take_tool_calls(2)
    assert it.used_up() == "its limit of 2 tool calls"
    clock.advance(11_000)
    assert it.used_up() == "its limit of 2 tool calls", "however little time there is, it is enough for one request"
    it.take_request()
    assert it.used_up() == "its limit of 10 seconds"
    for _ in range(2):
        it.take_request()
    assert it.used_up() == "its limit of 3 model requests"


def test_what_a_subagent_uses_is_used_of_the_turn_which_keeps_a_request():
    outer = budget(Limits(4, 100))
    inner, other = budget(Limits(10, 100), outer=outer), budget(Limits(10, 100), outer=outer)
    outer.take_request()
    inner.take_request()
    assert inner.used_up() == other.used_up() == ""
    other.take_request()
    assert inner.used_up() == other.used_up() == "the turn's limit of 4 model requests"
    assert outer.used_up() == ""


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=10))
def test_the_session_s_cost_is_the_sum_of_all(costs: list[tuple[bool, int]]):
    outer = budget(Limits(100, 100))
    inner = budget(Limits(100, 100), outer=outer)
    for is_inner, micro_units in costs:
        (inner if is_inner else outer).take_usage(Usage(1), Cost(micro_units))
    total = sum(micro_units for _, micro_units in costs)
    assert inner.cost_so_far == outer.cost_so_far == (Cost(total) if costs else None)


def test_time_that_the_person_takes_counts_for_nobody_and_once():
    clock = FakeClock()
    outer = budget(Limits(9, 100), clock)
    inner, other = budget(Limits(9, 100), clock, outer), budget(Limits(9, 100), clock, outer)
    for each in (outer, inner, other):
        each.begin()
    with inner.waits.waiting():
        clock.advance(5_000)
        with other.waits.waiting():
            clock.advance(5_000)
            assert outer.waits.seconds == 10
    assert (inner.seconds, other.seconds, outer.seconds) == (0, 5, 0)
