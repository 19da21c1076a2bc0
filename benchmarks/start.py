"""From the spawn to the first answers, with a warm disk cache: what a person waits for when a thread is opened."""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

SHOWN = ("agent_message_chunk", "agent_thought_chunk", "tool_call")
"""Kinds of updates that a person takes for the beginning of an answer."""

INITIALIZE_SECONDS = 0.12
FIRST_UPDATE_SECONDS = 0.42


@dataclass(slots=True)
class Starts:
    """What many starts took, in seconds."""

    initialize: list[float] = field(default_factory=list[float])
    session: list[float] = field(default_factory=list[float])
    first_update: list[float] = field(default_factory=list[float])
    cpu_initialize: list[float] = field(default_factory=list[float])
    cpu_session: list[float] = field(default_factory=list[float])
    cpu_first_update: list[float] = field(default_factory=list[float])


def start_once(starts: Starts, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Spawn, initialize, open a session, prompt; as fast as the answers allow."""
    home, project = Path(tempfile.mkdtemp(dir=folder)), Path(tempfile.mkdtemp(dir=folder))
    with AgentProcess(home, arguments=arguments, environment=environment) as agent:
        agent.initialize()
        starts.initialize.append(agent.since_spawn)
        starts.cpu_initialize.append(agent.cpu)
        session_id = agent.new_session(project)
        starts.session.append(agent.since_spawn)
        starts.cpu_session.append(agent.cpu)
        agent.prompt(session_id, "Hello there.")
        starts.cpu_first_update.append(agent.cpu)
        starts.first_update.append(agent.first_update(SHOWN, 0.0).at - agent.started)


def rows_of(starts: Starts) -> list[Row]:
    def row(name: str, values: Sequence[float], limit: float | None = None) -> Row:
        target = "" if limit is None else f"<= {milliseconds(limit):.0f}"
        return Row(name, [*map(milliseconds, values)], "ms", target, None if limit is None else milliseconds(limit))

    return [
        row("spawn to initialize", starts.initialize, INITIALIZE_SECONDS),
        row("spawn to session/new", starts.session),
        row("spawn to first update of a turn", starts.first_update, FIRST_UPDATE_SECONDS),
        row("processor time until initialize", starts.cpu_initialize),
        row("processor time until session/new", starts.cpu_session),
        row("processor time until the turn's end", starts.cpu_first_update),
    ]


def measure(folder: Path, rounds: int, arguments: Sequence[str], environment: Mapping[str, str]) -> list[Row]:
    start_once(Starts(), folder, arguments, environment)  # warms the disk cache
    starts = Starts()
    for _ in range(rounds):
        start_once(starts, folder, arguments, environment)
    return rows_of(starts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=("offline", "wire", "scripted"))
    options = parser.parse_args()
    wanted = (options.only,) if options.only else ("offline", "wire", "scripted")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if "offline" in wanted:
            print_table("Start: no key, empty home (offline provider)", measure(folder, options.rounds, (), {}))
        if "wire" in wanted:
            with WireServer(wire_answers([[ScriptStep(text="Hello. What shall we do?")]])) as server:
                rows = measure(folder, options.rounds, (), server.environment())
                expect(len(server.served) > options.rounds, "a first turn did not ask the model")
            print_table("Start: Anthropic wire, server on loopback", rows)
        if "scripted" in wanted:
            script = folder / "script.json"
            script.write_text(json.dumps({"turns": [[{"text": "Hello."}]], "repeat": True}), encoding="utf-8")
            rows = measure(
                folder, options.rounds, ("--model", "scripted/scripted"), {"PATTERN_ACP_SCRIPT": str(script)}
            )
            print_table("Start: scripted provider", rows)


if __name__ == "__main__":
    main()
