"""`pattern-acp memory` about traps, constraints and decisions, on a real constellation."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_runner import run_call
from pattern_acp.commands.parameters import TypedCommand


def answer(process: Process, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    arguments = parse_arguments(["memory", *words, "--cwd", str(folder)])
    assert isinstance(arguments, TypedCommand), arguments
    assert run_call(arguments, process) == 0
    return capsys.readouterr().out


def test_what_was_noted_is_told_as_records(home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert json.loads(answer(home, tmp_path, capsys, "traps", "--json")) == []
    answer(home, tmp_path, capsys, "trap", "Over.", "--paths", "*.c", "--until", "2020-01-31", "--severity", "high")
    answer(home, tmp_path, capsys, "constraint", "Keep it.", "--paths", "*.c,!x.c", "--reason", "It is old.")
    holds, over = json.loads(answer(home, tmp_path, capsys, "traps", "--json"))
    assert (holds["text"], holds["kind"], holds["paths"]) == ("Keep it.", "constraint", ["*.c", "!x.c"])
    assert (holds["severity"], holds["until"], holds["status"]) == ("medium", None, "active")
    assert (holds["reason"], holds["actor"], holds["status_change"]) == ("It is old.", "human", None)
    assert (over["severity"], over["until"], over["status"]) == ("high", "2020-01-31", "expired")
    answer(home, tmp_path, capsys, "resolve", holds["id"], "It is new.")
    assert json.loads(answer(home, tmp_path, capsys, "traps", "a.c", "--json")) == []
    resolved = json.loads(answer(home, tmp_path, capsys, "archive", "--json"))[0]
    assert (resolved["status"], resolved["status_change"]["reason"]) == ("resolved", "It is new.")


def test_words_of_the_command_line_are_the_text_and_nothing_else(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = 'Never pass --check fast, say "slow" or C:\\.'
    answer(home, tmp_path, capsys, "trap", text, "--paths", "a", "--check", "cd C:\\")
    (noted,) = json.loads(answer(home, tmp_path, capsys, "traps", "a", "--json"))
    assert (noted["text"], noted["check_command"]) == (text, "cd C:\\")


def test_what_was_noted_has_the_whole_width_for_its_text(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    answer(home, tmp_path, capsys, "trap", "Close the pool before you change the schema.", "--paths", "src/db/**")
    for verb, standing in (("traps", "src/db/**; active; human, 20"), ("archive", "project; 20")):
        head, text, *rest = answer(home, tmp_path, capsys, verb).splitlines()
        assert standing in head
        assert text == "  Close the pool before you change the schema."
        assert rest == []
    assert "No trap, constraint or decision that holds" in answer(home, tmp_path, capsys, "traps", "x.py")
