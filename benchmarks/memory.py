"""Resident memory: after three turns, and after an answer of 400 kB that came in small pieces."""

import argparse
import tempfile
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, expect, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

THREE_TURNS_MB = 70
LONG_ANSWER_MB = 30
LONG_ANSWER_BYTES = 400_000
PIECE = 40
"""Characters in one delta, about what models send."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    resident: list[float] = []
    increase: list[float] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            before, after = measure(Path(name))
        resident.append(before)
        increase.append(after - before)
    rows = [
        Row("resident after three turns", resident, "MB", f"<= {THREE_TURNS_MB}", THREE_TURNS_MB),
        Row("increase after a 400 kB answer", increase, "MB", f"<= {LONG_ANSWER_MB}", LONG_ANSWER_MB),
    ]
    print_table("Memory", rows)


def measure(folder: Path) -> tuple[float, float]:
    """Megabytes after three turns with a file read each, and after the long answer."""
    project = folder / "project"
    project.mkdir()
    path = project / "notes.txt"
    path.write_text("One line of text.\n" * 200, encoding="utf-8")
    read = [ScriptStep(tool="read_file", arguments=f'{{"path":"{path}"}}')]
    short = [ScriptStep(text="Two hundred lines of text. " * 10)]
    long = [ScriptStep(text=("A line of an answer that is long.\n" * 20_000)[:LONG_ANSWER_BYTES])]
    with (
        WireServer(wire_answers([read, short] * 3 + [long], PIECE)) as server,
        AgentProcess(
            folder / "home", environment=server.environment(), files={str(path): path.read_text(encoding="utf-8")}
        ) as agent,
    ):
        agent.initialize()
        session_id = agent.new_session(project)
        for _ in range(3):
            agent.prompt(session_id, "Read the notes.")
        before = agent.resident
        agent.prompt(session_id, "Write a long answer.")
        expect(agent.shown_characters >= LONG_ANSWER_BYTES, "the long answer was not shown")
        return before, agent.resident


if __name__ == "__main__":
    main()
