"""`pattern-acp setup` without a terminal; the questions are tried in one by tests/e2e."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Setup
from pattern_acp.cli.setup import meant_provider, own_command, run_setup
from pattern_acp.config.providers import BUILT_IN, SHOWN_NAMES
from tests.support.process import run_command_line


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


class Reader(io.StringIO):
    """A reader who leaves after the last line of the doctor."""

    def write(self, text: str) -> int:
        """Take a text, until he has left."""
        if "Everything that is needed works" in self.getvalue():
            raise BrokenPipeError
        return super().write(text)


def test_a_reader_who_leaves_before_the_end_is_no_failure(process: Process):
    with redirect_stdout(Reader()) as read:
        assert run_setup(Setup(), process) == EXIT_OK
    assert "Everything that is needed works" in read.getvalue()


@pytest.mark.e2e
def test_providers_are_listed_by_the_names_that_users_know(tmp_path: Path):
    own = str(tmp_path)
    shown = run_command_line(tmp_path / "home", "setup", HOME=own, PATH=own, PATTERN_ACP_MODEL="").stdout
    assert " 1  anthropic   Anthropic (Claude)\n" in shown
    assert " moonshot    Moonshot AI (Kimi)\n" in shown
    assert {one.name for one in BUILT_IN if one.needs_key} <= {*SHOWN_NAMES}


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("2", "openai"),
        ("Claude", "anthropic"),
        ("KIMI", "moonshot"),
        ("z.ai", "zai"),
        ("gemini", "gemini"),
        ("0", "0"),
        ("models", "models"),
        ("nobody", "nobody"),
    ],
)
def test_a_provider_is_meant_by_its_number_its_name_or_that_of_its_models(answer: str, name: str):
    assert meant_provider(answer, [one.name for one in BUILT_IN]) == name
