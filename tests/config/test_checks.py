"""The tables `[checks.NAME]`."""

from pathlib import Path

import pytest

from pattern_acp.config.load import load
from pattern_acp.config.programs import read_checks
from pattern_acp.config.project_offer import ProjectOffer
from pattern_acp.config.settings import CheckSettings, Flags
from pattern_acp.config.toml_file import parse_toml
from pattern_acp.domain.project_parts import PartKind


def read(text: str):
    return read_checks(parse_toml("config.toml", text)[0])


def test_checks_are_read_in_their_order():
    checks, problems, values = read(
        '[checks.tests]\ncommand = "pytest -q"\nkind = "test"\nwhen = "on_stop"\nfeed = "always"\ntimeout_seconds = 5\n'
        '[checks.format]\ncommand = "ruff format {files}"\nfiles = ["*.py", "*.pyi"]\nkind = "formatter"\n'
        '[checks.lint]\ncommand = "eslint ."\nfiles = "*.js"\n'
    )
    assert checks == (
        CheckSettings("tests", "pytest -q", (), "test", "on_stop", "always", 5, "config.toml"),
        CheckSettings("format", "ruff format {files}", ("*.py", "*.pyi"), "formatter", source="config.toml"),
        CheckSettings("lint", "eslint .", ("*.js",), source="config.toml"),
    )
    assert problems == ()
    assert [(value.key, value.shown) for value in values][:1] == [("checks.tests", "pytest -q")]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("command = 5", "a shell line"),
        ('command = " "', "a shell line"),
        ('command = "x"\nfiles = 1', "a list of patterns, such as *.py, not a number"),
        ('command = "x"\nfiles = []', "a list of patterns"),
        ('command = "x"\nfiles = [""]', "a list of patterns"),
        ('command = "x"\nkind = "linting"', "one of formatter, linter, test"),
        ('command = "x"\nfeed = true', "one of on_failure, always, not a boolean"),
        ('command = "x"\ntimeout_seconds = 0', "a whole number from 1 to 1800"),
        ('command = "x"\ntimeout_seconds = true', "a whole number from 1 to 1800"),
        ('command = "x"\nwhen = "later"', "one of after_edit, on_stop"),
        ('command = "x"\nwho = "me"', "there is no such key"),
        ("", "needs a command"),
    ],
)
def test_a_check_that_cannot_be_used_is_left_out_and_said(table: str, words: str):
    checks, problems, _ = read(f"[checks.a]\n{table}\n")
    assert checks == ()
    assert words in problems[0].sentence
    assert "left out" in problems[0].sentence


def test_a_place_of_another_tool_is_told_of():
    checks, (problem,), _ = read('[checks.a]\ncommand = "ruff format {file}"\n')
    assert [check.command for check in checks] == ["ruff format {file}"]
    assert problem.sentence.startswith("{file} stands for nothing; {files} stands for the changed files.")


@pytest.mark.parametrize("text", ["checks = 1", "[checks]\na = 1"])
def test_what_is_no_table_is_said(text: str):
    checks, (problem,), _ = read(text)
    assert checks == ()
    assert "[checks.NAME]" in problem.sentence


def test_a_projects_checks_are_an_offer_and_a_changed_script_is_another_one(tmp_path: Path):
    config = tmp_path / ".pattern" / "config.toml"
    config.parent.mkdir()
    config.write_text('[checks.lint]\ncommand = "./lint.sh {files}"\nfiles = "*.py"\n', encoding="utf-8")
    (tmp_path / "lint.sh").write_text("true\n", encoding="utf-8")

    def offer() -> ProjectOffer:
        loaded = load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path / "home")}, project_dir=str(tmp_path))
        assert loaded.settings.checks == ()
        return loaded.offer

    first = offer()
    assert [check.name for check in first.checks] == ["lint"]
    (part,) = first.parts
    assert (part.kind, part.name) == (PartKind.CHECK, "lint")
    assert part.text == "./lint.sh {files}\nafter a change of *.py"
    (tmp_path / "lint.sh").write_text("curl example.com\n", encoding="utf-8")
    assert offer().parts[0].digest != part.digest


def test_the_persons_checks_are_in_force(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[checks.lint]\ncommand = "true"\n', encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}, project_dir=None)
    assert [check.command for check in loaded.settings.checks] == ["true"]
    assert loaded.problems == ()
