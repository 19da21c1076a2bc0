"""Fixtures of the tests with clients that we did not write."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from tests.support.clients import ACPX, NODE, Acpx, Place, install_acpx, install_packages
from tests.support.process import judge_recordings
from tests.support.programs import path_of, problem_of


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A project with one file. What the agent wrote to the client is judged at the end."""
    made = Place(tmp_path / "home", tmp_path / "work", tmp_path / "recordings")
    made.home.mkdir()
    made.work.mkdir()
    (made.work / "greeting.txt").write_text("hello\nworld\n", encoding="utf-8")
    yield made
    assert judge_recordings(made.recordings) > 0


@pytest.fixture(scope="session")
def acpx() -> Acpx:
    """acpx from the npm registry, kept in the system's temporary folder between runs."""
    environment = process_environment()
    problem = problem_of("npm", "node")
    if problem:
        pytest.skip(f"acpx {problem}")
    npm = path_of("npm")
    if sys.platform == "win32":
        pytest.skip("acpx is driven through a POSIX command line here")
    folder = Path(tempfile.gettempdir()) / "pattern-acp-acpx" / f"{ACPX}-{NODE}"
    programs = folder / "node_modules" / ".bin"
    if not (programs / "acpx").exists():
        problem = install_acpx(npm, folder, environment)
        if problem:
            pytest.skip(f"npm could not install acpx: {problem}")
    return Acpx(programs / "acpx", f"{programs}{os.pathsep}{environment['PATH']}")


OIDC_PROVIDER = "oidc-provider@9.13.3"
SDK = "@agentclientprotocol/sdk@2.4.0"
ZOD = "zod@4.6.7"
"""The SDK reads messages with it, and leaves its version to others."""


def program_beside(script: str, name: str, *packages: str) -> list[str]:
    """The command of a script of this folder up to the folder of its packages, which is kept between runs."""
    problem = problem_of("npm", "node")
    if problem:
        pytest.skip(f"{name} {problem}")
    npm, node = path_of("npm"), path_of("node")
    kept = "-".join(packages).replace("/", "-")
    folder = Path(tempfile.gettempdir()) / f"pattern-acp-{name}" / kept
    if not (folder / "node_modules").exists():
        problem = install_packages(npm, folder, process_environment(), packages)
        if problem:
            pytest.skip(f"npm could not install {name}: {problem}")
    return [node, str(Path(__file__).with_name(script)), str(folder)]


@pytest.fixture(scope="session")
def oidc_provider() -> list[str]:
    """oidc-provider from the npm registry."""
    return program_beside("oidc_provider.mjs", "oidc", OIDC_PROVIDER)


@pytest.fixture(scope="session")
def sdk_client() -> list[str]:
    """A client on the official TypeScript SDK."""
    return program_beside("sdk_client.mjs", "sdk", SDK, ZOD)


@pytest.fixture(scope="session")
def sdk_router() -> list[str]:
    """Clients of both versions behind the protocol router of the official TypeScript SDK."""
    return program_beside("sdk_router.mjs", "sdk", SDK, ZOD)


@pytest.fixture(scope="session")
def sdk_background() -> list[str]:
    """A client of ACP v2, what is not stable included, for work beside the foreground."""
    return program_beside("sdk_background.mjs", "sdk", SDK, ZOD)


@pytest.fixture(scope="session")
def sdk_client_v2() -> list[str]:
    """A client of ACP v2 on the official TypeScript SDK."""
    return program_beside("sdk_client_v2.mjs", "sdk", SDK, ZOD)
