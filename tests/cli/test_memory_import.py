"""`pattern-acp memory import`: a file of the person's becomes memory."""

import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import BadUsage
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_runner import run_call
from pattern_acp.cli.memory import read_import
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.domain.errors import PatternError
from tests.support.process import agent_environment

NOTES = "# Notes\n\nTests run with pytest.\nThe port is 8080, since 80 needs root.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "notes.md").write_text(NOTES)
    return path


class Terminal:
    """The command line in a project's folder."""

    def __init__(self, home: Process, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._home, self._folder, self._capsys = home, folder, capsys

    def run(self, *words: str) -> str:
        self._capsys.readouterr()
        arguments = parse_arguments(["memory", *words])
        assert isinstance(arguments, TypedCommand), arguments
        with chdir(self._folder):
            assert run_call(arguments, self._home) == 0
        return self._capsys.readouterr().out

    def text(self, label: str) -> str:
        return json.loads(self.run("show", label, "--json"))["text"]


@pytest.fixture
def terminal(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(home, folder, capsys)


def test_a_file_becomes_a_block_named_like_it_and_history_says_that_it_was_imported(terminal: Terminal):
    assert "notes is made." in terminal.run("import", "notes.md")
    assert terminal.text("notes") == NOTES.strip("\n")
    writes = json.loads(terminal.run("history", "notes", "--json"))
    assert [(write["actor"], write["reason"]) for write in writes] == [("import", "Imported from notes.md.")] * 2
    assert "an import" in terminal.run("blame", "notes")
    assert "Deleted" not in terminal.run("list")


def test_taken_in_again_only_what_is_new_is_added_and_an_undo_takes_it_back(terminal: Terminal, folder: Path):
    terminal.run("import", "notes.md", "project")
    before = terminal.text("project")
    assert "Nothing is new in it; project is as it was. 3 passages were there already." in terminal.run(
        "import", "notes.md", "project"
    )
    (folder / "notes.md").write_text(f"{NOTES}Deploys go out on Tuesdays.\n")
    answer = json.loads(terminal.run("import", "notes.md", "project", "--reason", "Weekly.", "--json"))
    assert (answer["new"], answer["known"], answer["after"]) == (False, 3, f"{before}\nDeploys go out on Tuesdays.")
    terminal.run("undo", "project")
    assert terminal.text("project") == before


def test_what_another_block_says_nearly_alike_is_left_out(terminal: Terminal):
    terminal.run("import", "notes.md", "project")
    answer = json.loads(terminal.run("import", "notes.md", "other", "--json"))
    assert (answer["known"], answer["after"]) == (3, "")
    assert "other" not in terminal.run("list")


def test_a_long_file_may_become_a_block_whose_label_has_several_words(terminal: Terminal, folder: Path):
    (folder / "long.md").write_text("\n".join(f"Server number {n} runs job {n * 7}." for n in range(300)))
    terminal.run("import", "long.md", "two words")
    assert terminal.text("two words").endswith("Server number 299 runs job 2093.")
    assert "limit is 20000 now" in terminal.run("set", "two words", "limit", "20000")


def test_a_file_of_another_memory_brings_its_label_limit_and_description(terminal: Terminal, folder: Path):
    long = "\n".join(f"Fact {number} of the ledger says {number * 7919}." for number in range(300))
    head = "---\nlabel: ledger\nlimit: 20000\ndescription: What the ledger says.\n---\n\n"
    (folder / "ledger.md").write_text(head + long + "\n")
    terminal.run("import", "ledger.md")
    (listed,) = (one for one in json.loads(terminal.run("list", "--json"))["blocks"] if one["label"] == "ledger")
    assert (terminal.text("ledger"), listed["limit"]) == (long, 20_000)
    assert "What the ledger says." in terminal.run("set", "ledger")


def test_stdin_is_a_file_too(terminal: Terminal, tmp_path: Path, folder: Path):
    environment = agent_environment(tmp_path / "home")
    command = [sys.executable, "-m", "pattern_acp", "memory", "import", "-", "builds"]
    subprocess.run(command, input=b"Uses ninja.\n", env=environment, cwd=folder, check=True)
    assert terminal.text("builds") == "Uses ninja."


@pytest.mark.parametrize(
    ("name", "content", "label", "told"),
    [
        ("empty.md", "\n", "", "there is no text in empty.md"),
        ("plan.toml", "a = 1\n", "", "memory edit plan --file plan.toml"),
        ("long.md", "word " * 8_000, "", "of at most 32000 characters"),
        ("key.md", "The key is ghp_" + "a1B2" * 9 + ".", "", "GitHub"),
    ],
)
def test_what_cannot_be_taken_in_makes_no_block_and_says_why(
    terminal: Terminal, folder: Path, name: str, content: str, label: str, told: str
):
    (folder / name).write_text(content)
    with pytest.raises(PatternError, match=told):
        terminal.run("import", name, *([label] if label else []))
    assert Path(name).stem not in terminal.run("list")


def test_a_block_with_fields_is_not_written_into(terminal: Terminal):
    terminal.run("create", "seen", "--template", "observation-log", "What was seen.")
    with pytest.raises(PatternError, match="it holds fields"):
        terminal.run("import", "notes.md", "seen")


def test_a_block_that_needs_fields_is_made_with_a_text(terminal: Terminal):
    terminal.run("create", "me", "--template", "partner-profile", "--text", 'name: Ada "I"\nrole: \\o/')
    assert terminal.text("me").startswith('name: Ada "I"\nrole: \\o/')


def test_stdin_needs_a_label_and_the_verb_a_file():
    with pytest.raises(PatternError, match="say which block"):
        read_import(Path("-"), "")
    assert isinstance(parse_arguments(["memory", "import"]), BadUsage)
