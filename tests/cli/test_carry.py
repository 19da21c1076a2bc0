"""`pattern-acp export` and `import` in a terminal."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.main import run_with
from pattern_acp.config.settings import Flags
from tests.support.process import typed


@pytest.fixture
def laptop(tmp_path: Path) -> Process:
    """Another machine."""
    environ = {"PATTERN_ACP_HOME": str(tmp_path / "laptop"), "PATTERN_ACP_MODEL": "offline/offline"}
    return start_process(Flags(), {**environ, "PATH": "/usr/bin:/bin"})


@pytest.fixture
def archive(home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_with(typed("memory", "decision", "Use tabs everywhere."), home) == 0
    file = str(tmp_path / "a.car")
    assert run_with(typed("export", file), home) == 0
    assert "1 fact, 0 tasks and 0 sessions" in capsys.readouterr().out
    return file


def test_an_import_shows_what_a_file_brings_before_anything_is_taken_over(
    laptop: Process, archive: str, capsys: pytest.CaptureFixture[str]
):
    assert run_with(typed("import", archive), laptop) == 0
    shown = capsys.readouterr().out
    assert "Use tabs everywhere." in shown
    assert "Nothing was taken over yet" in shown
    assert run_with(typed("import", archive, "--accept", "facts"), laptop) == 0
    assert "Imported 0 memory blocks, 1 fact, 0 tasks and 0 sessions" in capsys.readouterr().out
    assert run_with(typed("import", archive, "--accept", "facts"), laptop) == 0
    assert capsys.readouterr().out == "Nothing new was taken over.\n"
    assert run_with(typed("import", archive, "--json"), laptop) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in found["proposals"] if one["kind"] == "fact"] == ["known"]


def test_a_fact_is_taken_over_by_its_number_and_belongs_to_the_project_that_is_named(
    laptop: Process, archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run_with(typed("import", archive, "--json"), laptop)
    proposals = json.loads(capsys.readouterr().out)["proposals"]
    number = next(str(one["number"]) for one in proposals if one["kind"] == "fact")
    shop = tmp_path / "shop"
    shop.mkdir()
    assert run_with(typed("import", archive, "--accept", number, "--into", str(shop)), laptop) == 0
    capsys.readouterr()
    assert run_with(typed("memory", "traps", "--cwd", str(shop)), laptop) == 0
    assert "Use tabs everywhere." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--accept", "99"], "There is no number 99"),
        (["--accept", "some"], "chooses nothing"),
        (["--accept", "all", "--into", "/nowhere/at/all"], ""),
    ],
)
def test_a_choice_of_nothing_is_one_sentence(
    laptop: Process, archive: str, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    done = run_with(typed("import", archive, *words), laptop)
    assert (done == 0) == (not sentence)
    assert sentence in capsys.readouterr().err


def test_files_that_cannot_be_used_are_named(
    home: Process, archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_with(typed("export", archive), home) == 1
    assert "exists; name another file" in capsys.readouterr().err
    assert run_with(typed("import", str(tmp_path / "none.car")), home) == 1
    assert "cannot be read" in capsys.readouterr().err
    other = tmp_path / "other.car"
    other.write_text("no archive", encoding="utf-8")
    assert run_with(typed("import", str(other)), home) == 1
    assert "carry.damaged" in capsys.readouterr().err


def test_a_dry_run_writes_nothing_and_without_a_constellation_there_is_nothing(
    home: Process, laptop: Process, archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "dry.car"
    assert run_with(typed("export", str(file), "--dry-run"), home) == 0
    assert "would have" in capsys.readouterr().out
    assert run_with(typed("export", str(file)), laptop) == 0
    assert "nothing to export yet" in capsys.readouterr().out
    assert not file.exists()
    assert archive
