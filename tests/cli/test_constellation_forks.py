"""`pattern-acp fork` and `merge` in a terminal."""

import json
from pathlib import Path
from typing import cast

import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.main import run_with
from pattern_acp.config.settings import Flags
from tests.support.process import typed


@pytest.fixture
def trial(home: Process) -> Process:
    """The same machine with another constellation."""
    return start_process(Flags(constellation="trial"), dict(home.environ))


def decide(process: Process, text: str) -> None:
    assert run_with(typed("memory", "decision", text), process) == 0


def edit(process: Process, tmp_path: Path, text: str) -> None:
    file = tmp_path / "edited.md"
    file.write_text(text, encoding="utf-8")
    assert run_with(typed("memory", "edit", "human", "--file", str(file)), process) == 0


def shown(process: Process, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run_with(typed("memory", *words), process) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("history", "conflicts", "lines"),
    [
        ("full", "both", {"Likes tea.", "Speaks Dutch.", "Works at night."}),
        ("none", "both", {"Likes tea.", "Speaks Dutch.", "Works at night."}),
        ("recent", "fork", {"Likes tea.", "Speaks Dutch."}),
        ("full", "target", {"Likes tea.", "Works at night."}),
    ],
)
def test_what_both_wrote_into_a_block_is_merged_as_the_user_says(
    home: Process,
    trial: Process,
    tmp_path: Path,
    history: str,
    conflicts: str,
    lines: set[str],
    capsys: pytest.CaptureFixture[str],
):
    edit(home, tmp_path, "Likes tea.\n")
    assert run_with(typed("fork", "default", "trial", "--history", history), home) == 0
    edit(trial, tmp_path, "Likes tea.\nSpeaks Dutch.\n")
    edit(home, tmp_path, "Likes tea.\nWorks at night.\n")
    assert "Dutch" not in shown(home, capsys, "show", "human")
    merged(home, capsys, "--accept", "all", "--conflicts", conflicts)
    assert {line for line in shown(home, capsys, "show", "human").splitlines() if line.endswith(".")} >= lines
    everything = {"Likes tea.", "Speaks Dutch.", "Works at night."}
    assert not (everything - lines) & set(shown(home, capsys, "show", "human").splitlines())
    assert run_with(typed("memory", "verify"), home) == 0
    if conflicts == "both":
        assert merged(home, capsys, "--accept", "all")["blocks"] == 0


def merged(process: Process, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert run_with(typed("merge", "trial", "--json", *words), process) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("history", ["full", "none"])
def test_a_fork_begins_with_everything_and_a_merge_brings_back_what_it_learned(
    home: Process, trial: Process, history: str, capsys: pytest.CaptureFixture[str]
):
    decide(home, "Use tabs everywhere.")
    assert run_with(typed("fork", "default", "trial", "--history", history), home) == 0
    assert "1 fact and 0 sessions of default" in capsys.readouterr().out
    decide(trial, "Tests need docker.")
    decide(home, "The port is 7433.")
    capsys.readouterr()
    assert run_with(typed("memory", "traps"), home) == 0
    assert "docker" not in capsys.readouterr().out
    before = merged(home, capsys)
    assert (before["accepted"], before["notes"]) == (False, [])
    assert merged(home, capsys, "--accept", "all")["facts"] == 1
    assert run_with(typed("memory", "traps"), home) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("tabs", "docker", "7433"))
    again = merged(home, capsys, "--accept", "all")
    assert (again["facts"], again["blocks"]) == (0, 0)


def test_a_constellation_that_is_no_fork_is_named_as_one_and_blocks_nobody_wrote_to_stay_out(
    home: Process, trial: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    decide(home, "Use tabs everywhere.")
    decide(trial, "Tests need docker.")

    def open_ones(found: dict[str, object]) -> list[str]:
        proposals = cast("list[dict[str, str]]", found["proposals"])
        return [each["name"] for each in proposals if each["state"] != "known"]

    found = merged(home, capsys)
    assert open_ones(found) == ["Tests need docker."]
    assert found["notes"] == ["trial is no fork of default; merging it does what importing it would do."]
    edit(trial, tmp_path, "Likes tea.\n")
    assert open_ones(merged(home, capsys)) == ["human", "Tests need docker."]
    done = merged(home, capsys, "--accept", "all")
    assert (done["blocks"], done["facts"]) == (1, 1)
    assert merged(home, capsys)["notes"] == []


def test_names_that_mean_nothing_are_one_sentence(home: Process, trial: Process, capsys: pytest.CaptureFixture[str]):
    decide(home, "Use tabs everywhere.")
    for words, sentence in (
        (("fork", "nothing", "trial"), "no constellation called nothing"),
        (("fork", "default", "a/b"), "cannot be called"),
        (("merge", "default"), "is the constellation to merge into"),
        (("merge", "gone"), "no constellation called gone"),
    ):
        capsys.readouterr()
        assert run_with(typed(*words), home) != 0
        assert sentence in capsys.readouterr().err
    assert run_with(typed("fork", "default", "trial"), home) == 0
    assert run_with(typed("fork", "default", "trial"), home) != 0
    assert "is there already" in capsys.readouterr().err
    assert trial


def test_a_project_that_has_nowhere_to_move_or_that_sync_would_bring_back_is_one_sentence(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    decide(home, "Use tabs everywhere.")
    for words, sentence in (
        ((), "--to says into which constellation"),
        (("--to", "default"), "default is where"),
        (("--to", "../x"), "constellation"),
    ):
        assert run_with(typed("move-project", *words), home) == 1
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.splitlines()) == 1, error
    (tmp_path / "home" / "config.toml").write_text(f'[sync]\nurl = "folder:{tmp_path}/sync"\n', encoding="utf-8")
    syncing = start_process(Flags(), dict(home.environ))
    assert run_with(typed("move-project", "--to", "own"), syncing) != 0
    assert "add it to exclude in [sync] first" in capsys.readouterr().err
    assert run_with(typed("move-project", "--to", "own"), home) == 0
    assert "1 fact, 0 tasks" in capsys.readouterr().out
