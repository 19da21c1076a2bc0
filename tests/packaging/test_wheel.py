"""The wheel is complete: installed alone, into an environment with nothing else, it runs turns."""

import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command: str, cwd: Path, home: Path) -> str:
    environment = {name: value for name, value in process_environment().items() if name != "PYTHONPATH"}
    environment |= {"PATTERN_ACP_HOME": str(home), "PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout + done.stderr


def test_the_wheel_in_an_empty_environment_runs_turns_and_names_its_optional_parts(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", str(ROOT), cwd=tmp_path, home=home)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", "empty", cwd=tmp_path, home=home)
    programs = tmp_path / "empty" / ("Scripts" if sys.platform == "win32" else "bin")
    pins = str(ROOT / "constraints.txt")
    run(str(programs / "python"), "-m", "pip", "install", "-q", "-c", pins, str(wheel), cwd=tmp_path, home=home)
    agent = str(programs / "pattern-acp")
    assert "Back to before turn 3" in run(agent, "tour", cwd=project, home=home)
    assert "pattern-acp[images,pdf,languages]" in "".join(run(agent, "doctor", cwd=project, home=home).split())
