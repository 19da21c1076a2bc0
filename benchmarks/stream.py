"""Processor time of a long answer that comes in small pieces: what each piece costs on its way to the editor."""

import argparse
import tempfile
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, cpu_seconds, expect, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

MICROSECONDS_A_PIECE = 40
BYTES = 400_000
PIECE = 20
"""Characters in one piece, so that there are 20,000 of them."""


def main() -> None:
    """Print the microseconds a piece."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        spent = measure(Path(name), options.rounds)
    rows = [Row("processor time a piece", spent, "µs", f"<= {MICROSECONDS_A_PIECE}", MICROSECONDS_A_PIECE)]
    print_table("A long answer in small pieces", rows)


def measure(folder: Path, rounds: int) -> list[float]:
    """Microseconds of processor time a piece, for each of so many answers."""
    project = folder / "project"
    project.mkdir()
    text = ("A line of an answer that is long.\n" * BYTES)[:BYTES]
    spent: list[float] = []
    with (
        WireServer(wire_answers([[ScriptStep(text=text)]], PIECE)) as server,
        AgentProcess(folder / "home", environment=server.environment()) as agent,
    ):
        agent.initialize()
        session_id = agent.new_session(project)
        agent.prompt(session_id, "Hi")
        for _ in range(rounds):
            before = cpu_seconds(agent.pid)
            agent.prompt(session_id, "Write a long answer.")
            spent.append((cpu_seconds(agent.pid) - before) * 1_000_000 / (BYTES / PIECE))
            expect(agent.shown_characters >= BYTES, "the long answer was not shown")
    return spent


if __name__ == "__main__":
    main()
