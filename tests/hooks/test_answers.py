"""What exit codes and stdout of a hook mean."""

import json

import pytest

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.hooks import TEXT_CHARACTERS, HookAnswer, HookVerdict, answer_of, together


def said(answer: JsonObject, event: str = "PreToolUse") -> HookAnswer:
    return answer_of(event, 0, json.dumps(answer), "")


def test_code_two_refuses_with_what_stands_on_stderr():
    assert answer_of("PreToolUse", 2, "", "no tabs\n") == HookAnswer(HookVerdict.DENY, "no tabs")
    assert answer_of("Stop", 2, "{}", "").verdict is HookVerdict.DENY


@pytest.mark.parametrize(
    ("code", "stderr", "problem"),
    [
        (1, "", "ended with exit code 1"),
        (127, "x\nsh: not found\n\n", "ended with exit code 127 (sh: not found)"),
        (-9, "", "was ended"),
    ],
)
def test_any_other_code_is_no_opinion_and_said(code: int, stderr: str, problem: str):
    assert answer_of("PreToolUse", code, '{"decision": "block"}', stderr) == HookAnswer(problem=problem)


def test_both_forms_of_a_decision_are_understood():
    special = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "prod",
            "updatedInput": {"command": "ls"},
            "additionalContext": "careful",
        },
        "systemMessage": "hello",
    }
    assert said(special) == HookAnswer(HookVerdict.DENY, "prod", "careful", "hello", {"command": "ls"})
    assert said({"decision": "approve", "reason": "safe"}) == HookAnswer(HookVerdict.ALLOW, "safe")
    assert said({"permissionDecision": "ask"}).verdict is HookVerdict.ASK
    assert said({"decision": "block", "reason": "again"}, "Stop") == HookAnswer(HookVerdict.DENY, "again")
    assert said({"continue": False, "stopReason": "enough"}) == HookAnswer(reason="enough", stops=True)
    assert said({"decision": 5, "updatedInput": 5, "additionalContext": 5, "reason": 5}) == HookAnswer()


def test_plain_text_is_context_where_a_turn_begins_and_nothing_elsewhere():
    assert answer_of("UserPromptSubmit", 0, " branch: main \n", "") == HookAnswer(context="branch: main")
    assert answer_of("SessionStart", 0, "{not json", "") == HookAnswer(context="{not json")
    assert answer_of("PostToolUse", 0, "formatted", "") == HookAnswer()
    assert answer_of("PreToolUse", 0, "{not json", "").problem == "wrote JSON that cannot be read"


def test_what_a_hook_says_is_bounded():
    answer = answer_of("UserPromptSubmit", 0, "x" * (TEXT_CHARACTERS + 7), "")
    assert answer.context.endswith("\n[7 characters were left out.]")


def test_the_strictest_of_several_wins_and_nothing_else_is_lost():
    opinion = together(
        [
            HookAnswer(HookVerdict.ALLOW, "fine", "one", updated_input={"a": 1}),
            HookAnswer(HookVerdict.DENY, "no", "two", "look"),
            HookAnswer(stops=True),
        ]
    )
    assert (opinion.verdict, opinion.reason, opinion.contexts) == (HookVerdict.DENY, "no", ("one", "two"))
    assert (opinion.messages, opinion.updated_input, opinion.stop) == (("look",), None, "A hook ended the turn.")
    assert together([]).verdict is HookVerdict.NONE
