"""Directories, names, and private files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.load import process_environment
from pattern_acp.config.paths import Paths, find_paths, make_private_directory, open_private_append
from pattern_acp.config.toml_file import is_valid_name
from pattern_acp.domain.errors import ConfigError

COVERAGE = {key: value for key, value in process_environment().items() if key.startswith("COVERAGE_")}
"""Lets the child be measured; nothing else of the environment reaches it."""

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes and homes")

PRINT_PATHS = """
from pattern_acp.config.load import load, process_environment
from pattern_acp.config.settings import Flags
loaded = load(Flags(), process_environment(), project_dir=None)
print(loaded.paths.source, loaded.paths.data)
for problem in loaded.problems:
    print(problem)
"""


def paths_of_process(**environ: str) -> list[str]:
    """What a process with nothing but PATH and `environ` finds."""
    found = subprocess.run(
        [sys.executable, "-c", PRINT_PATHS],
        env={"PATH": os.defpath, **COVERAGE, **environ},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return found.stdout.splitlines()


def test_everything_is_under_the_home_that_the_person_names(tmp_path: Path):
    paths, problems = find_paths({"PATTERN_ACP_HOME": str(tmp_path)})
    assert problems == ()
    assert paths == Paths(tmp_path, tmp_path, tmp_path / "state", tmp_path / "cache", "$PATTERN_ACP_HOME")
    assert paths.config_file == tmp_path / "config.toml"
    assert paths.log_file == tmp_path / "state" / "pattern-acp.log"
    assert paths.constellation_path("work") == tmp_path / "constellations" / "work" / "constellation.db"


def test_a_relative_home_is_made_absolute():
    paths, _ = find_paths({"PATTERN_ACP_HOME": "somewhere"})
    assert paths.data == Path.cwd() / "somewhere"


@posix_only
def test_the_platform_chooses_within_the_persons_home(tmp_path: Path):
    (line,) = paths_of_process(HOME=str(tmp_path))
    source, _, data = line.partition(" ")
    assert source == "platform"
    assert Path(data).is_relative_to(tmp_path)


@posix_only
def test_a_home_that_does_not_exist_yet_is_used_where_it_can_be_made(tmp_path: Path):
    (line,) = paths_of_process(HOME=str(tmp_path / "new" / "home"))
    source, _, data = line.partition(" ")
    assert source == "platform"
    assert Path(data).is_relative_to(tmp_path / "new" / "home")


@posix_only
def test_without_a_variable_the_home_comes_from_the_user_database_or_is_temporary():
    lines = paths_of_process()
    assert lines[0].startswith(("platform ", "temporary "))
    assert len(lines) == (2 if lines[0].startswith("temporary") else 1)


@posix_only
@pytest.mark.parametrize("home", ["", "/", "/nonexistent/home"])
def test_without_a_home_a_private_temporary_directory_is_used_and_said(tmp_path: Path, home: str):
    first, warning = paths_of_process(HOME=home, TMPDIR=str(tmp_path))
    assert first == f"temporary {tmp_path / f'pattern-acp-{os.getuid()}'}"
    assert "set PATTERN_ACP_HOME to a directory of yours" in warning


@posix_only
def test_a_temporary_directory_that_others_can_enter_is_not_used(tmp_path: Path):
    taken = tmp_path / f"pattern-acp-{os.getuid()}"
    taken.mkdir(mode=0o755)
    taken.chmod(0o755)
    first, _ = paths_of_process(HOME="", TMPDIR=str(tmp_path))
    assert first.startswith(f"temporary {tmp_path}")
    assert Path(first.partition(" ")[2]) != taken


@pytest.mark.parametrize("name", ["default", "a", "work-2", "A_b.c", "_x", "x" * 64, "console", "com", "com10"])
def test_ordinary_names_are_valid(name: str):
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "a/b", "a\\b", "../a", "a..b", ".hidden", "dot.", "x" * 65, "CON", "nul", "Nul.txt", "COM1",
        "lpt9.db", "a b", "a:b", "a\n", "é", "a\x00b",
    ],
)  # fmt: skip
def test_names_that_could_leave_the_directory_or_be_a_device_are_refused(name: str):
    assert not is_valid_name(name)
    with pytest.raises(ConfigError):
        Paths(Path("d"), Path("c"), Path("s"), Path("k")).constellation_path(name)


@given(st.text(max_size=70))
def test_a_valid_name_is_one_directory(name: str):
    if is_valid_name(name):
        path = Paths(Path("d"), Path("c"), Path("s"), Path("k")).constellation_path(name)
        assert path.parts == ("d", "constellations", name, "constellation.db")


@posix_only
def test_private_directories_and_files_are_for_their_owner_alone(tmp_path: Path):
    make_private_directory(tmp_path / "a" / "b")
    make_private_directory(tmp_path / "a" / "b")
    assert [stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("a", "a/b")] == [0o700, 0o700]
    with open(tmp_path / "file", "a", opener=open_private_append, encoding="utf-8") as file:
        file.write("x")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises((FileExistsError, NotADirectoryError)):
        make_private_directory(tmp_path / "file" / "sub")
