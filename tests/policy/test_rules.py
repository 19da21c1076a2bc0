"""Rules of the user and of projects."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.policy_rules import RuleError, parse_conditions, parse_rule
from pattern_acp.config.settings import PolicyRule, RuleEffect
from pattern_acp.domain.access import Access, CallServer, FetchUrl, ReadPath, RunCommand, WritePath
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import Circumstances, Decision, Mode, Verdict
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.policy.layers import what_would_change

ROOT = "/work/project"
TEXTS = [
    "run pytest *", "run pytest", "run git push", "run npm test -- *", "edit src/**", "edit *.md", "read /etc/hosts",
    "read /home/me/notes/**", "fetch docs.python.org", "fetch *.example.org", "mcp tracker/*", "run git *",
]  # fmt: skip
ACCESSES: list[Access] = [
    RunCommand("pytest -q", ROOT), RunCommand("git push", ROOT), RunCommand("git push && pytest", ROOT),
    RunCommand("rm -rf src", ROOT), RunCommand("git status", ROOT), WritePath(f"{ROOT}/src/a.py"),
    WritePath(f"{ROOT}/.git/config"), ReadPath("/etc/hosts"), ReadPath(f"{ROOT}/a"), FetchUrl("docs.python.org", ""),
    CallServer("tracker", "list"), RunCommand("pattern-acp trust", ROOT),
]  # fmt: skip
effects: st.SearchStrategy[RuleEffect] = st.sampled_from(["allow", "ask", "deny"])
some_rules = st.lists(st.builds(parse_rule, effects, st.sampled_from(TEXTS)), max_size=6)


def decided(access: Access, *rules: PolicyRule, mode: Mode = Mode.ASK) -> Decision:
    return decide([access], mode=mode, roots=[ROOT], rules=rules)


def verdict(line: str, *rules: str, mode: Mode = Mode.ASK) -> str:
    parsed: list[PolicyRule] = []
    for rule in rules:
        effect, _, text = rule.partition(" ")
        assert effect in {"allow", "ask", "deny"}
        parsed.append(parse_rule("allow" if effect == "allow" else "ask" if effect == "ask" else "deny", text))
    return decided(RunCommand(line, ROOT), *parsed, mode=mode).verdict.value


@pytest.mark.parametrize(
    ("line", "rules", "expected"),
    [
        ("pytest", ["allow run pytest"], "allow"),
        ("pytest -q", ["allow run pytest"], "ask"),
        ("pytest -q tests", ["allow run pytest *"], "allow"),
        ("pytest -q | head -5", ["allow run pytest *"], "allow"),
        ("cd sub && pytest", ["allow run pytest *"], "allow"),
        ("pytest && make", ["allow run pytest *"], "ask"),
        ("pytest && make", ["allow run pytest *", "allow run make"], "allow"),
        ("make test", ["allow run make *"], "allow"),
        ("npm test -- -t a", ["allow run npm test -- *"], "allow"),
        ("npm test", ["allow run npm test -- *"], "ask"),
        ("pytest > out", ["allow run pytest *"], "ask"),
        ("pytest $X", ["allow run pytest *"], "ask"),
        ("pytest -p evil", ["allow run pytest *"], "ask"),
        ("pytest /tmp/x", ["allow run pytest *"], "ask"),
        ("./pytest", ["allow run pytest *"], "ask"),
        ("pytest && ./cat a", ["allow run pytest *"], "ask"),
        ("pytest && X=1 cat a", ["allow run pytest *"], "ask"),
        ("rm -rf src", ["allow run rm *"], "ask"),
        ("curl https://example.org", ["allow run curl *"], "ask"),
        ("cat .env", ["allow run cat *", "allow read .env"], "ask"),
        ("pattern-acp trust .", ["allow run pattern-acp *"], "ask"),
        ("git push origin main", ["deny run git push"], "deny"),
        ("ls && git push", ["deny run git push"], "deny"),
        ("sh -c 'git push'", ["deny run git push"], "deny"),
        ("env X=1 git push", ["deny run git push"], "deny"),
        ("/usr/bin/git push", ["deny run git push"], "deny"),
        ("git pull", ["deny run git push"], "ask"),
        ("git status", ["ask run git *"], "ask"),
        ("git status", ["ask run git *", "allow run git *"], "ask"),
        ("pytest", ["deny run pytest", "allow run pytest *", "ask run pytest"], "deny"),
        ("echo x > src/a.py", ["deny edit src/**"], "deny"),
        ("cat docs/a.md", ["deny read docs/**"], "deny"),
    ],
)  # fmt: skip
def test_a_rule_changes_what_is_decided_on_a_command(line: str, rules: list[str], expected: str):
    assert verdict(line, *rules) == expected


@pytest.mark.parametrize(
    ("line", "setting", "expected"),
    [
        ("pytest -q | tail -5", "", "allow"),
        ("pytest -q && git status --short", "", "allow"),
        ("pytest -q && git status --short", "core.fsmonitor", "ask"),
        ("pytest -q && ./tail a", "", "ask"),
        ("pytest -q && cat .env", "", "ask"),
        ("pytest -q && cat /etc/hosts", "", "ask"),
        ("pytest -q && grep -r KEY .", "", "ask"),
        ("pytest -q && make", "", "ask"),
        ("tail -5 a", "", "allow"),
    ],
)
def test_a_prefix_that_was_allowed_may_stand_beside_commands_that_surely_only_read(
    line: str, setting: str, expected: str
):
    grant = Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["pytest"]')
    access = RunCommand(line, ROOT, setting)
    assert decide([access], mode=Mode.ASK, roots=[ROOT], grants=[grant]).verdict.value == expected
    offered = decide([access], mode=Mode.ASK, roots=[ROOT]).scopes[:1]
    assert [scope.kind == "command_prefix" for scope in offered] == ([expected == "allow"] if "pytest" in line else [])


NIGHT = Circumstances("", "", 3, 10, "main", 23)
DAY = Circumstances("", "", 200, 60, "release/2", 12)


@pytest.mark.parametrize(
    ("line", "rule", "around", "expected"),
    [
        ("git push", "deny run git push when branch main", NIGHT, "deny"),
        ("git push", "deny run git push when branch main", DAY, "ask"),
        ("git push", "deny run git push when branch not release/*", NIGHT, "deny"),
        ("git push", "deny run git push when branch not release/*", DAY, "ask"),
        ("git push", "deny run git push when branch not main", Circumstances(branch=""), "deny"),
        ("git push", "deny run git push when branch main", Circumstances(), "deny"),
        ("git switch main && git push", "deny run git push when branch main", DAY, "deny"),
        ("cd ../other && git push", "deny run git push when branch main", DAY, "deny"),
        ("git -C ../other push", "deny run git -C * push when branch main", DAY, "deny"),
        ("git add a && git push", "deny run git push when branch main", DAY, "ask"),
        ("make", "allow run make when branch release/*", DAY, "allow"),
        ("make", "allow run make when branch release/*", NIGHT, "ask"),
        ("make", "allow run make when branch release/*", Circumstances(), "ask"),
        ("cd sub && make", "allow run make when branch release/*", DAY, "ask"),
        ("make", "allow run make when hour 9-17", DAY, "allow"),
        ("make", "allow run make when hour 9-12", DAY, "ask"),
        ("make", "allow run make when hour 22-6", NIGHT, "allow"),
        ("make", "allow run make when hour 22-6", DAY, "ask"),
        ("make", "allow run make when hour not 22-6", DAY, "allow"),
        ("make", "allow run make when hour 9-17 and requests > 5", DAY, "allow"),
        ("make", "allow run make when hour 22-6 and requests > 5", NIGHT, "ask"),
        ("make", "deny run make when requests < 4", NIGHT, "deny"),
        ("make", "deny run make when minutes < 10", NIGHT, "ask"),
        ("make", "deny run make when minutes<11 # time is short", NIGHT, "deny"),
        ("say 'when'", "allow run say 'when'", DAY, "allow"),
    ],
)  # fmt: skip
def test_a_rule_with_conditions_counts_only_when_all_are_met(
    line: str, rule: str, around: Circumstances, expected: str
):
    effect, _, text = rule.partition(" ")
    parsed = parse_rule("allow" if effect == "allow" else "deny", text)
    assert decide([RunCommand(line, ROOT)], mode=Mode.ASK, roots=[ROOT], rules=[parsed], around=around).verdict == (
        expected
    )


facts = st.builds(
    Circumstances,
    requests=st.none() | st.integers(0, 20),
    minutes=st.none() | st.integers(0, 20),
    branch=st.none() | st.sampled_from(["", "main", "release/1"]),
    hour=st.none() | st.integers(0, 23),
)
CONDITIONS = ["hour 22-6", "hour not 9-17", "branch main", "branch not release/*", "requests < 10", "minutes > 5"]
some_conditions = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3).map(" and ".join)


@given(st.sampled_from(ACCESSES), st.sampled_from(TEXTS), effects, some_conditions, facts)
def test_a_rule_with_conditions_decides_as_without_them_or_as_if_it_were_not_there(
    access: Access, text: str, effect: RuleEffect, conditions: str, around: Circumstances
):
    rule = parse_rule(effect, f"{text} when {conditions}")
    now = decide([access], mode=Mode.EDIT, roots=[ROOT], rules=[rule], around=around).verdict
    always = decided(access, parse_rule(effect, text), mode=Mode.EDIT).verdict
    assert now in {always, decided(access, mode=Mode.EDIT).verdict}
    assert parse_conditions(rule.when) == rule.conditions


@given(st.sampled_from(ACCESSES), st.sampled_from(TEXTS), effects, some_conditions, facts)
def test_not_knowing_the_circumstances_never_makes_a_decision_looser(
    access: Access, text: str, effect: RuleEffect, conditions: str, around: Circumstances
):
    rule = parse_rule(effect, f"{text} when {conditions}")
    known = decide([access], mode=Mode.EDIT, roots=[ROOT], rules=[rule], around=around).verdict
    assert decided(access, rule, mode=Mode.EDIT).verdict.strictness >= known.strictness


def test_a_decision_by_a_rule_with_conditions_names_them():
    rule = parse_rule("deny", "run git push when branch main # by pull request")
    decision = decide([RunCommand("git push", ROOT)], mode=Mode.ASK, roots=[ROOT], rules=[rule], around=NIGHT)
    assert decision.reason.startswith("The rule `deny run git push when branch main` of user rules says so: by pull")
    assert what_would_change(decision) == "Other circumstances than branch main, or a change of this rule."


def test_rules_hold_in_every_mode_and_no_allowance_changes_what_plan_denies():
    assert verdict("make", "deny run make", mode=Mode.AUTO) == "deny"
    assert verdict("make", "ask run make", mode=Mode.AUTO) == "ask"
    assert verdict("make", "allow run make", mode=Mode.EDIT) == "allow"
    assert verdict("make", "allow run make", mode=Mode.PLAN) == "deny"


@pytest.mark.parametrize(
    ("access", "rule", "expected"),
    [
        (WritePath(f"{ROOT}/src/a/b.py"), "edit src/**", "allow"),
        (WritePath(f"{ROOT}/lib/b.py"), "edit src/**", "ask"),
        (WritePath(f"{ROOT}/.git/config"), "edit **", "ask"),
        (WritePath("/tmp/x"), "edit /tmp/**", "allow"),
        (WritePath("/home/me/.ssh/x"), "edit /home/me/**", "ask"),
        (ReadPath("/home/me/notes/a.md"), "read /home/me/notes/**", "allow"),
        (ReadPath(f"{ROOT}/.env"), "read **", "ask"),
        (FetchUrl("docs.python.org", ""), "fetch docs.python.org", "allow"),
        (FetchUrl("x.docs.python.org", ""), "fetch docs.python.org", "ask"),
        (FetchUrl("a.example.org", ""), "fetch *.example.org", "allow"),
        (CallServer("tracker", "list"), "mcp tracker/*", "allow"),
        (CallServer("other", "list"), "mcp tracker/*", "ask"),
        (CallServer("tracker", "list", news="It is new."), "mcp tracker/*", "ask"),
    ],
)
def test_an_allowance_reaches_what_it_names_and_loosens_no_protection(access: Access, rule: str, expected: str):
    assert decided(access, parse_rule("allow", rule)).verdict.value == expected


def test_the_reason_of_a_rule_is_part_of_the_decision():
    rule = parse_rule("deny", "run git push # releases go through CI")
    decision = decided(RunCommand("git push", ROOT), rule)
    assert decision.reason == "The rule `deny run git push` of user rules says so: releases go through CI."


@given(st.sampled_from(ACCESSES), st.sampled_from(list(Mode)), some_rules, st.randoms())
def test_the_order_of_rules_and_their_number_change_nothing(
    access: Access, mode: Mode, rules: list[PolicyRule], random: Random
):
    once = decided(access, *rules, mode=mode).verdict
    mixed = rules + rules
    random.shuffle(mixed)
    assert decided(access, *mixed, mode=mode).verdict is once


@given(st.sampled_from(ACCESSES), st.sampled_from(list(Mode)), some_rules, st.sampled_from(TEXTS), effects)
def test_one_more_rule_never_acts_against_its_name(
    access: Access, mode: Mode, rules: list[PolicyRule], text: str, effect: RuleEffect
):
    before = decided(access, *rules, mode=mode).verdict.strictness
    after = decided(access, *rules, parse_rule(effect, text), mode=mode).verdict.strictness
    assert after <= before if effect == "allow" else after >= before


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "a kind and a pattern"),
        ("walk pytest", 1, "no kind"),
        ("  walk pytest", 3, "no kind"),
        ("run", 4, "needs a pattern"),
        ("run 'a", 5, "quote"),
        ("run *", 5, "name of a program"),
        ("edit ../x", 6, "no `..`"),
        ("fetch https://a.b", 7, "a host"),
        ("mcp tracker", 5, "SERVER/TOOL"),
        ("run a\u202eb", 5, "invisible"),
        ("run a when weekday monday", 12, "no condition"),
        ("run a when hour 9-17 and  hour 9-25", 27, "no condition"),
        ("run a when hour 9-9", 12, "no condition"),
        ("run a when", 11, "no condition"),
        ("edit a when requests = 5", 13, "no condition"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_with_its_column(text: str, column: int, words: str):
    with pytest.raises(RuleError, match=words) as raised:
        parse_rule("allow", text)
    assert raised.value.column == column


def test_a_refusal_names_what_it_reaches_also_where_an_always_was_given():
    assert decided(RunCommand("make", ROOT), parse_rule("ask", "run make")).verdict is Verdict.ASK
