"""The decision."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import Access, NoEffect, ReadMemory, ReadPath, RunCommand, WriteMemory, WritePath
from pattern_acp.policy.decide import REST_OF_TURN, Decision, GrantScope, Mode, Verdict, decide
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grant_matching import exact_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind

ROOT = "/work/project"
INSIDE = f"{ROOT}/src/a.py"
A, K, D = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def verdict(access: Access, mode: Mode, *grants: Grant) -> Verdict:
    return decide([access], mode=mode, roots=[ROOT], grants=grants).verdict


@pytest.mark.parametrize(
    ("access", "ask", "edit", "plan", "auto"),
    [
        (ReadPath(INSIDE), A, A, A, A),
        (ReadPath(ROOT), A, A, A, A),
        (ReadPath("/etc/hosts"), K, K, K, K),
        (ReadPath("/work/project2/a"), K, K, K, K),
        (ReadPath(f"{ROOT}/.env"), K, K, K, K),
        (ReadPath(f"{ROOT}/.git/HEAD"), A, A, A, A),
        (WritePath(INSIDE), K, A, D, A),
        (WritePath("/etc/hosts"), K, K, D, K),
        (WritePath(f"{ROOT}/.git/config"), K, K, D, K),
        (WritePath(f"{ROOT}/.pattern/config.toml"), K, K, D, K),
        (WritePath(f"{ROOT}/.vscode/tasks.json"), K, K, D, K),
        (ReadPath(f"{ROOT}/.vscode/tasks.json"), A, A, A, A),
        (WritePath(f"{ROOT}/.env"), K, K, D, K),
        (RunCommand("pytest", ROOT), K, K, D, A),
        (RunCommand("pytest", "/tmp"), K, K, D, K),
        (RunCommand("rm -rf x", ROOT), K, K, D, K),
        (RunCommand("cat /etc/passwd", ROOT), K, K, D, K),
        (RunCommand("cat .env", ROOT), K, K, D, K),
        (RunCommand("$X", ROOT), K, K, D, K),
        (RunCommand("pytest '", ROOT), K, K, D, K),
        (RunCommand("pytest > out; ls | wc &", ROOT), K, K, D, A),
        (RunCommand("git status", ROOT), A, A, A, A),
        (RunCommand("cat .github/workflows/ci.yml .vscode/tasks.json", ROOT), A, A, A, A),
        (RunCommand("cp ci.yml .github/workflows/ci.yml", ROOT), K, K, D, K),
        (RunCommand("echo x >> .gitattributes", ROOT), K, K, D, K),
        (WritePath(f"{ROOT}/.mcp.json"), K, K, D, K),
        (WritePath(f"{ROOT}/.github/workflows/ci.yml"), K, K, D, K),
        (RunCommand("git add .", ROOT), K, K, D, A),
        (ReadMemory(), A, A, A, A),
        (WriteMemory("human"), A, A, D, A),
        (NoEffect(), A, A, A, A),
    ],
    ids=str,
)
def test_each_mode_decides_as_the_table_says(access: Access, ask: Verdict, edit: Verdict, plan: Verdict, auto: Verdict):
    assert [verdict(access, mode) for mode in (Mode.ASK, Mode.EDIT, Mode.PLAN, Mode.AUTO)] == [ask, edit, plan, auto]


BOTH = (Lifetime.SESSION, Lifetime.PROJECT)
EVERYWHERE = (*BOTH, Lifetime.PERSONA)


def test_a_question_says_why_and_how_far_an_always_would_reach():
    assert decide([RunCommand("pytest -q", ROOT)], mode=Mode.ASK, roots=[ROOT]) == Decision(
        Verdict.ASK,
        "command",
        "It runs a command, and mode `ask` asks before each one.",
        (
            GrantScope("command_prefix", '["pytest"]', "`pytest …`", EVERYWHERE),
            GrantScope("exact_command", f'["{ROOT}", "pytest -q"]', "exactly `pytest -q`", BOTH),
        ),
    )
    assert decide([WritePath(INSIDE)], mode=Mode.ASK, roots=[ROOT]) == Decision(
        Verdict.ASK,
        "ask_mode",
        "It changes src/a.py, and mode `ask` asks before each edit.",
        (GrantScope("edit_folder", f"{ROOT}/src", "edits in src/", BOTH), REST_OF_TURN),
    )
    assert decide([ReadPath("/usr/share/doc/x/README")], mode=Mode.ASK, roots=[ROOT]).scopes == (
        GrantScope("read_folder", "/usr/share/doc/x", "reads in /usr/share/doc/x/", EVERYWHERE),
    )


@pytest.mark.parametrize(
    ("access", "pattern"),
    [
        (ReadPath("/etc/hosts"), "/etc/hosts"),
        (ReadPath("/work/notes.txt"), "/work/notes.txt"),
        (ReadPath("/usr/share/doc", is_folder=True), "/usr/share/doc"),
        (ReadPath("/usr/share/doc/id_rsa"), "/usr/share/doc/id_rsa"),
        (WritePath("/usr/share/doc/a"), "/usr/share/doc/a"),
        (WritePath(f"{ROOT}/.git/config"), f"{ROOT}/.git/config"),
        (WritePath(f"{ROOT}/a"), ROOT),
    ],
    ids=str,
)
def test_an_always_for_paths_is_as_narrow_as_the_place_is_sensitive(access: Access, pattern: str):
    decision = decide([access], mode=Mode.ASK, roots=[ROOT])
    assert [scope.pattern for scope in decision.scopes if scope != REST_OF_TURN] == [pattern]
    grant = Grant(Effect.ALLOW, GrantKind(decision.scopes[0].kind), pattern)
    assert verdict(access, Mode.ASK, grant) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("pytest -q", ["command_prefix", "exact_command"]),
        ("cd src && pytest -q || true", ["command_prefix", "exact_command"]),
        ("python x.py", ["exact_command"]),
        ("pytest && ruff check", ["exact_command"]),
        ("pytest > out", ["exact_command"]),
        ("cat /etc/passwd", ["exact_command"]),
        ("rm -rf build", ["exact_command"]),
        ("rm -rf $X", []),
        ("curl x | sh", ["exact_command"]),
        ('sh -c "$(curl x)"', []),
        ("pytest '", ["exact_command"]),
    ],
)
def test_an_always_for_commands_is_a_prefix_only_for_plain_commands(line: str, kinds: list[str]):
    decision = decide([RunCommand(line, ROOT)], mode=Mode.ASK, roots=[ROOT])
    assert [scope.kind for scope in decision.scopes] == kinds
    for scope in decision.scopes:
        grant = Grant(Effect.ALLOW, GrantKind(scope.kind), scope.pattern)
        assert verdict(RunCommand(line, ROOT), Mode.ASK, grant) is Verdict.ALLOW


def test_nobody_can_say_always_to_a_command_outside_the_folders():
    decision = decide([RunCommand("pytest -q", "/elsewhere")], mode=Mode.ASK, roots=[ROOT])
    assert (decision.verdict, decision.scopes) == (Verdict.ASK, ())


def test_several_accesses_that_ask_share_only_a_scope_that_covers_them_all():
    same = decide([WritePath(INSIDE), WritePath(f"{ROOT}/src/b.py")], mode=Mode.ASK, roots=[ROOT])
    other = decide([WritePath(INSIDE), WritePath(f"{ROOT}/tests/b.py")], mode=Mode.ASK, roots=[ROOT])
    assert [scope.pattern for scope in same.scopes] == [f"{ROOT}/src", REST_OF_TURN.pattern]
    assert other.scopes == (REST_OF_TURN,)


def test_a_call_that_names_nothing_has_no_effect():
    assert decide([], mode=Mode.PLAN, roots=[ROOT]).rule == "no_effect"


def test_without_roots_everything_asks():
    assert decide([ReadPath("/a")], mode=Mode.AUTO, roots=[]).verdict is Verdict.ASK
    assert decide([RunCommand("ls", "/a")], mode=Mode.AUTO, roots=[]).verdict is Verdict.ASK


def deny(kind: GrantKind, pattern: str) -> Grant:
    return Grant(Effect.DENY, kind, pattern)


@pytest.mark.parametrize(
    ("grant", "access"),
    [
        (deny(GrantKind.COMMAND_PREFIX, '["git", "push"]'), RunCommand("ls; git -C x push", ROOT)),
        (deny(GrantKind.COMMAND_PREFIX, '["git", "push"]'), RunCommand("sh -c 'git push'", ROOT)),
        (deny(GrantKind.COMMAND_PREFIX, '["curl"]'), RunCommand("echo $(/usr/bin/curl x)", ROOT)),
        (deny(GrantKind.EXACT_COMMAND, f'["{ROOT}", "make  all"]'), RunCommand("make all", "/elsewhere")),
        (deny(GrantKind.EDIT_FOLDER, f"{ROOT}/src"), WritePath(INSIDE)),
        (deny(GrantKind.EDIT_FOLDER, f"{ROOT}/src"), RunCommand("echo x > src/a.py", ROOT)),
        (deny(GrantKind.READ_FOLDER, f"{ROOT}/src"), ReadPath(INSIDE)),
    ],
)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_refusal_denies_in_every_mode(grant: Grant, access: Access, mode: Mode):
    assert verdict(access, mode, grant) is Verdict.DENY


def test_a_refusal_leaves_everything_else_alone():
    grant = deny(GrantKind.COMMAND_PREFIX, '["git", "push"]')
    assert verdict(RunCommand("git status", ROOT), Mode.AUTO, grant) is Verdict.ALLOW
    assert verdict(RunCommand("git commit -m push", ROOT), Mode.AUTO, grant) is Verdict.ALLOW


def test_a_decision_says_its_rule_and_its_reason():
    decision = decide([WritePath(INSIDE)], mode=Mode.PLAN, roots=[ROOT])
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "plan_mode")
    assert decision.reason == "Plan mode changes no files."


paths = st.sampled_from([INSIDE, f"{ROOT}/.env", "/etc/hosts", f"{ROOT}/.git/config", "/usr/share/doc/a", "/work"])
lines = st.sampled_from(
    ["pytest", "pytest -q", "git status", "rm -rf x", "cat /etc/x", "pytest; ls", "git push", "$X", "'"]
)
accesses = st.one_of(
    st.builds(ReadPath, paths),
    st.builds(WritePath, paths),
    st.builds(RunCommand, lines, st.sampled_from([ROOT, "/tmp"])),
    st.sampled_from([ReadMemory(), WriteMemory("human"), NoEffect()]),
)
command_patterns = st.sampled_from(
    ['["pytest"]', '["git"]', '["git", "status"]', f'["{ROOT}", "rm -rf x"]', '["rm"]', "x"]
)
folder_patterns = st.sampled_from([ROOT, f"{ROOT}/src", "/", "/etc/hosts", "/usr/share/doc", f"{ROOT}/.env"])


def grants_of(effect: Effect) -> st.SearchStrategy[Grant]:
    commands = st.builds(
        Grant,
        st.just(effect),
        st.sampled_from([GrantKind.COMMAND_PREFIX, GrantKind.EXACT_COMMAND]),
        command_patterns,
    )
    folders = st.builds(
        Grant, st.just(effect), st.sampled_from([GrantKind.EDIT_FOLDER, GrantKind.READ_FOLDER]), folder_patterns
    )
    return st.one_of(commands, folders)


all_grants = st.lists(st.one_of(grants_of(Effect.ALLOW), grants_of(Effect.DENY)), max_size=4)
modes = st.sampled_from(list(Mode))
some_accesses = st.lists(accesses, max_size=3)


def strictness(some: list[Access], mode: Mode, grants: list[Grant]) -> int:
    return decide(some, mode=mode, roots=[ROOT], grants=grants).verdict.strictness


@given(some_accesses, modes, all_grants, grants_of(Effect.DENY))
def test_one_more_refusal_never_makes_a_decision_milder(
    some: list[Access], mode: Mode, grants: list[Grant], one: Grant
):
    assert strictness(some, mode, [*grants, one]) >= strictness(some, mode, grants)


@given(some_accesses, modes, all_grants, grants_of(Effect.ALLOW))
def test_one_more_allowance_never_overrides_a_denial_and_never_makes_a_decision_stricter(
    some: list[Access], mode: Mode, grants: list[Grant], one: Grant
):
    before, after = strictness(some, mode, grants), strictness(some, mode, [one, *grants])
    assert after == before if before == Verdict.DENY.strictness else after <= before


@given(some_accesses, modes, all_grants)
def test_a_call_is_decided_at_least_as_strictly_as_each_of_its_accesses(
    some: list[Access], mode: Mode, grants: list[Grant]
):
    assert all(strictness(some, mode, grants) >= strictness([one], mode, grants) for one in some)


@given(some_accesses, modes, all_grants, st.randoms())
def test_order_makes_no_difference(some: list[Access], mode: Mode, grants: list[Grant], random: Random):
    shuffled, other = list(some), list(grants)
    random.shuffle(shuffled)
    random.shuffle(other)
    assert strictness(shuffled, mode, other) == strictness(some, mode, grants)


def test_the_reason_names_what_is_unusual_about_any_of_several_files_first():
    paths = ["/project/a.txt", "/project/.git/hooks/post-commit", *(f"/project/{number}" for number in range(9))]
    decision = decide([WritePath(path) for path in paths], mode=Mode.ASK, roots=["/project"])
    assert decision.verdict is Verdict.ASK
    assert decision.reason.startswith(".git/hooks/post-commit belongs to git's own files")
    assert "It changes a.txt, and mode `ask` asks before each edit." in decision.reason
    assert decision.reason.endswith("And 7 more like these.")


def test_a_command_that_runs_unasked_runs_in_the_sandbox_and_one_that_was_allowed_does_not() -> None:
    command = RunCommand("pytest -q", "/project")
    unasked = decide([command], mode=Mode.AUTO, roots=["/project"], sandbox="Landlock")
    grant = Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, exact_pattern(command))
    allowed = decide([command], mode=Mode.AUTO, roots=["/project"], grants=[grant], sandbox="Landlock")
    assert (unasked.verdict, unasked.sandbox) == (Verdict.ALLOW, "Landlock")
    assert (allowed.verdict, allowed.sandbox) == (Verdict.ALLOW, "")
