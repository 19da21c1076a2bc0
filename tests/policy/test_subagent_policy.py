"""What a subagent may do less than its session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.settings import PolicyRule
from pattern_acp.domain.access import (
    Access,
    CallServer,
    FetchUrl,
    ReadMemory,
    ReadPath,
    RunCommand,
    WriteMemory,
    WritePath,
)
from pattern_acp.policy.decide import Mode, Verdict, decide
from pattern_acp.policy.grant_matching import exact_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.policy.layers import UNLIMITED, SubagentLimits

ROOTS = ("/w",)
PLACES = st.sampled_from(["/w/a.py", "/w/src/b.py", "/w/srcfile", "/w/.git/config", "/etc/hosts"])
ACCESSES: st.SearchStrategy[Access] = st.one_of(
    PLACES.map(ReadPath),
    PLACES.map(WritePath),
    st.sampled_from(["ls", "rm -rf /", "git push", "pytest"]).map(lambda line: RunCommand(line, "/w")),
    st.just(ReadMemory()),
    st.just(WriteMemory("human")),
    st.booleans().map(lambda read_only: CallServer("server", "tool", read_only=read_only)),
    st.just(FetchUrl("example.com", "https://example.com/")),
)
NARROWINGS = st.builds(
    SubagentLimits, st.just("maker"), st.booleans(), st.sampled_from([(), ("/w/src",), ("/w/src", "/w/a.py")])
)
GRANTS = st.lists(
    st.sampled_from(
        [
            Grant(Effect.ALLOW, GrantKind.EDIT_FOLDER, "/w"),
            Grant(Effect.DENY, GrantKind.EDIT_FOLDER, "/w/src"),
            Grant(Effect.ALLOW, GrantKind.FETCH_HOST, "example.com"),
        ]
    ),
    max_size=2,
)


@given(st.lists(ACCESSES, max_size=3), st.sampled_from(Mode), NARROWINGS, GRANTS)
def test_a_narrowed_decision_is_never_freer_than_the_sessions(
    accesses: list[Access], mode: Mode, narrowing: SubagentLimits, grants: list[Grant]
):
    whole = decide(accesses, mode=mode, roots=ROOTS, grants=grants)
    inner = decide(accesses, mode=narrowing.mode(mode), roots=ROOTS, grants=grants)
    narrowed = narrowing.narrowed(inner, accesses)
    if mode is not Mode.PLAN and narrowing.only_reads:
        # Plan mode asks of some servers what auto allows, and never the other way round.
        assert narrowed.verdict.strictness >= min(whole.verdict.strictness, Verdict.ASK.strictness)
    else:
        assert narrowed.verdict.strictness >= whole.verdict.strictness
    assert UNLIMITED.narrowed(whole, accesses) == whole


@given(st.sampled_from(Mode), GRANTS)
def test_who_only_reads_changes_nothing_in_any_mode(mode: Mode, grants: list[Grant]):
    reader = SubagentLimits("finder", only_reads=True)
    for access in (WritePath("/w/a.py"), RunCommand("make", "/w"), WriteMemory("human"), CallServer("s", "t")):
        decision = decide((access,), mode=reader.mode(mode), roots=ROOTS, grants=grants)
        assert reader.narrowed(decision, (access,)).verdict is Verdict.DENY


def test_edits_that_land_as_a_whole_are_not_asked_about_one_by_one_and_everything_else_is():
    maker = SubagentLimits("maker", asks_to_land=True)

    def verdict(access: Access, mode: Mode, *rules: PolicyRule) -> Verdict:
        decision = decide((access,), mode=maker.mode(mode), roots=ROOTS, rules=rules)
        return maker.narrowed(decision, (access,)).verdict

    edit = WritePath("/w/a.py")
    assert [verdict(edit, mode) for mode in (Mode.ASK, Mode.PLAN)] == [Verdict.ALLOW, Verdict.DENY]
    assert verdict(edit, Mode.ASK, PolicyRule("ask", "edit", "a.py")) is Verdict.ASK
    for access in (WritePath("/w/.git/config"), WritePath("/other/a.py"), RunCommand("make", "/w")):
        assert verdict(access, Mode.ASK) is Verdict.ASK


@pytest.mark.parametrize("path", ["/w/a.py", "/w/srcfile", "/w/src/../a.py", "/w"])
def test_writes_outside_its_paths_are_denied_whatever_was_granted(path: str):
    grants = (Grant(Effect.ALLOW, GrantKind.EDIT_FOLDER, "/w"),)
    maker = SubagentLimits("maker", paths=("/w/src",))
    access = WritePath(path)
    decision = maker.narrowed(decide((access,), mode=Mode.AUTO, roots=ROOTS, grants=grants), (access,))
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "subagent_paths")


def test_commands_of_one_with_paths_ask_unless_the_person_said_always():
    maker, line = SubagentLimits("maker", paths=("/w/src",)), RunCommand("pytest", "/w")
    asked = maker.narrowed(decide((line,), mode=Mode.AUTO, roots=ROOTS), (line,))
    assert (asked.verdict, asked.rule) == (Verdict.ASK, "subagent_paths")
    always = (Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, exact_pattern(line)),)
    decision = decide((line,), mode=Mode.AUTO, roots=ROOTS, grants=always)
    assert maker.narrowed(decision, (line,)) == decision
