"""`pattern-acp trust` in a terminal."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import BadUsage
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.main import run_with
from pattern_acp.commands.parameters import TypedCommand, Value
from tests.support.process import typed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / ".claude").mkdir(parents=True)
    hook = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stop"}]}]}}'
    (path / ".claude" / "settings.json").write_text(hook, encoding="utf-8")
    return path


def test_the_arguments_say_what_is_meant():
    expected: tuple[tuple[list[str], str, dict[str, Value]], ...] = (
        (["trust"], "add", {"path": "", "assume_yes": False}),
        (["trust", "/x", "--yes"], "add", {"path": "/x", "assume_yes": True}),
        (["trust", "list"], "list", {"json": False}),
        (["trust", "revoke", "/x"], "revoke", {"path": "/x", "assume_yes": False}),
        (["trust", "list", "--json"], "list", {"json": True}),
    )
    for words, verb, values in expected:
        assert parse_arguments(words) == TypedCommand("trust", verb, values)
    for words in (["trust", "list", "/x"], ["trust", "/x", "/y"], ["trust", "/x", "--json"]):
        assert isinstance(parse_arguments(words), BadUsage)


def test_a_folder_is_shown_trusted_listed_and_revoked(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    for arguments, code, words in (
        (typed("trust", "list"), 0, "No folder is trusted."),
        (typed("trust", str(folder)), 1, "say --yes"),
        (typed("trust", str(folder), "--yes"), 0, "echo stop"),
        (typed("trust", str(folder)), 0, "is trusted already: 1 hook."),
        (typed("trust", "list"), 0, f"{folder.resolve()}  1 hook"),
        (typed("trust", "revoke", str(folder)), 0, "is not trusted any more;"),
        (typed("trust", "revoke", str(folder)), 1, "is not trusted;"),
        (typed("trust", str(folder.parent)), 1, "brings nothing that would run"),
        (typed("trust", str(folder.parent), "--yes"), 0, "is trusted until it brings something that runs"),
        (typed("trust", str(folder.parent)), 0, "is trusted already: its files."),
        (typed("trust", str(folder / "none")), 1, "is no folder"),
    ):
        assert run_with(arguments, home) == code
        shown = capsys.readouterr()
        assert words in shown.out + shown.err, arguments


def test_a_changed_part_is_shown_as_a_difference(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    run_with(typed("trust", str(folder), "--yes"), home)
    settings = folder / ".claude" / "settings.json"
    settings.write_text(settings.read_text(encoding="utf-8").replace("echo stop", "echo more"), encoding="utf-8")
    capsys.readouterr()
    assert run_with(typed("trust", str(folder), "--yes"), home) == 0
    assert "  -echo stop\n  +echo more" in capsys.readouterr().out


def test_the_list_is_json_for_a_program(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("trust", "list", "--json"), home) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run_with(typed("trust", str(folder), "--yes"), home) == 0
    capsys.readouterr()
    assert run_with(typed("trust", "list", "--json"), home) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(folder.resolve())
    assert [(part["kind"], "echo stop" in part["text"]) for part in told["parts"]] == [("hook", True)]
