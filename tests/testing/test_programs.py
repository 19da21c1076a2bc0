"""A program counts as there when it works in the environment that it is asked for."""

import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from tests.support.programs import PROBES, problem_of

TESTS = Path(__file__).parents[1]
posix = pytest.mark.skipif(sys.platform == "win32", reason="programs of a line are POSIX")


def program(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment whose PATH begins with a program that runs a script."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_one_that_is_not_on_the_path_is_named():
    assert problem_of("no-such-program") == "needs no-such-program, which is not on the PATH"
    assert problem_of(sys.executable, "no-such-program", "nor-this").count("not on the PATH") == 2


@posix
def test_one_that_only_says_what_to_install_does_not_work(tmp_path: Path):
    shim = "echo 'error: rustup could not choose a version of cargo to run' >&2; exit 1"
    environment = program(tmp_path, "cargo", shim)
    words = "needs cargo, but `cargo --version` ended with 1 (error: rustup could not choose a version of cargo to run)"
    assert problem_of("cargo", environment=environment) == words


@posix
def test_one_that_works_only_in_a_home_is_judged_by_the_home_of_the_test(tmp_path: Path):
    environment = program(tmp_path, "cargo", 'test -d "$HOME/toolchain"')
    (tmp_path / "mine" / "toolchain").mkdir(parents=True)
    assert problem_of("cargo", environment={**environment, "HOME": str(tmp_path / "mine")}) == ""
    assert "ended with 1" in problem_of("cargo", environment={**environment, "HOME": str(tmp_path)})


@posix
def test_one_that_cannot_be_run_is_told(tmp_path: Path):
    environment = program(tmp_path, "broken", "")
    (tmp_path / "broken").write_bytes(b"\x7fELF nothing of the kind")
    assert "could not be run" in problem_of("broken", environment=environment)


@posix
@pytest.mark.parametrize("name", PROBES)
def test_what_exits_with_an_error_is_found_out_whatever_is_asked_of_it(name: str, tmp_path: Path):
    assert f"needs {name}, but" in problem_of(name, environment=program(tmp_path, name, "exit 69"))
    assert problem_of(name, environment=program(tmp_path, name, "exit 0") | {"N": "1"}) == ""


def test_the_environment_is_this_processs_unless_another_is_given():
    assert problem_of(sys.executable) == problem_of(sys.executable, environment=process_environment()) == ""


def test_no_test_takes_a_program_for_working_because_it_is_on_the_path():
    looking = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if "shutil.which(" in (text := path.read_text(encoding="utf-8")) and "problem_of(" not in text
    ]
    assert looking == [], "mark the test with `needs`, or ask testing/programs.py"
