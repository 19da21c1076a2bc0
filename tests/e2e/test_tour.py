"""The tour, as a new user runs it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.process import COMMAND, agent_environment

pytestmark = pytest.mark.e2e


def test_a_tour_shows_memory_an_edit_and_a_rewind_and_leaves_nothing(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "Cargo.toml").write_text("[package]\n", encoding="utf-8")
    (project / "pattern-tour.txt").write_text("of the user\n", encoding="utf-8")
    environ = agent_environment(home, PATTERN_ACP_MODE="plan", PATTERN_ACP_CONSTELLATION="mine")
    done = subprocess.run(
        [*COMMAND, "tour"],
        cwd=project,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=100,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    for words in (
        "Cargo.toml",
        "The tests run with cargo test.",
        "| agent |",
        "1 + This was here after.",
        "Back to before turn 3",
        "rule destructive",
        "Everything that it made is deleted",
    ):
        assert words in shown, words
    assert sorted(path.name for path in project.iterdir()) == ["Cargo.toml", "pattern-tour.txt"]
    assert (project / "pattern-tour.txt").read_text(encoding="utf-8") == "of the user\n"
    assert not list(home.rglob("constellation.db"))


def test_a_tour_whose_reader_goes_away_ends_quietly(tmp_path: Path):
    with subprocess.Popen(
        [*COMMAND, "tour"],
        cwd=tmp_path,
        env=agent_environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as tour:
        assert tour.stdout is not None
        assert tour.stderr is not None
        tour.stdout.readline()
        tour.stdout.close()
        assert "Traceback" not in tour.stderr.read()
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []
