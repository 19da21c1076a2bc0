"""Clients that we did not write, and the agent behind a recorder.

Owns: installing from npm, and running acpx. Must not know: what is asked of the agent.
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tests.support.process import COMMAND, agent_environment

ACPX = "acpx@0.19.1"
NODE = "node@24"
"""acpx wants Node 22.13 or newer; npm has Node itself as a package, so that the machine's version does not matter."""

INSTALL_SECONDS = 90
RUN_SECONDS = 60

OWNER_SECONDS = 60
"""How long the process that owns a session stays after a prompt: longer than a test pauses. Closing the session ends
it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folders and environment of a test: the agent's home, the project, and the recordings."""

    home: Path
    work: Path
    recordings: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def command(self, *arguments: str) -> list[str]:
        """The agent behind a recorder."""
        recorder = [sys.executable, "-m", "tests.support.recorder", str(self.recordings)]
        return [*recorder, *COMMAND, *arguments]

    @property
    def variables(self) -> dict[str, str]:
        """What a client's process gets; the agent inherits it."""
        return {**agent_environment(self.home), "HOME": str(self.home), **self.environment}


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a run of acpx."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Acpx:
    """The program."""

    program: Path
    path: str

    def start(self, place: Place, *arguments: str) -> subprocess.Popen[str]:
        """Start it in the project."""
        options = ["--cwd", str(place.work), "--ttl", str(OWNER_SECONDS), "--agent", shlex.join(place.command())]
        return subprocess.Popen(
            [str(self.program), *options, *arguments],
            env={**place.variables, "PATH": self.path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def run(self, place: Place, *arguments: str) -> Ran:
        """Run it to its end."""
        with self.start(place, *arguments) as process:
            output, _ = process.communicate(timeout=RUN_SECONDS)
        return Ran(process.returncode, output)


def asked_of_client(place: Place) -> set[str]:
    """The methods that the agent asked of the client so far."""
    entries = [
        cast("dict[str, str]", json.loads(kept))
        for file in place.recordings.glob("*.jsonl")
        for kept in file.read_text(encoding="utf-8").split("\n")[:-1]
    ]
    messages = [json.loads(entry["line"]) for entry in entries if entry["from"] == "agent"]
    return {message["method"] for message in messages if "method" in message and "id" in message}


def install_acpx(npm: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Install acpx and its Node into `folder`, whole or not at all; what went wrong, or nothing."""
    problem = install_packages(npm, folder, environment, (NODE, ACPX))
    if not problem and not (folder / "node_modules" / ".bin" / "node").exists():
        shutil.rmtree(folder, ignore_errors=True)
        return "the package node carries no Node for this machine"
    return problem


def install_packages(npm: str, folder: Path, environment: Mapping[str, str], packages: Sequence[str]) -> str:
    """Install packages of npm into `folder`, whole or not at all; what went wrong, or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent))
    command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(part), *packages]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode:
            return (done.stderr or done.stdout).strip()[-300:] or f"exit code {done.returncode}"
        part.rename(folder)
    except subprocess.TimeoutExpired:
        return f"it took longer than {INSTALL_SECONDS} s"
    except OSError as error:
        # Another run was faster: what it installed is as good.
        return "" if folder.exists() else str(error)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return ""
