"""The buttons and what they store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import Access, ReadPath, RunCommand, WritePath
from pattern_acp.policy.approver import ApprovalOption, PermissionAnswer
from pattern_acp.policy.decide import Decision, Mode, Verdict, decide
from pattern_acp.policy.grant_matching import Effect, Grant, GrantKind, approval_options, grant_for

ROOT = "/work/project"


def options_of(access: Access) -> tuple[ApprovalOption, ...]:
    return approval_options(decide([access], mode=Mode.ASK, roots=[ROOT], reading_asks=True), [access])


def test_a_question_offers_one_option_a_kind_that_says_how_far_it_reaches():
    assert options_of(RunCommand("git status -s", ROOT)) == (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Run once"),
        ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Always allow `git status …` in this session"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Reject"),
        ApprovalOption(PermissionAnswer.REJECT_ALWAYS, "Never allow `git status …` in this session"),
    )
    assert [option.name for option in options_of(WritePath(f"{ROOT}/src/a.py"))] == [
        "Allow once",
        "Always allow edits in src/ in this session",
        "Reject",
        "Never allow edits in src/ in this session",
    ]


def test_without_a_scope_only_this_once_can_be_answered():
    assert [option.answer for option in options_of(RunCommand("rm -rf $X", ROOT))] == [
        PermissionAnswer.ALLOW_ONCE,
        PermissionAnswer.REJECT_ONCE,
    ]


texts = st.text(max_size=200)
some_access = st.one_of(
    st.builds(RunCommand, texts, st.just(ROOT)),
    st.builds(WritePath, st.builds(f"{ROOT}/{{}}".format, texts)),
    st.builds(ReadPath, st.builds("/usr/share/{}/x".format, texts)),
)


@given(some_access)
def test_labels_are_one_short_line(access: Access):
    for option in options_of(access):
        assert 0 < len(option.name) <= 60
        assert option.name.isprintable()


@pytest.mark.parametrize(
    "answer", [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE, PermissionAnswer.CANCELLED]
)
def test_an_answer_for_once_stores_nothing(answer: PermissionAnswer):
    assert grant_for(answer, decide([RunCommand("ls", ROOT)], mode=Mode.ASK, roots=[ROOT], reading_asks=True)) is None


def test_an_always_stores_the_narrowest_scope():
    decision = decide([RunCommand("ls -l", ROOT)], mode=Mode.ASK, roots=[ROOT], reading_asks=True)
    assert grant_for(PermissionAnswer.ALLOW_ALWAYS, decision) == Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["ls"]')
    assert grant_for(PermissionAnswer.REJECT_ALWAYS, decision) == Grant(Effect.DENY, GrantKind.COMMAND_PREFIX, '["ls"]')


def test_an_always_without_a_scope_stores_nothing():
    assert grant_for(PermissionAnswer.ALLOW_ALWAYS, Decision(Verdict.ASK, "x", "x")) is None
