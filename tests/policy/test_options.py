"""The buttons and what they store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import Access, ReadPath, RunCommand, WriteMemory, WritePath, WriteVerdict
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.policy.decide import Decision, Mode, Verdict, decide
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, Lifetime, PermissionAnswer
from pattern_acp.policy.grants import Effect, Grant, GrantKind, approval_options, grant_for

ROOT = "/work/project"


def options_of(access: Access) -> tuple[ApprovalOption, ...]:
    return approval_options(decide([access], mode=Mode.ASK, roots=[ROOT], reading_asks=True), [access])


def test_a_question_offers_how_far_and_how_long_an_always_reaches():
    assert options_of(RunCommand("git status -s", ROOT)) == (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Run once"),
        ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Always allow `git status …` in this session"),
        ApprovalOption(PermissionAnswer.ALLOW_EXACT, "Always allow exactly `git status -s` in this session"),
        ApprovalOption(PermissionAnswer.ALLOW_PROJECT, "Always allow `git status …` in this project"),
        ApprovalOption(PermissionAnswer.ALLOW_PERSONA, "Always allow `git status …` for this persona everywhere"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Reject"),
        ApprovalOption(PermissionAnswer.REJECT_ALWAYS, "Never allow `git status …` in this session"),
    )
    assert [option.name for option in options_of(WritePath(f"{ROOT}/src/a.py"))] == [
        "Allow once",
        "Always allow edits in src/ in this session",
        "Allow edits for the rest of this turn",
        "Always allow edits in src/ in this project",
        "Reject",
        "Never allow edits in src/ in this session",
    ]


@pytest.mark.parametrize(
    "access",
    [
        RunCommand("rm -rf build", ROOT),
        RunCommand("make $TARGET", ROOT),
        WritePath(f"{ROOT}/.env"),
        ReadPath(f"{ROOT}/.env"),
        WriteMemory("human", standing=WriteVerdict.CONSENT),
    ],
)
def test_what_is_destructive_or_protected_is_allowed_for_one_session_at_most(access: Access):
    kinds = [option.answer for option in options_of(access)]
    assert PermissionAnswer.ALLOW_PROJECT not in kinds
    assert PermissionAnswer.ALLOW_PERSONA not in kinds


def test_the_first_option_of_each_kind_has_the_id_of_the_kind_and_reaches_least():
    options = options_of(RunCommand("pytest -q", ROOT))
    request = ApprovalRequest(ToolCallView(ToolCallId("c"), "run_command", "x", ToolKind.EXECUTE, {}), "x", options)
    assert [option.answer.value for option in request.first_of_each_kind] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
    ]
    assert {option.answer.kind for option in options} == {option.answer for option in request.first_of_each_kind}


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
        assert 0 < len(option.name) <= 110
        assert option.name.isprintable()


lines = st.one_of(
    texts,
    st.builds("git log {}".format, texts),
    st.builds("npm run {} {}".format, texts, texts),
    st.text(alphabet="ab `'\u202e…", max_size=60),
)


@given(lines, lines)
def test_two_different_commands_never_share_a_label(one: str, other: str):
    def labels(line: str) -> dict[str, Grant | None]:
        access = RunCommand(line, ROOT)
        decision = decide([access], mode=Mode.ASK, roots=[ROOT], reading_asks=True)
        return {
            option.name: grant_for(option.answer, decision)
            for option in approval_options(decision, [access])
            if option.answer.kind is PermissionAnswer.ALLOW_ALWAYS
        }

    first, second = labels(one), labels(other)
    for label in first.keys() & second.keys():
        assert first[label] == second[label]


def test_a_label_shows_a_command_whole_or_says_how_it_was_cut():
    def label(line: str, cwd: str = ROOT) -> str:
        return options_of(RunCommand(line, cwd))[1].name

    assert label("make check VERBOSE=1 -j8 install documentation") == (
        "Always allow exactly `make check VERBO…` (+30 chars, b879cc7d) in this session"
    )
    assert label("make a  b") == "Always allow exactly `make a b` (as shown, c1b92e67) in this session"
    assert label("make", f"{ROOT}/docs") == "Always allow exactly `make` in docs/ in this session"


@pytest.mark.parametrize(
    "answer", [PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE, PermissionAnswer.CANCELLED]
)
def test_an_answer_for_once_stores_nothing(answer: PermissionAnswer):
    assert grant_for(answer, decide([RunCommand("ls", ROOT)], mode=Mode.ASK, roots=[ROOT], reading_asks=True)) is None


def test_an_always_stores_what_its_label_says():
    decision = decide([RunCommand("ls -l", ROOT)], mode=Mode.ASK, roots=[ROOT], reading_asks=True)
    assert grant_for(PermissionAnswer.ALLOW_ALWAYS, decision) == Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["ls"]')
    assert grant_for(PermissionAnswer.REJECT_ALWAYS, decision) == Grant(Effect.DENY, GrantKind.COMMAND_PREFIX, '["ls"]')
    for answer, lifetime in (
        (PermissionAnswer.ALLOW_PROJECT, Lifetime.PROJECT),
        (PermissionAnswer.ALLOW_PERSONA, Lifetime.PERSONA),
    ):
        assert grant_for(answer, decision) == Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["ls"]', lifetime)
    exact = grant_for(PermissionAnswer.ALLOW_EXACT, decision)
    assert exact == Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, f'["{ROOT}", "ls -l"]')


def test_an_always_without_a_scope_stores_nothing():
    assert grant_for(PermissionAnswer.ALLOW_ALWAYS, Decision(Verdict.ASK, "x", "x")) is None


def test_a_change_of_files_in_many_folders_offers_the_rest_of_the_turn():
    accesses = [WritePath(f"{ROOT}/src/a.py"), WritePath(f"{ROOT}/docs/b.md")]
    decision = decide(accesses, mode=Mode.ASK, roots=[ROOT])
    names = [option.name for option in approval_options(decision, accesses)]
    assert names == ["Allow once", "Allow edits for the rest of this turn", "Reject"]
    grant = grant_for(PermissionAnswer.ALLOW_TURN, decision)
    assert grant is not None
    assert grant == Grant(Effect.ALLOW, GrantKind.EDITS, "", Lifetime.TURN)
    assert decide(accesses, mode=Mode.ASK, roots=[ROOT], grants=[grant]).verdict is Verdict.ALLOW
    for path in (f"{ROOT}/.env", "/elsewhere/a.py", f"{ROOT}/.git/config"):
        assert decide([WritePath(path)], mode=Mode.ASK, roots=[ROOT], grants=[grant]).verdict is Verdict.ASK
    assert decide(accesses, mode=Mode.PLAN, roots=[ROOT], grants=[grant]).verdict is Verdict.DENY
