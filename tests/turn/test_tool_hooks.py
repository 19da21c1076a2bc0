"""How a hook's opinion changes what policy decided."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.hooks import HookVerdict, Opinion
from pattern_acp.policy.decision import Decision
from pattern_acp.policy.decision import Verdict as Policy
from pattern_acp.turn.tool_runner import with_opinion


@given(
    st.sampled_from(Policy),
    st.sampled_from(HookVerdict),
    st.text(max_size=5),
    st.sampled_from(["command", "memory_consent"]),
)
def test_a_hook_never_allows_what_policy_denies_and_decides_with_a_reason(
    policy: Policy, verdict: HookVerdict, reason: str, rule: str
):
    decision = with_opinion(Decision(policy, rule, "why"), Opinion(verdict, reason))
    if policy is Policy.DENY:
        assert decision == Decision(policy, rule, "why")
    elif verdict is HookVerdict.DENY:
        assert decision.verdict is Policy.DENY
    elif verdict is HookVerdict.ASK:
        assert decision.verdict is Policy.ASK
    elif verdict is HookVerdict.ALLOW:
        assert decision.verdict is (Policy.ASK if policy is Policy.ASK and rule == "memory_consent" else Policy.ALLOW)
    else:
        assert decision.verdict is policy
    if decision.verdict is not policy:
        assert (decision.rule, decision.reason.startswith("A hook ")) == ("hook", True)
        assert reason in decision.reason
