"""The same script in ACP v1 and in v2, and with codex-acp beside us: initialize, first words, later turns.

`--codex FILE` names codex-acp's program (npm i @agentclientprotocol/codex-acp; `node_modules/.bin/codex-acp`). The
model is a server on this machine, of Anthropic's format for us and of the Responses API for codex-acp; its own time is
subtracted. Each run is a process of its own, and the agents take turns, so that what else the machine does meets all.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from agent_process import COMMAND, AgentProcess
from measuring import Row, describe_machine, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_streams import anthropic_frames
from tests.support.newer_model_streams import responses_frames

ANSWER = [[ScriptStep(text="It holds two hundred lines of text. " * 10)]]

FIRST = ("agent_message_chunk", "agent_message")
"""Updates with the first words of an answer."""


TITLES = (
    "from the start to the answer to initialize",
    "from the start to the first words of an answer",
    "own time of a later turn without calls",
    "processor time of a later turn without calls",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each agent")
    parser.add_argument("--turns", type=int, default=20, help="later turns of each process")
    parser.add_argument("--codex", default="", help="the program of codex-acp; without it we are alone")
    options = parser.parse_args()
    agents: dict[str, tuple[tuple[str, ...], int]] = {"v1": (COMMAND, 1), "v2": (COMMAND, 2)}
    if options.codex:
        agents["codex-acp, v2"] = ((str(options.codex),), 2)
    measured: dict[str, tuple[list[float], ...]] = {name: ([], [], [], []) for name in agents}
    print(describe_machine())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for number in range(int(options.rounds)):
            for name, (command, version) in agents.items():
                place = Path(folder, f"{number}-{version}-{len(command)}")
                run(place, command, 2 if version == 2 else 1, int(options.turns), measured[name])
    rows = [
        Row(f"{title}, {name}", [*map(milliseconds, values[at])], "ms")
        for at, title in enumerate(TITLES)
        for name, values in measured.items()
        # codex-acp works in processes of its own beside the one that is measured.
        if title is not TITLES[3] or name in {"v1", "v2"}
    ]
    print_table("The same script in both versions", rows)


def run(place: Path, command: Sequence[str], version: Literal[1, 2], turns: int, into: tuple[list[float], ...]) -> None:
    """One process: its times go to `into`."""
    project = place / "project"
    project.mkdir(parents=True)
    is_ours = command == COMMAND
    render = anthropic_frames if is_ours else responses_frames
    with WireServer(wire_answers(ANSWER, 0, render)) as server:
        environment = server.environment() if is_ours else codex_environment(place, server.url)
        with AgentProcess(place / "home", command=command, environment=environment, version=version) as agent:
            agent.initialize()
            into[0].append(agent.since_spawn)
            session = agent.new_session(project)
            agent.prompt(session, "What does it hold?")
            into[1].append(agent.first_update(FIRST, agent.started).at - agent.started)
            for _ in range(turns):
                served, cpu, began = len(server.served), agent.cpu, time.perf_counter()
                expect(agent.prompt(session, "And now?") == "end_turn", "a turn did not end as it should")
                took = time.perf_counter() - began
                into[2].append(took - sum(each.seconds for each in server.served[served:]))
                into[3].append(agent.cpu - cpu)


def codex_environment(place: Path, url: str) -> Mapping[str, str]:
    """What makes codex-acp use the server."""
    provider = {"name": "local", "base_url": f"{url}/v1", "wire_api": "responses", "env_key": "CODEX_API_KEY"}
    config = {"model": "test-model", "model_provider": "local", "model_providers": {"local": provider}}
    home = place / "codex"
    home.mkdir()
    return {
        "HOME": str(place),
        "CODEX_HOME": str(home),
        "CODEX_API_KEY": "no-real-key",
        "MODEL_PROVIDER": "local",
        "CODEX_CONFIG": json.dumps(config),
        "NO_BROWSER": "1",
    }


if __name__ == "__main__":
    main()
