"""The rules of the ACP registry (reference/acp.md Part 3, registry entry), held against our entry and our process."""

import json
import re
import select
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from acp.schema import InitializeResponse

from pattern_acp import __version__
from pattern_acp.config.load import process_environment

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "packaging" / "acp-registry" / "pattern-acp"
ALLOWED = {
    "id",
    "name",
    "version",
    "description",
    "repository",
    "website",
    "authors",
    "license",
    "icon",
    "distribution",
}
SECONDS = 60
"""The registry waits 60; slower than this would be a fault of ours."""


@pytest.fixture
def agent() -> Mapping[str, object]:
    return json.loads((ENTRY / "agent.json").read_text(encoding="utf-8"))


def test_the_entry_has_exactly_two_files():
    assert {path.name for path in ENTRY.iterdir()} == {"agent.json", "icon.svg"}


def test_the_id_is_the_directory_and_well_formed(agent: Mapping[str, object]):
    assert agent["id"] == ENTRY.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", str(agent["id"]))


def test_the_fields_are_those_the_registry_knows(agent: Mapping[str, object]):
    assert set(agent) <= ALLOWED
    assert {"id", "name", "version", "description", "distribution"} <= set(agent)
    assert "://" in str(agent["repository"])


def test_all_versions_agree(agent: Mapping[str, object]):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert agent["version"] == __version__ == project["version"]
    assert agent["license"] == project["license"]


def test_the_distribution_pins_this_version_of_this_package(agent: Mapping[str, object]):
    assert agent["distribution"] == {"uvx": {"package": f"pattern-acp=={__version__}", "args": ["acp"]}}


def test_the_command_that_uvx_starts_is_installed_by_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] in project["scripts"]


def test_the_icon_is_square_small_and_of_one_colour():
    text = (ENTRY / "icon.svg").read_text(encoding="utf-8")
    # The file is our own, so that the parser's weakness against hostile input does not matter.
    icon = ElementTree.fromstring(text)  # noqa: S314
    assert icon.tag == "{http://www.w3.org/2000/svg}svg"
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {element.get(name) for element in icon.iter() for name in ("fill", "stroke")} - {None}
    assert colours == {"none", "currentColor"}
    assert "style" not in text
    assert "<script" not in text


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as the registry's check starts it: an empty home, a dumb terminal."""
    keep = ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_CONFIG")
    environ = {key: value for key, value in process_environment().items() if key in keep}
    with subprocess.Popen(
        [sys.executable, "-m", "pattern_acp", "acp"],
        env={**environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "TERM": "dumb"},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        yield started
        started.kill()


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    if sys.platform != "win32":
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        assert ready, "nothing came on stdout"
    return process.stdout.readline()


@pytest.mark.e2e
def test_the_first_line_is_a_valid_answer_with_a_method_anyone_can_use(process: subprocess.Popen[bytes]):
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": True},
                "terminal": True,
                "_meta": {"terminal-auth": True},
            },
            "clientInfo": {"name": "registry-check", "version": "1.0.0"},
        },
    }
    assert process.stdin is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(first_line(process))
    assert answer["id"] == 1
    assert "error" not in answer
    response = InitializeResponse.model_validate(answer["result"])
    assert response.protocol_version == 1
    methods = answer["result"]["authMethods"]
    assert any(method.get("type", "agent") in ("agent", "terminal") for method in methods)
    assert all(method["id"] and method["name"] for method in methods)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert all(json.loads(line) for line in out.splitlines())


@pytest.mark.e2e
def test_a_client_that_leaves_at_once_is_a_quiet_end(process: subprocess.Popen[bytes]):
    out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, b"")
