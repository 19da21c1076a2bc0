"""Other people's programs that tests use: whether they work here, in the environment that the test will use.

Owns: one harmless run of each. Must not know: tests. A program on PATH proves nothing: rustup, Xcode and some
distributions put stand-ins there that only say what would have to be installed.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pattern_acp.config.load import process_environment

PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Probe:
    """A run that ends with 0 where the program can do what tests want of it. It runs in an empty folder."""

    arguments: tuple[str, ...] = ("--version",)
    stdin: str = ""


PROBES: Mapping[str, Probe] = {
    # `-b` came with git 2.28.
    "git": Probe(("init", "-q", "-b", "main", ".")),
    "sh": Probe(("-c", "exit 0")),
    "bash": Probe(("-c", "exit 0")),
    "awk": Probe(("BEGIN { exit 0 }",)),
    "perl": Probe(("-e", "exit 0")),
    # A compiler may be there without headers, or without what links.
    "cc": Probe(("-x", "c", "-o", "program", "-"), "#include <stdio.h>\nint main(void) { return 0; }\n"),
    "rustc": Probe(("-o", "program", "-"), "fn main() {}\n"),
    "go": Probe(("version",)),
    "gopls": Probe(("version",)),
    "tmux": Probe(("-V",)),
    "ssh-keygen": Probe(("-q", "-t", "ed25519", "-N", "", "-f", "key")),
    # As root it wants to be told that there is no sandbox.
    "chromium": Probe(("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank")),
    "ip": Probe(("-V",)),
    "tc": Probe(("-V",)),
}
"""Those of which `--version` says too little, or that do not know it."""


def problem_of(*programs: str, environment: Mapping[str, str] | None = None) -> str:
    """Why not all of these work in an environment, this process's unless another is given; empty when they do."""
    where = tuple(sorted((process_environment() if environment is None else environment).items()))
    problems = [problem for program in programs if (problem := _problem(program, where))]
    return "; ".join(problems)


def path_of(program: str, environment: Mapping[str, str] | None = None) -> str:
    """Where a program is that works."""
    found = shutil.which(program, path=(process_environment() if environment is None else environment).get("PATH", ""))
    return found or program


@cache
def _problem(program: str, where: tuple[tuple[str, str], ...]) -> str:
    environment = dict(where)
    path = shutil.which(program, path=environment.get("PATH", ""))
    if path is None:
        return f"needs {program}, which is not on the PATH"
    probe = PROBES.get(program.rpartition("/")[2], Probe())
    run = f"needs {program}, but `{' '.join((program, *probe.arguments))}`"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [path, *probe.arguments],
                cwd=folder,
                env=environment,
                input=probe.stdin.encode(),
                capture_output=True,
                timeout=PROBE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{run} did not end within {PROBE_SECONDS} s"
        except OSError as error:
            return f"{run} could not be run ({error.strerror})"
    if done.returncode == 0:
        return ""
    words = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in words if line.strip()), "")
    return f"{run} ended with {done.returncode}{f' ({said[:200]})' if said else ''}"
