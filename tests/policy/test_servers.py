"""MCP servers: what asks, what runs, and how far an always reaches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import CallServer
from pattern_acp.policy.decide import Decision, Mode, Verdict, decide
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.policy.grant_matching import server_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind, approval_options, grant_for

ROOT = "/work/project"
KNOWN = CallServer("files", "write", "hash")
LOOK = CallServer("files", "look", "hash", read_only=True)
NEW = CallServer("files", "write", "hash", news="It is the first use.")
A, K, D = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def decision(access: CallServer, mode: Mode, *grants: Grant) -> Decision:
    return decide([access], mode=mode, roots=[ROOT], grants=grants)


def always(access: CallServer, effect: Effect = Effect.ALLOW) -> Grant:
    return Grant(effect, GrantKind.SERVER_TOOL, server_pattern(access))


@pytest.mark.parametrize(
    ("access", "ask", "edit", "plan", "auto"), [(KNOWN, K, K, D, A), (LOOK, K, K, K, A), (NEW, K, K, D, K)]
)
def test_each_mode_decides_on_each_kind_of_call(
    access: CallServer, ask: Verdict, edit: Verdict, plan: Verdict, auto: Verdict
):
    modes = (Mode.ASK, Mode.EDIT, Mode.PLAN, Mode.AUTO)
    assert [decision(access, mode).verdict for mode in modes] == [ask, edit, plan, auto]


def test_an_always_reaches_this_tool_of_this_server_as_it_is():
    grant = always(KNOWN)
    assert decision(KNOWN, Mode.ASK, grant).verdict is A
    others = (
        CallServer("files", "other", "hash"),
        CallServer("file", "write", "hash"),
        CallServer("files", "write", "another hash", news="It was changed."),
    )
    assert [decision(other, Mode.ASK, grant).verdict for other in others] == [K, K, K]
    assert decision(KNOWN, Mode.PLAN, grant).verdict is D


def test_a_refusal_outlives_a_new_description():
    refusal = always(KNOWN, Effect.DENY)
    changed = CallServer("files", "write", "another hash")
    assert decision(changed, Mode.AUTO, refusal, always(changed)).verdict is D


def test_the_answers_say_how_far_they_reach():
    asked = decision(NEW, Mode.AUTO)
    assert asked.reason == "It is the first use."
    options = approval_options(asked, [NEW])
    assert [option.name for option in options] == [
        "Allow once",
        "Always allow `files/write` in this session",
        "Always allow `files/write` in this project",
        "Always allow `files/write` for this persona everywhere",
        "Reject",
        "Never allow `files/write` in this session",
    ]
    assert grant_for(PermissionAnswer.ALLOW_ALWAYS, asked) == always(NEW)


@given(st.text(), st.text(), st.text(), st.text())
def test_no_name_of_a_server_or_tool_reaches_another(server: str, tool: str, other_server: str, other_tool: str):
    covered = decision(CallServer(other_server, other_tool, "h"), Mode.ASK, always(CallServer(server, tool, "h")))
    assert (covered.verdict is A) == ((server, tool) == (other_server, other_tool))


@given(st.text(max_size=300))
def test_labels_fit_a_button_whatever_a_server_calls_its_tool(tool: str):
    for option in approval_options(decision(CallServer("s", tool), Mode.ASK), []):
        assert len(option.name) <= 110
        assert option.name.isprintable()
