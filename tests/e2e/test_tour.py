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
        "nothing of it is left here",
    ):
        assert words in shown, words
    assert sorted(path.name for path in project.iterdir()) == ["Cargo.toml", "pattern-tour.txt"]
    assert (project / "pattern-tour.txt").read_text(encoding="utf-8") == "of the user\n"
    assert not list(home.rglob("constellation.db"))
