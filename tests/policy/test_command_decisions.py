"""A table of command lines with the decision in each mode, and promises that hold for all of them."""

from pathlib import Path

import pytest

from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import NO_SANDBOX, Decision, Mode, Verdict

ROOT = "/home/me/proj"
MODES = (Mode.ASK, Mode.EDIT, Mode.PLAN, Mode.AUTO)
LETTERS = {Verdict.ALLOW: "a", Verdict.ASK: "k", Verdict.DENY: "d"}


def cases() -> list[tuple[str, str]]:
    text = Path(__file__).with_name("command_decisions.txt").read_text("utf-8")
    rows = [row for row in text.splitlines() if row and not row.startswith("#")]
    return [(letters, line.replace("⏎", "\n")) for letters, _, line in (row.partition(" ") for row in rows)]


CASES = cases()


def decided(line: str, mode: Mode, sandbox: str = "") -> Decision:
    return decide([RunCommand(line, ROOT)], mode=mode, roots=(ROOT,), sandbox=sandbox)


@pytest.mark.parametrize(("letters", "line"), CASES, ids=ascii)
def test_each_line_of_the_table_is_decided_as_it_says(letters: str, line: str):
    assert "".join(LETTERS[decided(line, mode).verdict] for mode in MODES) == letters


@pytest.mark.parametrize("line", [line for letters, line in CASES if letters[-1] == "k"], ids=ascii)
def test_what_asks_in_auto_says_why_in_a_sentence(line: str):
    decision = decided(line, Mode.AUTO)
    assert decision.reason.endswith(".")
    assert decision.rule != "command"


def test_where_nothing_confines_auto_runs_no_line_that_it_would_ask_about_otherwise():
    laxer = [
        line
        for letters, line in CASES
        if letters[-1] == "k" and decided(line, Mode.AUTO, NO_SANDBOX).verdict is Verdict.ALLOW
    ]
    assert laxer == []


def test_the_table_is_long_enough_to_mean_something():
    assert len(CASES) >= 600
    assert len({line for _, line in CASES}) == len(CASES)
