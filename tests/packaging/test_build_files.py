"""Scripts, pins and the README's commands, which must not drift apart."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ("scripts/check", "scripts/release", "scripts/test", "scripts/python.sh", ".ci/run")
needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_constraints_are_exact_versions_and_nothing_else():
    for name, version in pins().items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert re.fullmatch(r"[0-9][A-Za-z0-9.+!]*", version)


def test_every_package_that_the_project_names_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # A model of 120 MB is no part of a development install.
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "semantic"}
    wanted = [*project["dependencies"], *chain.from_iterable(extras.values())]
    names = {normal(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in wanted}
    assert names - {project["name"]} <= {normal(name) for name in pins()}


def test_a_development_install_brings_every_extra_that_tests_need():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (own,) = [name for name in extras["dev"] if name.startswith("pattern-acp[")]
    assert set(own[len("pattern-acp[") : -1].split(",")) == set(extras) - {"dev", "semantic"}


def test_no_pin_wants_a_newer_patch_release_of_python_than_debian_12_has():
    major = int(pins()["soupsieve"].split(".")[0])
    assert major < 3


@needs_sh
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_plain_sh(script: str):
    text = (ROOT / script).read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n") or script.endswith(".sh")
    assert "\r" not in text
    subprocess.run(["sh", "-n", script], cwd=ROOT, check=True, timeout=60)


@needs_sh
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_may_be_run_as_it_is(script: str):
    is_executable = bool((ROOT / script).stat().st_mode & 0o100)
    assert is_executable is not script.endswith(".sh")


def test_no_build_file_names_a_download_address():
    for name in (*SCRIPTS, "constraints.txt", "pyproject.toml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"index-url|find-links|@ (?:https?|file)://|pypi\.|files\.pythonhosted", text), name


def test_ci_runs_the_checks_and_the_readmes_own_test_command_and_the_slow_tests_and_judges_coverage():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- test-command -->\n```\w*\n(.*?)\n```\n<!-- /test-command -->", readme, re.DOTALL)
    assert "scripts/check" in ci
    assert "test-command" in ci
    assert "scripts/test --slow" in ci
    assert 'env TEST_COVERAGE=1 sh -euc "$command"' in ci, "the fast tests alone reach the floor"
    assert "coverage report" in ci
    assert block is not None, "README.md needs its test command between the markers that .ci/run looks for"
    assert "scripts/test" in block[1]
    assert "constraints.txt" in block[1]
