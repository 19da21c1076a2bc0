"""Our own time in a turn that edits a 2 MB file through the editor, and in applying many edits to such a text.

The time of the model's server and of the editor are subtracted, as in turn.py; two thirds of what is left of the turn
is the edit: the rest is what every turn takes.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.tools.apply_patch import UpdateFile, apply_hunks, parse_patch
from pattern_acp.tools.edit_file import Replacement, apply_replacements

LINES = 48_000
OWN_SECONDS = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    lines = [f"    value_{number} = compute(alpha, beta, {number})" for number in range(LINES)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        rows = [*measure_turns(Path(name), options.rounds, lines), *measure_texts(lines, max(options.rounds // 4, 1))]
    print_table(f"Edits in a file of {len(chr(10).join(lines)) / 1e6:.1f} MB", rows)


def measure_turns(folder: Path, rounds: int, lines: list[str]) -> list[Row]:
    home, project = folder / "home", folder / "project"
    project.mkdir()
    path = project / "large.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    there, back = edit_call(path, lines[LINES // 2], "changed = 1"), edit_call(path, "changed = 1", lines[LINES // 2])
    turns = [[there], [ScriptStep(text="Done.")], [back], [ScriptStep(text="Done.")]]
    own: list[float] = []
    with (
        WireServer(wire_answers(turns, 0)) as server,
        AgentProcess(
            home,
            arguments=("--mode", "edit"),
            environment=server.environment(),
            files={str(path): path.read_text(encoding="utf-8")},
        ) as agent,
    ):
        agent.initialize()
        session_id = agent.new_session(project)
        agent.prompt(session_id, "Edit.")
        for _ in range(rounds):
            served, answering, before = len(server.served), agent.answering, agent.files[str(path)]
            began = time.perf_counter()
            agent.prompt(session_id, "Edit again.")
            took = time.perf_counter() - began
            expect(agent.files[str(path)] != before, "a turn did not change the file")
            own.append(took - sum(each.seconds for each in server.served[served:]) - (agent.answering - answering))
    limit = milliseconds(OWN_SECONDS)
    return [Row("a turn with one edit_file, our own time", [*map(milliseconds, own)], "ms", f"<= {limit:.0f}", limit)]


def edit_call(path: Path, old: str, new: str) -> ScriptStep:
    edits = [{"old_text": old, "new_text": new}]
    return ScriptStep(tool="edit_file", arguments=json.dumps({"path": str(path), "edits": edits}))


def measure_texts(lines: list[str], rounds: int) -> list[Row]:
    text = "\n".join(lines)

    def edits(count: int) -> Callable[[], object]:
        replacements = [Replacement(lines[at], f"new_{at}") for at in range(0, LINES, LINES // count)]
        return lambda: apply_replacements(text, replacements)

    def hunks(count: int) -> Callable[[], object]:
        changes = [f"@@\n-{lines[at]}\n+new_{at}\n" for at in range(0, LINES, LINES // count)]
        (section,) = parse_patch(f"*** Begin Patch\n*** Update File: large.py\n{''.join(changes)}*** End Patch")
        expect(isinstance(section, UpdateFile), "the patch has no hunks")
        found = section.hunks if isinstance(section, UpdateFile) else ()
        return lambda: apply_hunks(text, found)

    made = [("1 edit", edits(1)), ("100 edits", edits(100)), ("1 hunk", hunks(1)), ("1,000 hunks", hunks(1_000))]
    return [Row(f"{name}, the text alone", [timed(run) for _ in range(rounds)], "ms") for name, run in made]


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return milliseconds(time.perf_counter() - began)


if __name__ == "__main__":
    main()
