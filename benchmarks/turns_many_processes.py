"""Several agents that run turns in one constellation at the same time, each for an editor of its own.

    python benchmarks/turns_many_processes.py --processes 8 --turns 500

A turn is two model calls of the scripted provider, a file read and a write of memory (a repeat from the second on).
The first turn of each agent is a row of its own, as in `turn.py`: it loads the program, in all agents at once.
Issue 5, section 6: nobody sees an error, 99 of 100 commits wait at most 250 ms for others, and nothing is lost.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from agent_process import AgentProcess
from measuring import Row, expect, milliseconds, percentile, print_table

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SessionId, SystemClock
from pattern_acp.journal.events import BlockCommitted, ErrorReported, TurnEnded
from pattern_acp.journal.reader import read_stream, verify_stream

WAIT_MS = 250.0


@dataclass(slots=True)
class Editor:
    """What one editor saw."""

    session: str = ""
    turns: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    cpu: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        measure(Path(name), options.processes, options.turns)


def measure(folder: Path, processes: int, turns: int) -> None:
    project = folder / "project"
    project.mkdir()
    (project / "notes.txt").write_text("One line of text.\n" * 200, encoding="utf-8")
    editors = [Editor() for _ in range(processes)]
    threads = [
        threading.Thread(target=work, args=(folder, project, number, turns, editor))
        for number, editor in enumerate(editors)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    for editor in editors:
        expect(not editor.failures, f"an editor saw {editor.failures[:1]}")
    anyio.run(check, folder, editors, turns)
    waits = [wait for number in range(processes) for wait in json.loads((folder / f"waits-{number}").read_text())]
    title = (
        f"{processes} processes, {turns} turns each: {seconds:.0f} s, {processes * turns / seconds:.1f} turns a second"
    )
    first = [editor.turns[0] for editor in editors]
    took = [each for editor in editors for each in editor.turns[1:]]
    print_table(
        title,
        [
            Row("a first turn, as its editor sees it", first, "ms"),
            Row("a later turn", took, "ms"),
            Row("wait of a commit for other processes", waits, "ms"),
        ],
    )
    verdict = "met" if percentile(waits, 0.99) <= WAIT_MS else "missed"
    size = sum(each.stat().st_size for each in constellation(folder).parent.iterdir() if each.is_file())
    spread = percentile(took, 0.99) / percentile(took, 0.5)
    print(f"99th percentile of a later turn {spread:.1f} times the median (target 3)")
    print(
        f"99th percentile of {len(waits):,} waits {percentile(waits, 0.99):.0f} ms (target {WAIT_MS:.0f}: {verdict}), "
        f"longest {max(waits):.0f} ms; processor time a turn "
        f"{milliseconds(sum(editor.cpu for editor in editors)) / processes / turns:.0f} ms; "
        f"the constellation has {size / 1024 / processes / turns:.1f} KB a turn; nothing was lost"
    )


def work(folder: Path, project: Path, number: int, turns: int, editor: Editor) -> None:
    """One editor with its agent."""
    remember = {"label": "project", "operation": "append", "text": f"Agent {number} was here."}
    script = folder / f"script-{number}.json"
    # Only the first turn writes memory: later ones would be refused as repeats, which is a result like any other.
    script.write_text(
        json.dumps(
            {
                "turns": [
                    [
                        {"text": "I will read the file."},
                        {"tool": "read_file", "arguments": {"path": str(project / "notes.txt")}},
                        {"tool": "memory_write", "arguments": remember},
                    ],
                    [{"text": "It holds two hundred lines of text. " * 10}],
                ],
                "repeat": True,
            }
        )
    )
    environment = {"PATTERN_ACP_SCRIPT": str(script)}
    command = (sys.executable, str(Path(__file__).with_name("timed_agent.py")), str(folder / f"waits-{number}"))
    files = {str(project / "notes.txt"): "One line of text.\n" * 200}
    try:
        with AgentProcess(
            folder / "home",
            command=command,
            arguments=("--model", "scripted/scripted"),
            environment=environment,
            files=files,
        ) as agent:
            agent.initialize()
            editor.session = agent.new_session(project)
            for turn in range(turns):
                asked = time.perf_counter()
                reason = agent.prompt(editor.session, f"Read the notes, time {turn} of {number}.")
                editor.turns.append(milliseconds(time.perf_counter() - asked))
                expect(reason == "end_turn", f"a turn ended with {reason}")
                agent.updates.clear()
            editor.cpu = agent.cpu
    except RuntimeError as error:
        editor.failures.append(str(error))


def constellation(folder: Path) -> Path:
    return folder / "home" / "constellations" / "default" / "constellation.db"


async def check(folder: Path, editors: list[Editor], turns: int) -> None:
    """Every turn ended well, and every chain is sound."""
    async with open_database(constellation(folder), clock=SystemClock()) as database:
        for editor in editors:
            session = SessionId(editor.session)
            events = [one.event for one in await database.read(lambda tx, s=session: read_stream(tx, s))]
            ended = sum(isinstance(event, TurnEnded) for event in events)
            expect(ended == turns, f"{ended} of {turns} turns have ended")
            errors = [event.sentence for event in events if isinstance(event, ErrorReported)]
            expect(not errors, f"an error was recorded: {errors[:1]}")
            expect(any(isinstance(event, BlockCommitted) for event in events), "memory was not written")
            report = await database.read(lambda tx, s=session: verify_stream(tx, s))
            expect(report.ok, f"a chain is broken: {report.problem}")


if __name__ == "__main__":
    main()
