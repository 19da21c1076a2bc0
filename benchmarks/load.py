"""session/load of sessions of a thousand and of ten thousand events: the first update and the whole."""

import argparse
import tempfile
import time
from pathlib import Path

import anyio
from agent_process import AgentProcess
from measuring import Row, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, SystemClock, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import StopReason, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import MessageRecorded, ToolCallFinished, ToolCallStarted, TurnEnded, TurnStarted
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.writer import append
from pattern_acp.providers.scripted import ScriptStep

LOAD_SECONDS = 0.3
EVENTS = 1000
LONG_EVENTS = 10_000
FIRST_SECONDS = 0.05
LONG_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        print_table("Loading a session", measure(Path(name), options.rounds))
        print_table("Loading a long session", measure_long(Path(name) / "long", options.rounds))


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


def measure_long(folder: Path, rounds: int) -> list[Row]:
    home, project = folder / "home", folder / "project"
    project.mkdir(parents=True)
    with AgentProcess(home) as agent:
        agent.initialize()
        session_id = agent.new_session(project)
        agent.request("session/close", {"sessionId": session_id})
    anyio.run(lengthen, home, SessionId(session_id))
    firsts: list[float] = []
    wholes: list[float] = []
    for _ in range(rounds):
        with AgentProcess(home) as agent:
            agent.initialize()
            agent.request("session/list", {})
            began = time.perf_counter()
            agent.request("session/load", {"sessionId": session_id, "cwd": str(project), "mcpServers": []})
            wholes.append(time.perf_counter() - began)
            firsts.append(agent.first_update(("user_message_chunk",), began).at - began)
    name = f"session/load of {LONG_EVENTS:,} events"
    first, whole = milliseconds(FIRST_SECONDS), milliseconds(LONG_SECONDS)
    return [
        Row(f"{name}, first update", [*map(milliseconds, firsts)], "ms", f"<= {first:.0f}", first),
        Row(f"{name}, whole", [*map(milliseconds, wholes)], "ms", f"<= {whole:.0f}", whole),
    ]


async def lengthen(home: Path, session_id: SessionId) -> None:
    """Turns of six events, each with a call that gave three kilobytes."""
    output = "A line of output\n" * 200

    def write(tx: Transaction) -> None:
        for number in range(LONG_EVENTS // 6):
            turn, call = TurnId(f"turn_{number}"), ToolCallId(f"call_{number}")
            asked = Message(MessageId(f"u_{number}"), Role.USER, (TextPart("Read it once more."),))
            before = Message(MessageId(f"a_{number}"), Role.ASSISTANT, (TextPart("I will read it."),))
            after = Message(MessageId(f"b_{number}"), Role.ASSISTANT, (TextPart("It holds lines. " * 30),))
            view = ToolCallView(call, "read_file", "Read notes.txt", ToolKind.READ, {"path": "/notes.txt"})
            content = (TextContent(output),)
            for event in (
                TurnStarted(turn, asked),
                MessageRecorded(turn, before),
                ToolCallStarted(turn, view),
                ToolCallFinished(turn, call, ToolCallStatus.COMPLETED, output, content=content),
                MessageRecorded(turn, after),
                TurnEnded(turn, StopReason.END_TURN),
            ):
                append(tx, session_id, event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=number)

    path = home / "constellations" / "default" / "constellation.db"
    async with open_database(path, clock=SystemClock()) as database:
        await database.write(write)


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
