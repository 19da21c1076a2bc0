"""Further limits on the part of a session that runs as a subagent, or works on a job that the user agreed to.

Owns: how a decision on the session becomes one on such a part. Must not know: tasks and terms, or who asks. It makes
a decision stricter, so nobody gains by delegating, with one exception: mode `ask` does not ask about each edit of a
worker whose changes reach only its own view, since it asks about all of them before they land.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Access, CallServer, RunCommand, WritePath
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.policy.decision import Decision, Mode, Verdict
from pattern_acp.policy.layers import combine
from pattern_acp.policy.paths import is_inside_any

IN_VIEW = "It changes only the worker's own view of the files, and you are asked before that lands."


class SubagentLimits(Struct, frozen=True):
    """Limits of a subagent, with its `name` for sentences; `paths` are absolute and resolved, empty for no limit.

    Those of a job hold for its subagents, too.
    """

    name: str = ""
    only_reads: bool = False
    paths: tuple[str, ...] = ()
    asks_to_land: bool = False
    """True for a worker whose edits reach only its own view until the user agrees to all of them."""
    job: int = 0
    """The number of the job that is worked on; 0 for none."""
    globs: tuple[str, ...] = ()
    """Absolute patterns of the files that the job may write, empty for no limit."""

    def mode(self, mode: Mode) -> Mode:
        """The mode that decides: plan for a subagent that only reads, and edit for one whose edits land as a whole."""
        if self.only_reads:
            return Mode.PLAN
        return Mode.EDIT if self.asks_to_land and mode is Mode.ASK else mode

    def narrowed(self, decision: Decision, accesses: Sequence[Access]) -> Decision:
        """Restrict the decision that policy made for the session on these accesses."""
        if decision.verdict is Verdict.DENY:
            return self._denied(decision)
        if self.asks_to_land and decision.rule == "inside_write":
            decision = replace(decision, reason=IN_VIEW)
        if self.globs:
            decision = self._within_job(decision, accesses)
        if not self.paths or decision.verdict is Verdict.DENY:
            return decision
        if any(isinstance(one, WritePath) and not is_inside_any(one.path, self.paths) for one in accesses):
            reason = f"The subagent {self.name} may write only in {', '.join(self.paths)}."
            return combine((decision, Decision(Verdict.DENY, "subagent_paths", reason)))
        if any(_could_write(one) for one in accesses):
            # Writes of a program cannot be seen from here. An "always" of the user lifts this question.
            reason = f"The subagent {self.name} may write only in some places, and this could write elsewhere."
            return combine((decision, Decision(Verdict.ASK, "subagent_paths", reason)))
        return decision

    def _within_job(self, decision: Decision, accesses: Sequence[Access]) -> Decision:
        allowed = ", ".join(self.globs)
        if any(isinstance(one, WritePath) and not matches_any(one.path, self.globs) for one in accesses):
            reason = f"Job {self.job} may write only in {allowed}."
            return combine((decision, Decision(Verdict.DENY, "job_paths", reason)))
        if decision.rule != "reading" and any(_could_write(one) for one in accesses):
            # The commands that the user agreed to are granted for the turn, which lifts this question.
            reason = f"Job {self.job} may write only in {allowed}, and this could write elsewhere."
            return combine((decision, Decision(Verdict.ASK, "job_paths", reason)))
        return decision

    def _denied(self, decision: Decision) -> Decision:
        if not self.only_reads or decision.rule != "plan_mode":
            return decision
        return Decision(Verdict.DENY, "subagent_reads", f"The subagent {self.name} only reads.")


UNLIMITED = SubagentLimits()
"""No further limits than the session's."""


def globs_below(root: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """The absolute forms of patterns below a folder; one without a slash is meant at any depth."""
    folder = re.sub(r"([*?\[{])", r"[\1]", root.replace("\\", "/").rstrip("/"))
    return tuple(f"{folder}/{one if '/' in one else f'**/{one}'}" for one in (each.lstrip("/") for each in patterns))


def matches_any(path: str, globs: Sequence[str]) -> bool:
    """True if an absolute path is one of those that absolute patterns mean."""
    name = path.replace("\\", "/").lstrip("/")
    return any(_compiled(glob).matches(name) for glob in globs)


@lru_cache(maxsize=256)
def _compiled(glob: str) -> Glob:
    return compile_glob(glob.lstrip("/"), "/")


def _could_write(access: Access) -> bool:
    return isinstance(access, RunCommand) or (isinstance(access, CallServer) and not access.read_only)
