"""`pattern-acp doctor`: the diagnosis of a session in this folder, and repairs."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from msgspec.structs import replace

from pattern_acp.bootstrap.diagnosis import diagnose
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Doctor
from pattern_acp.cli.command_runner import show_answer
from pattern_acp.cli.output import OutputClosed
from pattern_acp.domain.clock import SystemClock
from pattern_acp.recovery.checks import repair


def run_doctor(arguments: Doctor, process: Process) -> int:
    """Print the diagnosis of a session in this directory; 1 when something that is needed is broken."""
    here = in_folder(process, Path.cwd())
    look = partial(diagnose, here, thorough=arguments.verify)
    diagnosis = anyio.run(look)
    if arguments.repair:
        path = here.constellation_path
        done = repair(path, diagnosis.findings, now_ms=SystemClock().now_ms())
        diagnosis = replace(anyio.run(look) if done else diagnosis, repaired=tuple(done))
    with suppress(OutputClosed):  # `head` has seen enough; the exit code still tells
        show_answer(replace(diagnosis, whole=arguments.all), process, as_json=arguments.json)
    return EXIT_OK if diagnosis.is_usable else EXIT_ERROR


def in_folder(process: Process, folder: Path) -> Process:
    """`process` with the settings that a session in `folder` has: those of the project's file count too."""
    return replace(process, loaded=process.load_project(str(folder)))
