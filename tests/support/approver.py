"""`ScriptedApprover`: answers of the person, for tests of what asks.

Owns: the answers. Must not know: how a question is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from pattern_acp.policy.decision import ApprovalRequest, PermissionAnswer
from tests.support.constellation import FakeClock

THINKING_MS = 60_000
"""How long the person takes for each answer, on the test's own clock."""


@dataclass(slots=True)
class ScriptedApprover:
    """`Approver` that gives `answers` in turn; what was not offered is a refusal, as the port says."""

    answers: list[PermissionAnswer]
    clock: FakeClock
    requests: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])
    """Every question so far, in order."""
    while_asked: Callable[[], object] = lambda: None
    """What happens while the person thinks."""

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""
        self.requests.append(request)
        self.clock.advance(THINKING_MS)
        self.while_asked()
        answer = self.answers.pop(0)
        offered = {option.answer for option in request.options} | {PermissionAnswer.CANCELLED}
        return answer if answer in offered else PermissionAnswer.REJECT_ONCE
