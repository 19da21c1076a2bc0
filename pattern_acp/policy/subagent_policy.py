"""Further limits on the part of a session that runs as a subagent.

Owns: how a decision on the session becomes one on a subagent. Must not know: subagents' tasks, or who asks. It only
ever makes a decision stricter, so nobody gains by delegating.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.domain.access import Access, CallServer, RunCommand, WritePath
from pattern_acp.policy.decision import Decision, Mode, Verdict
from pattern_acp.policy.layers import combine
from pattern_acp.policy.paths import is_inside_any


class SubagentLimits(Struct, frozen=True):
    """Limits of a subagent, with its `name` for sentences; `paths` are absolute and resolved, empty for no limit."""

    name: str = ""
    only_reads: bool = False
    paths: tuple[str, ...] = ()

    def mode(self, mode: Mode) -> Mode:
        """The mode that decides: a subagent that only reads is in plan mode, whatever the session's is."""
        return Mode.PLAN if self.only_reads else mode

    def narrowed(self, decision: Decision, accesses: Sequence[Access]) -> Decision:
        """Restrict the decision that policy made for the session on these accesses."""
        if decision.verdict is Verdict.DENY:
            return self._denied(decision)
        if not self.paths:
            return decision
        if any(isinstance(one, WritePath) and not is_inside_any(one.path, self.paths) for one in accesses):
            reason = f"The subagent {self.name} may write only in {', '.join(self.paths)}."
            return combine((decision, Decision(Verdict.DENY, "subagent_paths", reason)))
        if any(_could_write(one) for one in accesses):
            # Writes of a program cannot be seen from here. An "always" of the user lifts this question.
            reason = f"The subagent {self.name} may write only in some places, and this could write elsewhere."
            return combine((decision, Decision(Verdict.ASK, "subagent_paths", reason)))
        return decision

    def _denied(self, decision: Decision) -> Decision:
        if not self.only_reads or decision.rule != "plan_mode":
            return decision
        return Decision(Verdict.DENY, "subagent_reads", f"The subagent {self.name} only reads.")


UNLIMITED = SubagentLimits()
"""No further limits than the session's."""


def _could_write(access: Access) -> bool:
    return isinstance(access, RunCommand) or (isinstance(access, CallServer) and not access.read_only)
