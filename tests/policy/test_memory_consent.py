"""Consent to writes of memory."""

import json

from pattern_acp.domain.access import WriteMemory, WriteVerdict
from pattern_acp.policy.decide import Mode, Verdict, decide
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.policy.grants import Effect, Grant, GrantKind, approval_options, grant_for

WHY = "It changes the memory block `human`: its permission is partner."
WRITE = WriteMemory("human", "persona", "ada", WriteVerdict.CONSENT, WHY)
PATTERN = json.dumps(["persona", "ada", "human"])


def test_a_write_that_needs_consent_asks_in_every_mode_but_plan():
    for mode in (Mode.ASK, Mode.EDIT, Mode.AUTO):
        decision = decide([WRITE], mode=mode, roots=["/work"])
        assert (decision.verdict, decision.rule, decision.reason) == (Verdict.ASK, "memory_consent", WHY)
    assert decide([WRITE], mode=Mode.PLAN, roots=["/work"]).verdict is Verdict.DENY


def test_an_always_answer_reaches_this_one_block():
    decision = decide([WRITE], mode=Mode.ASK, roots=["/work"])
    labels = [option.name for option in approval_options(decision, [WRITE])]
    assert "Always allow writes to `human` in this session" in labels
    grant = grant_for(PermissionAnswer.ALLOW_ALWAYS, decision)
    assert grant is not None
    assert grant == Grant(Effect.ALLOW, GrantKind.MEMORY_BLOCK, PATTERN)
    assert decide([WRITE], mode=Mode.ASK, roots=["/work"], grants=[grant]).verdict is Verdict.ALLOW
    other = WriteMemory("human", "persona", "eve", WriteVerdict.CONSENT, WHY)
    assert decide([other], mode=Mode.ASK, roots=["/work"], grants=[grant]).verdict is Verdict.ASK


def test_a_refusal_holds_even_where_no_consent_is_needed():
    refusal = Grant(Effect.DENY, GrantKind.MEMORY_BLOCK, PATTERN)
    for access in (WRITE, WriteMemory("human", "persona", "ada")):
        decision = decide([access], mode=Mode.AUTO, roots=["/work"], grants=[refusal])
        assert (decision.verdict, decision.rule) == (Verdict.DENY, "refused_before")


def test_a_secret_asks_each_time_and_no_always_reaches_it():
    secret = WriteMemory("human", "persona", "ada", WriteVerdict.CONSENT, "It seems to hold a key.", only_once=True)
    grant = Grant(Effect.ALLOW, GrantKind.MEMORY_BLOCK, PATTERN)
    decision = decide([secret], mode=Mode.AUTO, roots=["/work"], grants=[grant])
    assert (decision.verdict, decision.rule, decision.scopes) == (Verdict.ASK, "memory_secret", ())
    assert [option.answer for option in approval_options(decision, [secret])] == [
        PermissionAnswer.ALLOW_ONCE,
        PermissionAnswer.REJECT_ONCE,
    ]


def test_what_nobody_may_is_denied():
    denied = WriteMemory("human", "persona", "ada", WriteVerdict.DENIED, "Nobody may.")
    grant = Grant(Effect.ALLOW, GrantKind.MEMORY_BLOCK, PATTERN)
    decision = decide([denied], mode=Mode.AUTO, roots=["/work"], grants=[grant])
    assert (decision.verdict, decision.rule, decision.reason) == (Verdict.DENY, "memory_denied", "Nobody may.")


def test_a_call_that_writes_two_blocks_has_no_always():
    other = WriteMemory("mood", "persona", "ada", WriteVerdict.CONSENT, "It changes `mood`.")
    assert decide([WRITE, other], mode=Mode.ASK, roots=["/work"]).scopes == ()
