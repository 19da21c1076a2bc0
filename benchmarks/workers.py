#!/usr/bin/env python3
"""Workers that land whole: the first command in a large repository, reads through a view, a landing, eight at once.

    python benchmarks/workers.py [--files 50000]

The tree is made for each round anew. A landing is timed by the journal, from its first event to its last. Of eight
workers the agent's processor time is counted, that of their commands excluded.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
from agent_process import AgentProcess
from measuring import Row, describe_machine, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.config.load import process_environment
from pattern_acp.processes.confinement import Confinement, Profile
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import OverlayFileSystem
from pattern_acp.workspace.worker_tree import TreeOwner, WorkerTree

LANDED = 1_000
WORKERS, READS = 8, 9
WHOLE = '[delegate]\nworker_changes = "whole"\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        make_repository(folder / "large", options.files)
        rows = anyio.run(measure_trees, folder, options.rounds)
        rows += [measure_landing(folder / "landing", options.rounds), measure_eight(folder / "eight", options.rounds)]
    print_table(f"Workers, in a repository of {options.files:,} files", rows)


def make_repository(root: Path, count: int) -> None:
    text = "def compute(alpha, beta):\n    return alpha + beta\n" * 20
    for number in range(count):
        path = root / f"package{number // 1_000}" / f"part{number // 100}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(("git", *words.split()), cwd=root, check=True, capture_output=True)


async def measure_trees(folder: Path, rounds: int) -> list[Row]:
    root, private = folder / "large", folder / "private"
    private.mkdir()
    confinement = Confinement(private)
    await confinement.find()
    owner = TreeOwner(os.getpid(), "benchmark", "benchmark")
    first: list[float] = []
    for _ in range(rounds):
        base = LocalFileSystem()
        tree = WorkerTree(
            str(root), OverlayFileSystem(base), base, process_environment(), owner, confinement=confinement
        )
        began = time.perf_counter()
        place = await tree.bring_in()
        words: tuple[str, ...] = ("/bin/sh", "-c", "ls")
        if tree.layers is not None:
            profile = Profile(confines=False, network=True, layers=tree.layers)
            words = confinement.prepare(profile, words, in_group=True).arguments
        subprocess.run(words, cwd=place, check=True, capture_output=True)  # noqa: ASYNC221
        first.append(time.perf_counter() - began)
        await tree.close()
    ratios: list[float] = []
    paths = [str(path) for path in sorted(root.glob("package0/*/*.py"))]
    for _ in range(rounds):
        direct, view = LocalFileSystem(), OverlayFileSystem(LocalFileSystem())
        seconds: list[float] = []
        for files in (direct, view, direct, view):
            began = time.perf_counter()
            for path in paths:
                await files.read_text_file(path)
            seconds.append(time.perf_counter() - began)
        ratios.append((seconds[1] + seconds[3]) / (seconds[0] + seconds[2]))
    return [
        Row("until the first command has ended", first, "s", "<= 3", 3),
        Row("reads through a view, against direct ones", ratios, "times", "<= 1.1", 1.1),
    ]


def measure_landing(folder: Path, rounds: int) -> Row:
    project = folder / "project"
    took: list[float] = []
    for number in range(rounds):
        line = f"for n in $(seq {LANDED}); do echo {number} > f$n; done"
        turns = [
            [delegate("maker")],
            [ScriptStep(tool="run_command", arguments=json.dumps({"command": line}))],
            [ScriptStep(text="Made them.")],
            [ScriptStep(text="Done.")],
        ]
        run(folder / f"home{number}", project, turns)
        (constellation,) = (folder / f"home{number}").rglob("constellation.db")
        with sqlite3.connect(constellation) as database:
            query = "SELECT at_ms FROM events WHERE kind IN ('landing_started', 'landing_ended') ORDER BY seq"
            began, ended = (each[0] for each in database.execute(query))
        took.append((ended - began) / 1000)
    expect(len(list(project.glob("f*"))) == LANDED, "the files did not land")
    return Row(f"a landing of {LANDED:,} files", took, "s", "<= 2", 2)


def measure_eight(folder: Path, rounds: int) -> Row:
    project = folder / "project"
    reads = [ScriptStep(tool="read_file", arguments=json.dumps({"path": f"f{n}"})) for n in range(WORKERS * READS)]
    turns = [
        [delegate(f"maker{number}") for number in range(WORKERS)],
        *([read] for read in reads),
        *[[ScriptStep(text="Done.")]] * (WORKERS + 1),
    ]
    project.mkdir(parents=True)
    for number in range(WORKERS * READS):
        (project / f"f{number}").write_text("line\n" * 50)
    each = [milliseconds(run(folder / f"home{number}", project, turns)) / len(turns) for number in range(rounds)]
    return Row("eight workers at once, processor time a model call", each, "ms", "<= 30", 30)


def delegate(name: str) -> ScriptStep:
    task = {"kind": "worker", "name": name, "task": f"The task of {name}."}
    return ScriptStep(tool="delegate", arguments=json.dumps(task))


def run(home: Path, project: Path, turns: list[list[ScriptStep]]) -> float:
    """Run one prompt; the processor time that the agent took for it."""
    project.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True)
    (home / "config.toml").write_text(WHOLE)
    with (
        WireServer(wire_answers(turns, 0)) as server,
        AgentProcess(home, arguments=("--mode", "auto"), environment=server.environment()) as agent,
    ):
        agent.initialize()
        session = agent.new_session(project)
        before = agent.cpu
        agent.prompt(session, "Go.")
        expect(len(server.served) == len(turns), f"{len(server.served)} of {len(turns)} model calls were made")
        return agent.cpu - before


if __name__ == "__main__":
    main()
