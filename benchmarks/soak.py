"""A thousand turns in one process: its memory and open descriptors, every fifty turns.

    python benchmarks/soak.py --turns 1000 --per-session 50

A turn is two model calls of the scripted provider with text, two files read, one written (which makes a checkpoint), a
command, and a write of memory that the next turn undoes. Issue 5, section 6: at most 10 MB more after the warm-up,
and no more descriptors. `--per-session 1000` runs all of them in one session, whose history then stays in memory.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_process import AgentProcess
from measuring import describe_machine, expect, resident_megabytes

from pattern_acp.domain.canonical import JsonObject

GROWTH_MB = 10.0
WARM_UP = 0.2
"""Share of the turns after which growth is counted."""

EVERY = 50

FILES = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process holds after so many turns."""

    turns: int
    megabytes: float
    """Resident, without mapped files: the system takes pages of those back when it needs room."""
    mapped: float
    """Resident pages of the program's files and of the constellation, which grows by 40 KB a turn."""
    descriptors: int
    threads: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--per-session", type=int, default=50)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        samples = list(measure(Path(name), options.turns, options.per_session))
    warm = next(each for each in samples if each.turns >= options.turns * WARM_UP)
    last = samples[-1]
    growth = max(each.megabytes for each in samples if each.turns >= warm.turns) - warm.megabytes
    more = last.descriptors - warm.descriptors
    verdict = "met" if growth <= GROWTH_MB and more <= 0 else "missed"
    print(
        f"\n{options.turns} turns, {options.per_session} a session: from {warm.megabytes:.1f} MB after {warm.turns} "
        f"turns to {last.megabytes:.1f} MB, at most {growth:+.1f} MB (mapped {last.mapped - warm.mapped:+.1f}); "
        f"{more:+d} descriptors, "
        f"{last.threads - warm.threads:+d} threads (target +{GROWTH_MB:.0f} MB, +0: {verdict})"
    )


def script(project: Path, turns: int) -> list[Sequence[JsonObject]]:
    """Two requests for each turn; memory is set to one of two texts by turns."""
    played: list[Sequence[JsonObject]] = []
    for number in range(turns):
        memory: JsonObject = {
            "label": "project",
            "operation": "append" if number == 0 else "replace",
            "text": f"Turn parity {number % 2}.",
        }
        if number:
            memory["old_text"] = f"Turn parity {(number - 1) % 2}."
        notes, written = str(project / "notes.txt"), str(project / f"out-{number % FILES}.txt")
        played += [
            [
                {"text": "I will read the file. " * 5},
                {"tool": "read_file", "arguments": {"path": notes}},
                {"tool": "read_file", "arguments": {"path": written}},
                {"tool": "write_file", "arguments": {"path": written, "content": f"Turn {number}.\n" * 100}},
                {"tool": "run_command", "arguments": {"command": "echo one; echo two"}},
                {"tool": "memory_write", "arguments": memory},
            ],
            [{"text": "It holds two hundred lines of text. " * 10}],
        ]
    return played


def measure(folder: Path, turns: int, per_session: int) -> Iterator[Sample]:
    project = folder / "project"
    project.mkdir()
    files = {"notes.txt": "One line of text.\n" * 200, **{f"out-{number}.txt": "" for number in range(FILES)}}
    for name, content in files.items():
        (project / name).write_text(content, encoding="utf-8")
    file = folder / "script.json"
    file.write_text(json.dumps({"turns": script(project, turns)}), encoding="utf-8")
    environment = {
        "PATTERN_ACP_SCRIPT": str(file),
        "PATTERN_ACP_MODEL": "scripted/scripted",
    }
    with AgentProcess(
        folder / "home",
        arguments=("--mode", "auto"),
        environment=environment,
        files={str(project / name): text for name, text in files.items()},
    ) as agent:
        agent.initialize()
        session = ""
        for number in range(turns):
            if number % per_session == 0:
                if session:
                    agent.request("session/close", {"sessionId": session})
                session = agent.new_session(project)
            reason = agent.prompt(session, f"Do it, time {number}.")
            expect(reason == "end_turn", f"a turn ended with {reason}")
            failed = [each.content for each in agent.updates if each.content.get("status") == "failed"]
            expect(not failed, f"a call failed: {failed[:1]}")
            agent.updates.clear()
            if (number + 1) % EVERY == 0:
                sample = sample_of(agent, number + 1)
                print(
                    f"{sample.turns:6d} turns {sample.megabytes:8.1f} MB, {sample.mapped:.1f} MB mapped, "
                    f"{sample.descriptors} descriptors, "
                    f"{sample.threads} threads",
                    flush=True,
                )
                yield sample


def sample_of(agent: AgentProcess, turns: int) -> Sample:
    folder = Path(f"/proc/{agent.pid}")
    descriptors, threads = (len([*(folder / kind).iterdir()]) for kind in ("fd", "task"))
    own, mapped = resident_megabytes(agent.pid, "RssAnon"), resident_megabytes(agent.pid, "RssFile")
    return Sample(turns, own, mapped, descriptors, threads)


if __name__ == "__main__":
    main()
