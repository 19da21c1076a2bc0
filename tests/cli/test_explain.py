"""`pattern-acp explain`, and how a command that failed names its code."""

import json

import pytest

from pattern_acp.cli.arguments import Explain
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.explain import failures, run_explain, similar_codes
from pattern_acp.cli.main import run
from pattern_acp.cli.output import write_failed
from pattern_acp.db.errors import DatabaseBusyError


def test_a_code_is_explained_however_it_was_copied(capsys: pytest.CaptureFixture[str]):
    for typed in ("provider.overloaded", "[Provider.Overloaded]", " `provider.overloaded`. "):
        assert run_explain(Explain(code=typed)) == 0
        assert failures()["provider.overloaded"].remedy.replace("`", "") in capsys.readouterr().out


def test_a_code_that_there_is_not_names_those_that_were_meant(capsys: pytest.CaptureFixture[str]):
    assert run_explain(Explain(code="provider.overlaoded")) == 1
    said = capsys.readouterr().err
    assert "did you mean provider.overloaded" in said
    assert "[cli.usage]" in said
    assert run_explain(Explain(code="qqqqqqqq")) == 1
    assert "lists them all" in capsys.readouterr().err


def test_a_part_of_a_code_finds_the_codes_that_hold_it():
    assert similar_codes("busy")[:2] == ("database.busy", "session.busy")
    assert similar_codes("session")[0].startswith("session.")
    assert similar_codes(" ") == ()


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]):
    assert run_explain(Explain()) == 0
    shown = capsys.readouterr().out
    assert [code for code in failures() if code not in shown] == []
    assert run_explain(Explain(json=True)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["code"] for row in rows] == list(failures())


def test_the_command_line_leads_to_it(capsys: pytest.CaptureFixture[str]):
    parsed = parse_arguments(["explain", "database.busy", "--json"])
    assert isinstance(parsed, Explain)
    assert (parsed.code, parsed.json) == ("database.busy", True)
    assert run(["explain", "database.busy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fault"] == "environment"


def test_a_command_line_that_cannot_be_understood_names_its_code(capsys: pytest.CaptureFixture[str]):
    assert run(["unheard-of"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("[cli.usage]")


def test_a_command_that_failed_tells_the_person_and_a_program_the_same_code(capsys: pytest.CaptureFixture[str]):
    write_failed(DatabaseBusyError("It is locked."), as_json=True)
    said = capsys.readouterr()
    assert said.err == "pattern-acp: It is locked. [database.busy]\n"
    assert json.loads(said.out) == {"error": {"code": "database.busy", "message": "It is locked."}}
    write_failed(DatabaseBusyError("It is locked."), as_json=False)
    assert capsys.readouterr().out == ""
