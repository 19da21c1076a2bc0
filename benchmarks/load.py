"""session/load of a session of a thousand events, in a process that has been started and in one that has not."""

import argparse
import tempfile
import time
from pathlib import Path

import anyio
from agent_process import AgentProcess
from measuring import Row, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.scripted import ScriptStep

LOAD_SECONDS = 0.3
EVENTS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        print_table("Loading a session", measure(Path(name), options.rounds))


def measure(folder: Path, rounds: int) -> list[Row]:
    home, project = folder / "home", folder / "project"
    project.mkdir()
    session_id, events = record(home, project)
    loads: list[float] = []
    updates = 0
    for _ in range(rounds):
        with AgentProcess(home) as agent:
            agent.initialize()
            agent.request("session/list", {})
            began = time.perf_counter()
            agent.request("session/load", {"sessionId": session_id, "cwd": str(project), "mcpServers": []})
            loads.append(time.perf_counter() - began)
            updates = len(agent.updates)
    limit = milliseconds(LOAD_SECONDS)
    name = f"session/load of {events} events, {updates} updates"
    return [Row(name, [*map(milliseconds, loads)], "ms", f"<= {limit:.0f}", limit)]


def record(home: Path, project: Path) -> tuple[str, int]:
    """A session made by real turns, and how many events it has."""
    path = project / "notes.txt"
    path.write_text("One line of text.\n" * 200, encoding="utf-8")
    turns = [
        [ScriptStep(text="I will read it."), ScriptStep(tool="read_file", arguments=f'{{"path":"{path}"}}')],
        [ScriptStep(text="It holds two hundred lines of text, each the same as the one before it. " * 6)],
    ]
    with (
        WireServer(wire_answers(turns)) as server,
        AgentProcess(
            home, environment=server.environment(), files={str(path): path.read_text(encoding="utf-8")}
        ) as agent,
    ):
        agent.initialize()
        session_id = agent.new_session(project)
        events = 0
        while events < EVENTS:
            agent.prompt(session_id, "Read the notes once more, and tell me what you find in them.")
            events = anyio.run(count_events, home, session_id) if events or len(agent.updates) > 400 else 0
    return session_id, events


async def count_events(home: Path, session_id: str) -> int:
    path = home / "constellations" / "default" / "constellation.db"
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        return len(list(await database.read(lambda tx: read_stream(tx, SessionId(session_id)))))


if __name__ == "__main__":
    main()
