"""A decision in words."""

import pytest

from pattern_acp.policy.decision import Decision, Verdict
from pattern_acp.policy.explain import explain


@pytest.mark.parametrize(
    ("verdict", "words"), [(Verdict.ALLOW, "Runs"), (Verdict.ASK, "Asks"), (Verdict.DENY, "Is denied")]
)
def test_what_happens_comes_first_then_why_and_by_which_rule(verdict: Verdict, words: str):
    explained = explain(Decision(verdict, "some_rule", "It is so."))
    assert explained == f"{words}: It is so. (rule some_rule)"
