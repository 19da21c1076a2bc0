"""Costs of `pattern-acp serve`: what a turn takes longer over a WebSocket on loopback, and the memory of 50 clients.

A turn of an agent on stdio and one of an agent behind `pattern-acp connect` run in turn, over the same scripted model.
The wall time says little on a busy machine; the difference of the medians of such pairs says more than either. Then 50
connections are opened to one server, each with a session that had a turn.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from agent_process import COMMAND, ROOT, AgentProcess
from measuring import Row, bare_environment, expect, milliseconds, print_table, resident_megabytes

from pattern_acp.credentials.store import ServerToken

ADDED_MS = 3.0
CLIENTS = 50
CLIENTS_MB = 250.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        print_table("Served over a WebSocket on loopback", measure(Path(name), options))


def measure(folder: Path, options: argparse.Namespace) -> list[Row]:
    project, home = folder / "project", folder / "home"
    project.mkdir()
    home.mkdir()
    script = folder / "script.json"
    words = [{"text": f"word {number} "} for number in range(20)]
    script.write_text(json.dumps({"turns": [words], "repeat": True}), encoding="utf-8")
    environment = {"PATTERN_ACP_SCRIPT": str(script), "PATTERN_ACP_MODEL": "scripted/scripted"}
    token = {"PATTERN_ACP_TOKEN": ServerToken(home).make(0)}
    server = subprocess.Popen(
        [*COMMAND, "serve", "--local", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), **bare_environment(home, environment)},
        cwd=home.anchor,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().decode().partition("Serving at ")[2].partition(". ")[0]
        expect(bool(url), "the server did not start")
        pairs = turns(folder, project, url, environment, token, options.rounds)
        empty = resident_megabytes(server.pid)
        agents: list[AgentProcess] = []
        try:
            for _ in range(options.clients):
                agent = AgentProcess(folder / "many", arguments=("connect", url), environment=token)
                agents.append(agent)
                agent.initialize()
                agent.prompt(agent.new_session(project), "hello")
            full = resident_megabytes(server.pid)
        finally:
            for agent in agents:
                agent.__exit__(None, None, None)
    finally:
        server.kill()
        server.wait(10)
    added = [milliseconds(remote - local) for local, remote in pairs]
    return [
        Row("a turn on stdio", [milliseconds(local) for local, _ in pairs], "ms"),
        Row("the same turn behind connect", [milliseconds(remote) for _, remote in pairs], "ms"),
        Row("added, pair by pair", added, "ms", f"<= {ADDED_MS:.0f}", ADDED_MS),
        Row("server before the clients", [empty], "MB"),
        Row(f"server with {options.clients} clients", [full], "MB", f"<= {CLIENTS_MB:.0f}", CLIENTS_MB),
    ]


def turns(
    folder: Path, project: Path, url: str, environment: dict[str, str], token: dict[str, str], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of a turn on stdio and of one behind `connect`, in turn."""
    found: list[tuple[float, float]] = []
    with (
        AgentProcess(folder / "stdio", environment=environment) as local,
        AgentProcess(folder / "away", arguments=("connect", url), environment=token) as remote,
    ):
        sessions: list[str] = []
        for agent in (local, remote):
            agent.initialize()
            sessions.append(agent.new_session(project))
            agent.prompt(sessions[-1], "hello")
        for _ in range(rounds):
            took: list[float] = []
            for agent, session in zip((local, remote), sessions, strict=True):
                began = time.perf_counter()
                expect(agent.prompt(session, "again") == "end_turn", "a turn did not end well")
                took.append(time.perf_counter() - began)
            found.append((took[0], took[1]))
    return found


if __name__ == "__main__":
    main()
