"""Layers of policy, and how what each of them says about one access becomes one decision, in a subagent or a job too.

Owns: the order of layers, which asks an allowance lifts, and what would have changed a decision; further limits on the
part of a session that runs as a subagent, or works on a job that the user agreed to. Must not know: how a layer comes
to what it says. Pure: the order of what is combined changes nothing, saying something twice changes nothing, and one
more allowance never makes a decision stricter, nor one more question or refusal a looser one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import OverlapSetting
from pattern_acp.domain.access import Access, CallServer, RunCommand, WritePath
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.policy.decision import CLAIMED, Decision, Mode, Verdict
from pattern_acp.policy.paths import is_inside_any


class Layer(StrEnum):
    """The layers, in the order in which a decision names its reason."""

    FLOOR = "floor"
    """Built in. Whatever a rule allows leaves it as it is."""
    USER = "user"
    """Rules of the user's config.toml."""
    PROJECT = "project"
    """Rules of the project, which only ask and deny, and grants of the user for it."""
    SESSION = "session"
    """Grants of the user for this session or turn."""
    PERSONA = "persona"
    """Grants of the user for this persona everywhere."""
    MODE = "mode"
    JOB = "job"
    """The terms of the job that is worked on."""
    SUBAGENT = "subagent"
    HOOK = "hook"


class Force(IntEnum):
    """The force of a question, and up to which force an allowance lifts questions."""

    HABIT = 0
    """It asks only because nobody has allowed it yet. A rule suffices."""
    CAUTION = 1
    """It asks for a reason of its own. A hook of the user suffices."""
    CONSENT = 2
    """Only a grant, which is the user's answer to this question, suffices."""
    FIRM = 3
    """Nothing suffices: it asks each time."""


CLAIM_RULES: Mapping[OverlapSetting, str] = {word: f'[claims] overlap = "{word}"' for word in get_args(OverlapSetting)}
"""The sources of decisions by that rule."""

CLAIM_ADVICE = {
    CLAIM_RULES["deny"]: "Work on something else, or wait until that session is closed or its claim ends, 15 minutes "
    "behind its last edit.",
    CLAIM_RULES["tell"]: "Its work must survive: read what you change again before you edit. Wait and do something "
    "else first, work in a fork or a worktree of your own, have the user take it over (`/board take PATH` asks that "
    "session), or continue; the same call once more is done.",
}
"""The choices that the model has where such a decision refuses a call."""

HABITS = frozenset({"command", "ask_mode", "outside_read", "outside_write", "fetch", "server_tool"})
"""Rules of the built-in policy that only ask because nobody has allowed it yet."""

_FORCES = {
    "memory_consent": Force.CONSENT,
    "subagent_paths": Force.CONSENT,
    "job_paths": Force.CONSENT,
    "own_program": Force.FIRM,
    CLAIMED: Force.FIRM,
    "memory_secret": Force.FIRM,
    "memory_origin": Force.FIRM,
    "rule_ask": Force.FIRM,
    "hook": Force.FIRM,
}
"""The force of questions that are neither habits nor cautions."""

_LIFTS = {"allowed_before": Force.CONSENT, "hook": Force.CAUTION}
"""Force of the allowances that lift more than habits."""

_OF_MODE = HABITS | {"auto_mode", "plan_mode", "inside_read", "inside_write", "reading", "memory_read", "memory_write"}
_ORDER = tuple(Layer)


def layer_of(decision: Decision) -> Layer:
    """Return the layer that a decision comes from."""
    if decision.layer:
        return Layer(decision.layer)
    if decision.rule == "hook":
        return Layer.HOOK
    if decision.rule.startswith(("subagent_", "job_")):
        return Layer(decision.rule.partition("_")[0])
    return Layer.MODE if decision.rule in _OF_MODE else Layer.FLOOR


def force_of(decision: Decision) -> Force:
    """Return the force of a question or refusal, or what an allowance lifts."""
    if decision.verdict is Verdict.ALLOW:
        return _LIFTS.get(decision.rule, Force.HABIT)
    if decision.verdict is Verdict.DENY:
        return Force.CONSENT if decision.rule == "refused_before" else Force.CAUTION
    return Force.HABIT if decision.rule in HABITS else _FORCES.get(decision.rule, Force.CAUTION)


def combine(rulings: Iterable[Decision]) -> Decision:
    """Return the decision on one access: deny before ask before allow, whatever their order.

    An allowance lifts the questions up to its force; those that are left ask.

    Raises:
        ValueError: there is nothing to combine; nothing runs undecided.
    """
    found = list(rulings)
    denies = [one for one in found if one.verdict is Verdict.DENY]
    if denies:
        return min(denies, key=_forceful)
    allows = [one for one in found if one.verdict is Verdict.ALLOW]
    lifted = max((force_of(one) for one in allows), default=None)
    asks = [one for one in found if one.verdict is Verdict.ASK and (lifted is None or force_of(one) > lifted)]
    if not asks:
        return min(allows, key=_forceful)
    first = min(asks, key=_in_order)
    if any(force_of(one) is Force.FIRM and layer_of(one) is not Layer.HOOK for one in asks):
        # A standing permission would be asked about again all the same.
        return replace(first, scopes=())
    return first


def _forceful(decision: Decision) -> tuple[int, int, str, str, str]:
    return (-force_of(decision), *_in_order(decision))


def _in_order(decision: Decision) -> tuple[int, str, str, str]:
    return (_ORDER.index(layer_of(decision)), decision.rule, decision.source, decision.reason)


_CHANGES = {
    "command": "Mode `auto`, a rule that allows it, or a standing permission.",
    "ask_mode": "Mode `edit` or `auto`, a rule that allows it, or a standing permission.",
    "plan_mode": "Another mode.",
    "server_tool": "Mode `auto`, a rule that allows it, or a standing permission.",
    "auto_mode": "Another mode, or a rule that asks or denies.",
    "reading": '`reading_commands = "ask"`, or a rule that asks or denies.',
    "inside_write": "Mode `ask` or `plan`, or a rule that asks or denies.",
    "memory_consent": "A standing permission for this block in this session.",
    "refused_before": "Taking the refusal back (/permissions).",
    "allowed_before": "Taking the permission back (/permissions), or a rule that asks or denies.",
    "rule_allow": "Without this rule it would have asked.",
    "rule_ask": "Only a change of this rule.",
    "rule_deny": "Only a change of this rule.",
    "own_program": "Nothing: it asks each time.",
    CLAIMED: "The end of the other session's claim, or another `[claims] overlap`.",
    "memory_secret": "Nothing: it asks each time.",
    "sandbox_required": "A sandbox on this machine, or another `[policy] sandbox`.",
    "network": 'A standing permission, or `sandbox_network = "host"`.',
    "hook": "Another answer of the hook.",
    "foreign_origin": "Words of your own, or a line that you always allowed exactly.",
    "memory_origin": "The same in a turn that has read nothing of others, or words of your own.",
    "instructions_origin": "The same in a turn that has read nothing of others.",
    "job_paths": "The same call outside of the job, or a job with other paths.",
    "subagent_paths": "The same call by the session itself, or a subagent with other limits.",
    "subagent_reads": "The same call by the session itself, or a subagent that may write.",
}
_BY_VERDICT = {
    Verdict.ALLOW: "A rule that asks or denies.",
    Verdict.ASK: "A standing permission, where the question offers one.",
    Verdict.DENY: "Nothing in this session.",
}
_HABIT = "A rule that allows it, or a standing permission."


def what_would_change(decision: Decision) -> str:
    """Say in a sentence what would have led to another decision."""
    if decision.rule.startswith("rule_") and " when " in decision.source:
        return f"Other circumstances than {decision.source.rpartition(' when ')[2]}, or a change of this rule."
    usual = _HABIT if decision.rule in HABITS else _BY_VERDICT[decision.verdict]
    return _CHANGES.get(decision.rule, usual)


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
