"""Policy of a session as its decisions record it, and deciding a recorded case again.

Owns: the recorded form of a policy and of what a call would touch, and which decisions follow from them. Must not know:
where events are stored. What the user set up, hooks, repeated calls and the sandbox decide outside of policy: of these
only what policy had to say is checked.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, cast, get_args

import msgspec
from msgspec import Struct

from pattern_acp.config.policy_rules import parse_conditions
from pattern_acp.config.settings import OverlapSetting, PolicyRule, RuleEffect, RuleKind
from pattern_acp.domain.access import Access
from pattern_acp.domain.canonical import Json, canonical_json
from pattern_acp.domain.errors import PolicyError
from pattern_acp.domain.paths import absolute_path, resolve_path
from pattern_acp.journal.events import (
    PermissionDecided,
    RecordedAccess,
    RecordedBasis,
    RecordedClaim,
    RecordedPath,
    RecordedPolicy,
)
from pattern_acp.policy.decision import Basis, Circumstances, ClaimElsewhere, Decision, Lifetime, Mode, Verdict
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.policy.layers import SubagentLimits

_ACCESSES: dict[str, type[Struct]] = {each.__name__: each for each in get_args(Access)}


def digest_of_policy(policy: RecordedPolicy) -> str:
    """Return the hash by which decisions name a policy."""
    form = cast("dict[str, Json]", msgspec.to_builtins(policy))
    # Policies from before there were jobs, or claims in a decision, have the hash that they had.
    if not policy.job:
        del form["job"], form["globs"]
    if policy.overlap == "tell":
        del form["overlap"]
    return sha256(canonical_json(form)).hexdigest()


def recorded_accesses(accesses: Sequence[Access]) -> tuple[RecordedAccess, ...]:
    """Return what a call would touch, as its decision records it: texts as they are, so that they can be redacted."""
    return tuple(
        RecordedAccess(
            type(access).__name__,
            tuple(
                value if isinstance(value, str) else json.dumps(value)
                for value in (getattr(access, name) for name in access.__struct_fields__)
            ),
        )
        for access in accesses
    )


def accesses_of(recorded: Sequence[RecordedAccess]) -> tuple[Access, ...]:
    """Return what a call would have touched.

    Raises:
        PolicyError: another version recorded it, or its words were taken out.
    """
    found: list[Access] = []
    for one in recorded:
        kind = _ACCESSES.get(one.kind)
        if kind is None:
            raise PolicyError(f"This version knows no access of the kind {one.kind}; update pattern-acp.")
        fields = msgspec.structs.fields(kind)
        values: dict[str, object] = {
            field.name: json.loads(word) if field.type is bool else word
            for field, word in zip(fields, one.words, strict=False)
        }
        try:
            found.append(cast("Access", msgspec.convert(values, kind)))
        except (msgspec.ValidationError, ValueError) as error:
            raise PolicyError("A recorded access cannot be read; its words were taken out, or changed.") from error
    return tuple(found)


def recorded_basis(basis: Basis) -> RecordedBasis:
    """Return what else a decision was made from, as it is recorded."""
    around = basis.circumstances
    paths = tuple(RecordedPath(*each) for each in basis.paths)
    claims = tuple(RecordedClaim(one.path, one.session, one.told) for one in around.claims)
    return RecordedBasis(around.requests, around.minutes, around.branch, around.hour, paths, claims)


def _circumstances(basis: RecordedBasis) -> Circumstances:
    claims = tuple(ClaimElsewhere(one.path, one.session, one.told) for one in basis.claims)
    return Circumstances("", "", basis.requests, basis.minutes, basis.branch, basis.hour, claims)


def decide_anew(policy: RecordedPolicy, accesses: Sequence[Access], basis: RecordedBasis | None = None) -> Decision:
    """Decide by a recorded policy, with paths as they led then; without a record of that, as they lead now."""
    from pattern_acp.policy.decide import decide

    led = {(one.path, one.folder): one.real for one in basis.paths} if basis is not None else {}

    def lookup(path: str, folder: str) -> str:
        absolute = absolute_path(path, folder)
        return resolve_path(absolute) if basis is None else led.get((path, folder), absolute)

    limits = SubagentLimits(
        policy.subagent, policy.only_reads, policy.paths, policy.asks_to_land, policy.job, policy.globs
    )
    decision = decide(
        accesses,
        mode=limits.mode(Mode(policy.mode)),
        roots=policy.roots,
        grants=[
            Grant(Effect(one.effect), GrantKind(one.kind), one.pattern, Lifetime(one.lifetime)) for one in policy.grants
        ],
        resolve=lookup,
        sandbox=policy.sandbox,
        reading_asks=policy.reading_asks,
        rules=[
            PolicyRule(
                cast("RuleEffect", one.effect),
                cast("RuleKind", one.kind),
                one.pattern,
                layer=cast("Literal['user', 'project', 'session']", one.layer),
                conditions=parse_conditions(one.when) if one.when else (),
            )
            for one in policy.rules
        ],
        around=_circumstances(basis) if basis else None,
        overlap=cast("OverlapSetting", policy.overlap),
    )
    return limits.narrowed(decision, accesses)


def difference(decided: PermissionDecided, anew: Decision) -> str:
    """Say how a recorded decision differs from what policy decides; empty when it does not.

    A decision that came from outside of policy may be stricter than policy's, and looser only as a hook may be.
    """
    if (decided.verdict, decided.rule) == (anew.verdict, anew.rule):
        return ""
    is_now = f"recorded {decided.verdict} by {decided.rule}, decided again {anew.verdict} by {anew.rule}"
    if decided.rule not in OUTSIDE_POLICY:
        return is_now
    from pattern_acp.policy.layers import combine

    was = Verdict(decided.verdict)
    if decided.rule == "hook" and was is Verdict.ALLOW:
        allowed = combine((anew, Decision(Verdict.ALLOW, "hook", "")))
        return "" if allowed.verdict is Verdict.ALLOW else is_now
    if was is Verdict.ALLOW:
        return is_now if anew.verdict is Verdict.DENY else ""
    return "" if anew.verdict.strictness <= was.strictness else is_now


OUTSIDE_POLICY = frozenset(
    {
        *("hook", "repeat", "configured", "outside_sandbox", "sandbox_stopped"),
        *("foreign_origin", "memory_origin", "instructions_origin"),
    }
)
"""Rules of decisions that something else than policy had the last word on."""
