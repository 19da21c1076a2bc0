"""`pattern-acp trust` in a terminal."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import BadUsage, Trust
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.trust import run_trust


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / ".claude").mkdir(parents=True)
    hook = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stop"}]}]}}'
    (path / ".claude" / "settings.json").write_text(hook, encoding="utf-8")
    return path


def test_the_arguments_say_what_is_meant():
    assert parse_arguments(["trust"]) == Trust()
    assert parse_arguments(["trust", "/x", "--yes"]) == Trust(path="/x", assume_yes=True)
    assert parse_arguments(["trust", "list"]) == Trust(action="list")
    assert parse_arguments(["trust", "revoke", "/x"]) == Trust(action="revoke", path="/x")
    assert parse_arguments(["trust", "list", "--json"]) == Trust(action="list", json=True)
    for words in (["trust", "list", "/x"], ["trust", "/x", "/y"], ["trust", "/x", "--json"]):
        assert isinstance(parse_arguments(words), BadUsage)


def test_a_folder_is_shown_trusted_listed_and_revoked(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    for arguments, code, words in (
        (Trust(action="list"), 0, "No folder is trusted."),
        (Trust(path=str(folder)), 1, "say --yes"),
        (Trust(path=str(folder), assume_yes=True), 0, "echo stop"),
        (Trust(path=str(folder)), 0, "is trusted already: 1 hook."),
        (Trust(action="list"), 0, f"{folder.resolve()}  1 hook"),
        (Trust(action="revoke", path=str(folder)), 0, "is not trusted any more."),
        (Trust(action="revoke", path=str(folder)), 1, "is not trusted;"),
        (Trust(path=str(folder.parent)), 0, "nothing to trust"),
        (Trust(path=str(folder / "none")), 1, "is no folder"),
    ):
        assert run_trust(arguments, home) == code
        shown = capsys.readouterr()
        assert words in shown.out + shown.err, arguments


def test_a_changed_part_is_shown_as_a_difference(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    run_trust(Trust(path=str(folder), assume_yes=True), home)
    settings = folder / ".claude" / "settings.json"
    settings.write_text(settings.read_text(encoding="utf-8").replace("echo stop", "echo more"), encoding="utf-8")
    capsys.readouterr()
    assert run_trust(Trust(path=str(folder), assume_yes=True), home) == 0
    assert "  -echo stop\n  +echo more" in capsys.readouterr().out


def test_the_list_is_json_for_a_program(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run_trust(Trust(action="list", json=True), home) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run_trust(Trust(path=str(folder), assume_yes=True), home) == 0
    capsys.readouterr()
    assert run_trust(Trust(action="list", json=True), home) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(folder.resolve())
    assert [(part["kind"], "echo stop" in part["text"]) for part in told["parts"]] == [("hook", True)]
