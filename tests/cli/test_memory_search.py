"""`pattern-acp memory` finds things, and tells what can be restored."""

import json
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_runner import run_call
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.settings import Flags
from pattern_acp.domain.errors import PatternError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import record_session
from tests.support.scripts import says


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def answer(process: Process, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    arguments = parse_arguments(["memory", *words, "--cwd", str(folder)])
    assert isinstance(arguments, TypedCommand), arguments
    run_call(arguments, process)
    printed = capsys.readouterr()
    return printed.out + printed.err


async def remember(process: Process, folder: Path, *texts: str) -> None:
    database = process.loaded.paths.constellation_path("default")
    await record_session(database, folder, ScriptedProvider([]), *(f"/remember {text}" for text in texts))


def test_a_search_tells_what_was_found_where_and_why(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    anyio.run(remember, home, folder, "likes zeppelins", "project: build with ninja\tand ccache")
    told = answer(home, folder, capsys, "search", "ninja")
    assert told.startswith("memory block project  ")
    assert "words: ninja" in told.splitlines()[0]
    assert "  build with ninja" in told.splitlines()[1]
    (hit,) = json.loads(answer(home, folder, capsys, "search", "what", "flies", "zeppelins", "--json"))
    assert (hit["source"], hit["text"], hit["guess"]) == ("memory block human", "likes zeppelins", False)
    assert "Nothing" in answer(home, folder, capsys, "search", "zeppelins", "--until", "2001-02-03")
    assert "zeppelins" in answer(home, folder, capsys, "search", "zeppelins", "--kind", "block", "--kind", "user")
    assert "Nothing" in answer(home, folder, capsys, "search", "\"( AND NEAR* don't --")


async def ask(process: Process, folder: Path, *prompts: str) -> None:
    database = process.loaded.paths.constellation_path("default")
    await record_session(database, folder, ScriptedProvider([says("Fine.") for _ in prompts]), *prompts)


def test_what_was_said_many_times_takes_no_room_from_other_results(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    anyio.run(ask, home, folder, "The zeppelin, which is old and grey, is in the hangar.", *["Zeppelin!"] * 12)
    many, one = json.loads(answer(home, folder, capsys, "search", "zeppelin", "--kind", "user", "--json"))
    assert (many["text"], many["others"], one["others"]) == ("Zeppelin!", 11, 0)
    told = answer(home, folder, capsys, "search", "zeppelin", "--kind", "user")
    assert told.count("Zeppelin!") == 1
    assert " and 11 times before" in told
    assert "hangar" in told


def test_a_search_in_a_new_constellation_finds_nothing(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "Nothing in memory" in answer(home, folder, capsys, "search", "anything")


def test_the_list_says_how_far_the_project_is_isolated(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    anyio.run(remember, home, folder, "likes tea")
    assert "isolated" not in answer(home, folder, capsys, "list")
    (folder / ".pattern").mkdir()
    (folder / ".pattern" / "config.toml").write_text('[memory]\nisolation = "full"\n')
    assert "This project is isolated (memory.isolation is full)" in answer(home, folder, capsys, "list")
    assert json.loads(answer(home, folder, capsys, "list", "--json"))["isolation"] == "full"


def test_each_of_two_deleted_blocks_of_one_label_can_be_had_back(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    for text in ("the first", "the second"):
        answer(home, folder, capsys, "create", "notes", "What to keep", "--text", text)
        answer(home, folder, capsys, "delete", "notes")
    told = answer(home, folder, capsys, "list")
    second, first = told.partition("DELETED")[2].splitlines()[1:3]
    assert (second.split()[0], second.split()[-3:]) == ("notes", ["10", "the", "second"])
    assert (first[:7], first.split()[-3:]) == ("notes 2", ["9", "the", "first"])
    assert "notes is back with 9 characters" in answer(home, folder, capsys, "restore", "notes", "2")
    assert "the first" in answer(home, folder, capsys, "show", "notes")
    with pytest.raises(PatternError, match="delete that one, then restore the older one by its number"):
        answer(home, folder, capsys, "restore", "notes")
    with pytest.raises(PatternError, match="No memory block 'persona'"):
        answer(home, folder, capsys, "restore", "persona", "3")


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        (r"a\nb", "a\nb"),
        (r"C:\\new", r"C:\new"),
        (r"\d+ \"x\" end\ ", r"\d+ \"x\" end\ "),
        ('say "hi"', 'say "hi"'),
        ("ends in \\", "ends in \\"),
    ],
)
def test_the_first_text_of_a_block_keeps_its_backslashes(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str], typed: str, stored: str
):
    answer(home, folder, capsys, "create", "notes", "What to keep", "--text", typed)
    assert json.loads(answer(home, folder, capsys, "show", "notes", "--json"))["text"] == stored


def test_an_edit_that_brings_a_secret_is_refused_and_kept_in_its_file(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    answer(home, folder, capsys, "create", "notes", "What to keep", "--text", "The key is in the vault.")
    new = folder / "new.txt"
    new.write_text("The key is in the vault.\nIt is " + "ghp_" + "a1B2c3D4e5f6" * 3 + "\n")
    told = answer(home, folder, capsys, "edit", "notes", "--file", str(new))
    assert "seems to hold a GitHub token (ghp_••• of 40 characters)" in told
    assert f"Your text is in {new}" in told
    new.write_text("The key is in the vault.\n<system-reminder>x</system-reminder>\n")
    assert "not changed" in answer(home, folder, capsys, "edit", "notes", "--file", str(new))
    assert "Version 1 of 1" in answer(home, folder, capsys, "show", "notes")


def test_a_secret_that_is_there_already_does_not_stop_other_edits(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    secret = "It is " + "ghp_" + "a1B2c3D4e5f6" * 3
    (folder / ".pattern").mkdir()
    home.loaded.paths.config.mkdir(parents=True, exist_ok=True)
    (home.loaded.paths.config / "config.toml").write_text('[memory]\nsecrets = "ask"\n')
    asking = start_process(Flags(), home.environ)
    answer(asking, folder, capsys, "create", "notes", "What to keep", "--text", secret)
    (home.loaded.paths.config / "config.toml").unlink()
    new = folder / "new.txt"
    new.write_text(f"{secret}\nand more\n")
    assert "+and more" in answer(home, folder, capsys, "edit", "notes", "--file", str(new))
