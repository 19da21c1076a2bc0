"""Says a decision in words.

Owns: the display form. Must not know: how it was reached.
"""

from typing import assert_never

from pattern_acp.policy.decision import Decision, Verdict


def explain(decision: Decision) -> str:
    """One line for a person: what happens, why, and by which rule."""
    return f"{_what_happens(decision.verdict)}: {decision.reason} (rule {decision.rule})"


def _what_happens(verdict: Verdict) -> str:
    match verdict:
        case Verdict.ALLOW:
            return "Runs"
        case Verdict.ASK:
            return "Asks"
        case Verdict.DENY:
            return "Is denied"
        case _:
            assert_never(verdict)
