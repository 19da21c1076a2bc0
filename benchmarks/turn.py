"""Our own time in a later turn of two model calls and one file read through the editor.

The server's service time and the time the editor took to answer are subtracted from the time between the prompt and
its answer. "Later" means: the first turn of the session, which imports and connects, is not counted.

Whether turns stay as quick as the conversation grows: `--rounds 210 --lines 100`, which compares the turns behind the
tenth with the last ones. Longer ones would be compacted, and a session that was searches what left.
"""

import argparse
import tempfile
import time
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

OWN_SECONDS = 0.025

BEGUN = 10
"""Turns until a session runs as it does later."""

COMPARED = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--lines", type=int, default=200, help="of the file, which the history gets with every turn")
    parser.add_argument("--chunk", type=int, default=0, help="characters in one text delta (default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        print_table("A later turn: two model calls, one file read", measure(Path(name), options))


def measure(folder: Path, options: argparse.Namespace) -> list[Row]:
    rounds, chunk, lines = int(options.rounds), int(options.chunk), int(options.lines)
    home, project = folder / "home", folder / "project"
    project.mkdir()
    path = project / "notes.txt"
    path.write_text("One line of text.\n" * lines, encoding="utf-8")
    turns = [
        [ScriptStep(text="I will read the file."), ScriptStep(tool="read_file", arguments=f'{{"path":"{path}"}}')],
        [ScriptStep(text="It holds two hundred lines of text. " * 10)],
    ]
    own: list[float] = []
    cpu: list[float] = []
    with (
        WireServer(wire_answers(turns, chunk)) as server,
        AgentProcess(
            home, environment=server.environment(), files={str(path): path.read_text(encoding="utf-8")}
        ) as agent,
    ):
        agent.initialize()
        session_id = agent.new_session(project)
        agent.prompt(session_id, "Read the notes.")
        for _ in range(rounds):
            served, answering, cpu_before = len(server.served), agent.answering, agent.cpu
            began = time.perf_counter()
            agent.prompt(session_id, "Read the notes again.")
            took = time.perf_counter() - began
            expect(len(server.served) - served == len(turns), "a turn did not ask the model twice")
            expect(agent.answering > answering, "a turn did not read the file")
            service = sum(each.seconds for each in server.served[served:])
            own.append(took - service - (agent.answering - answering))
            cpu.append(agent.cpu - cpu_before)
    limit = milliseconds(OWN_SECONDS)
    grown = growth(own, cpu) if rounds >= 2 * COMPARED + BEGUN else []
    return [
        Row("our own time a turn", [*map(milliseconds, own)], "ms", f"<= {limit:.0f}", limit),
        Row("processor time a turn", [*map(milliseconds, cpu)], "ms"),
        *grown,
    ]


def growth(own: list[float], cpu: list[float]) -> list[Row]:
    """The turns behind the tenth beside the last ones."""
    rows: list[Row] = []
    for name, values in (("our own time", own), ("processor time", cpu)):
        early, late = values[BEGUN : BEGUN + COMPARED], values[-COMPARED:]
        rows.append(Row(f"{name}, turns {BEGUN} to {BEGUN + COMPARED}", [*map(milliseconds, early)], "ms"))
        rows.append(Row(f"{name}, turns {len(values) - COMPARED} to {len(values)}", [*map(milliseconds, late)], "ms"))
    return rows


if __name__ == "__main__":
    main()
