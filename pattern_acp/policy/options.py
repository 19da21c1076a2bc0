"""The buttons of a permission question, and what an answer stores.

Owns: labels and the way from an answer to a grant. Must not know: ACP's wire.
"""

from collections.abc import Sequence

from pattern_acp.policy.access import Access, RunCommand
from pattern_acp.policy.approver import Answer, ApprovalOption
from pattern_acp.policy.decision import Decision
from pattern_acp.policy.grants import Effect, Grant, GrantKind


def approval_options(decision: Decision, accesses: Sequence[Access]) -> tuple[ApprovalOption, ...]:
    """One option a kind, since clients merge those of the same kind (reference: agent-shell PR598).

    The always answers are there only where the decision has a scope, and say how far they reach. There is always a way
    to refuse.
    """
    once = "Run once" if any(isinstance(access, RunCommand) for access in accesses) else "Allow once"
    options = [ApprovalOption(Answer.ALLOW_ONCE, once)]
    if decision.scopes:
        options.append(ApprovalOption(Answer.ALLOW_ALWAYS, decision.scopes[0].label))
    options.append(ApprovalOption(Answer.REJECT_ONCE, "Reject"))
    if decision.scopes:
        label = decision.scopes[0].label.replace("Always allow", "Never allow", 1)
        options.append(ApprovalOption(Answer.REJECT_ALWAYS, label))
    return tuple(options)


def grant_for(answer: Answer, decision: Decision) -> Grant | None:
    """What an answer makes the session remember: the narrowest scope for an always, otherwise nothing."""
    if not decision.scopes:
        return None
    scope = decision.scopes[0]
    if answer is Answer.ALLOW_ALWAYS:
        return Grant(Effect.ALLOW, GrantKind(scope.kind), scope.pattern)
    if answer is Answer.REJECT_ALWAYS:
        return Grant(Effect.DENY, GrantKind(scope.kind), scope.pattern)
    return None
