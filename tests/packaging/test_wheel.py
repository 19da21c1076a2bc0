"""What a release uploads is complete: the wheel alone runs turns, and the source archive makes the same wheel."""

import subprocess
import sys
import tarfile
import zipfile
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


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_a_release_is_the_wheel_the_source_archive_that_makes_it_and_the_entry_of_the_registry(tmp_path: Path):
    release = tmp_path / "release"
    script = str(ROOT / "scripts" / "release")
    run("env", f"PYTHON={sys.executable}", "sh", script, str(release), cwd=tmp_path, home=tmp_path)
    (wheel,), (archive,) = release.glob("*.whl"), release.glob("*.tar.gz")
    assert sorted(file.name for file in (release / "acp-registry-entry").iterdir()) == ["agent.json", "icon.svg"]
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=unpacked, home=tmp_path)
    (again,) = (unpacked / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()
