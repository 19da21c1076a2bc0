"""`pattern-acp setup` without a terminal; the questions are tried in one by tests/e2e."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Setup
from pattern_acp.cli.setup import own_command, run_setup


@pytest.fixture
def process(home: Process, tmp_path: Path) -> Process:
    """The program in a home folder of its own, where nothing but what a test puts there is found."""
    own = {"HOME": str(tmp_path), "PATH": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return replace(home, environ={**home.environ, **own})


def zed(tmp_path: Path, text: str) -> Path:
    settings = tmp_path / "config" / "zed" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(text, encoding="utf-8")
    return settings


def test_without_a_terminal_the_difference_is_shown_and_nothing_is_written(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = zed(tmp_path, "{}\n")
    assert run_setup(Setup(), process) == EXIT_OK
    shown = capsys.readouterr().out
    assert '+    "Pattern": {' in shown
    assert "Nothing was written" in shown
    assert "Everything that is needed works" in shown
    assert settings.read_text(encoding="utf-8") == "{}\n"


def test_with_yes_it_is_written_and_the_next_run_finds_it_there(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = zed(tmp_path, "{}\n")
    assert run_setup(Setup(yes=True), process) == EXIT_OK
    block = json.loads(settings.read_text(encoding="utf-8"))["agent_servers"]["Pattern"]
    assert [block["command"], *block["args"]] == list(own_command())
    capsys.readouterr()
    assert run_setup(Setup(yes=True), process) == EXIT_OK
    assert f"{settings} has it already." in capsys.readouterr().out


def test_a_configuration_that_cannot_be_read_stays_and_the_block_is_shown(
    process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings = zed(tmp_path, "{ this is mine\n")
    assert run_setup(Setup(yes=True), process) == EXIT_ERROR
    shown = capsys.readouterr().out
    assert "Line 1 is not JSON. It stays as it is" in shown
    assert '"agent_servers"' in shown
    assert settings.read_text(encoding="utf-8") == "{ this is mine\n"
