"""How what several layers say becomes one decision."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.policy.decision import Decision, GrantScope, Verdict
from pattern_acp.policy.layers import HABITS, Force, combine, force_of, layer_of, what_would_change

RULES = {
    Verdict.ALLOW: ["auto_mode", "rule_allow", "allowed_before", "hook", "inside_read"],
    Verdict.ASK: ["command", "destructive", "memory_consent", "own_program", "rule_ask", "hook", "subagent_paths"],
    Verdict.DENY: ["plan_mode", "refused_before", "rule_deny", "hook", "sandbox_required", "subagent_reads"],
}
SCOPES = (GrantScope("edit_folder", "/p", "edits"),)


@st.composite
def rulings(draw: st.DrawFn, verdict: Verdict | None = None) -> Decision:
    chosen = verdict or draw(st.sampled_from(list(Verdict)))
    rule = draw(st.sampled_from(RULES[chosen]))
    scopes = SCOPES if chosen is Verdict.ASK and draw(st.booleans()) else ()
    source = draw(st.sampled_from(["", "one", "two"]))
    return Decision(chosen, rule, f"Because of {rule}.", scopes, source=source)


some = st.lists(rulings(), min_size=1, max_size=8)


@given(some, st.randoms())
def test_the_order_of_layers_changes_nothing(found: list[Decision], random: Random):
    mixed = list(found)
    random.shuffle(mixed)
    assert combine(mixed) == combine(found)


@given(some)
def test_saying_something_twice_changes_nothing(found: list[Decision]):
    assert combine(found + found) == combine(found)
    assert combine([found[0], found[0]]).verdict is found[0].verdict


@given(some, rulings(Verdict.ALLOW))
def test_one_more_allowance_never_makes_it_stricter(found: list[Decision], one: Decision):
    assert combine([*found, one]).verdict.strictness <= combine(found).verdict.strictness


@given(some, st.one_of(rulings(Verdict.ASK), rulings(Verdict.DENY)))
def test_one_more_refusal_never_makes_it_looser_and_no_question_lifts_a_refusal(found: list[Decision], one: Decision):
    before, after = combine(found).verdict, combine([*found, one]).verdict
    assert after.strictness >= before.strictness
    if one.verdict is Verdict.DENY:
        assert after is Verdict.DENY


@given(some, rulings(Verdict.ALLOW))
def test_nothing_lifts_the_floor(found: list[Decision], one: Decision):
    firm = Decision(Verdict.ASK, "own_program", "It acts in your place.")
    assert combine([firm, *found, one]).verdict is not Verdict.ALLOW
    assert combine([firm, *found, one]).scopes == ()


@pytest.mark.parametrize(
    ("asks", "allows", "verdict"),
    [
        ("command", "rule_allow", Verdict.ALLOW),
        ("destructive", "rule_allow", Verdict.ASK),
        ("destructive", "hook", Verdict.ALLOW),
        ("destructive", "allowed_before", Verdict.ALLOW),
        ("memory_consent", "hook", Verdict.ASK),
        ("memory_consent", "allowed_before", Verdict.ALLOW),
        ("subagent_paths", "hook", Verdict.ASK),
        ("rule_ask", "allowed_before", Verdict.ASK),
        ("rule_ask", "hook", Verdict.ASK),
        ("own_program", "allowed_before", Verdict.ASK),
    ],
)
def test_an_allowance_lifts_questions_up_to_its_force(asks: str, allows: str, verdict: Verdict):
    assert combine([Decision(Verdict.ASK, asks, "x"), Decision(Verdict.ALLOW, allows, "y")]).verdict is verdict


def test_nothing_is_decided_of_nothing():
    with pytest.raises(ValueError, match="empty"):
        combine([])


@given(rulings())
def test_every_decision_has_a_layer_a_force_and_something_that_would_change_it(one: Decision):
    assert layer_of(one)
    assert force_of(one) in Force
    assert what_would_change(one).endswith(".")


def test_habits_are_what_rules_may_allow():
    for rule in HABITS:
        assert force_of(Decision(Verdict.ASK, rule, "x")) is Force.HABIT
