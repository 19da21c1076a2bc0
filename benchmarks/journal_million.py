"""A constellation of a million events: what an append, a start and a list cost, next to an empty one.

    python benchmarks/journal_million.py --events 1000000

The events are those of ordinary turns, in sessions of 20 turns. They are made here in bulk, several thousand in a
transaction, which the program never does. Issue 5, section 6: an append takes at most twice as long as in an empty
constellation (95 of 100), a start 0.3 s, a list of sessions 50 ms.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from agent_process import AgentProcess
from measuring import Row, milliseconds, percentile, print_table

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, SystemClock, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.domain.tool_calls import StopReason, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    Event,
    MessageRecorded,
    ModelRequested,
    SessionCreated,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.sessions import NewSession, create_session, note_prompt, set_title
from pattern_acp.journal.writer import append

TURNS_OF_SESSION = 20
TURNS_AT_ONCE = 400
START_SECONDS = 0.3
LIST_SECONDS = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "project").mkdir()
        rows: list[Row] = []
        appends: list[tuple[float, float]] = []
        for home, events in ((folder / "empty", 0), (folder / "full", options.events)):
            taken, processor = anyio.run(prepare, home, folder / "project", events, options.rounds)
            appends.append((percentile(taken, 0.95), percentile(processor, 0.95)))
            rows.append(Row(f"append an event, {events:,} events before", taken, "ms"))
            rows.append(Row("processor time of an append", processor, "ms"))
            rows += processes(home, folder / "project", events)
        print_table("A large constellation", rows)
        for place, kind in enumerate(("by the clock", "of the processor")):
            empty, full = appends[0][place], appends[1][place]
            verdict = "met" if full <= 2 * empty else "missed"
            print(
                f"95th percentile of an append {kind}: {empty:.2f} ms when empty, {full:.2f} ms when full ({verdict})"
            )


async def prepare(home: Path, project: Path, events: int, rounds: int) -> tuple[list[float], list[float]]:
    """Make the constellation, and time single appends in it."""
    path = home / "constellations" / "default" / "constellation.db"
    async with open_database(path, clock=SystemClock()) as database:
        began = time.perf_counter()
        turns = await fill(database, project, events)
        await database.checkpoint()
        if turns:
            size = path.stat().st_size
            print(
                f"{events:,} events in {time.perf_counter() - began:.0f} s, {size / 2**20:,.0f} MB: "
                f"{size / turns / 1024:.1f} KB a turn of {events // turns} events"
            )
        return await timed_appends(database, rounds)


async def fill(database: Database, project: Path, events: int) -> int:
    """Add turns until there are so many events, and say how many turns that were."""
    written = turns = 0
    while written < events:

        def write(tx: Transaction, first: int = turns) -> int:
            return sum(add_turn(tx, project, number) for number in range(first, first + TURNS_AT_ONCE))

        written += await database.write(write)
        turns += TURNS_AT_ONCE
    return turns


def add_turn(tx: Transaction, project: Path, number: int) -> int:
    """One turn, which begins a session when it is the first of one; how many events that were."""
    session, at_ms = SessionId(f"ses_{number // TURNS_OF_SESSION:06d}"), 1_800_000_000_000 + number * 1000
    written = 0
    if number % TURNS_OF_SESSION == 0:
        made = SessionCreated(str(project), (), "default", "id", "scripted/scripted", "ask")
        new = NewSession(session, str(project), (), "default", "id", "scripted/scripted", "ask")
        seq = append(tx, session, made, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=at_ms).seq
        create_session(tx, new, seq=seq, at_ms=at_ms)
        set_title(tx, session, f"Question {number}", seq=seq, at_ms=at_ms)
        written += 1
    seq = 0
    for event in turn_events(number):
        seq = append(tx, session, event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=at_ms).seq
        written += 1
    note_prompt(tx, session, seq=seq, at_ms=at_ms)
    return written


def turn_events(number: int) -> Iterator[Event]:
    """What a turn with one call leaves."""
    turn, call_id = TurnId(f"turn_{number}"), ToolCallId(f"call_{number}")
    text = f"Please look at file {number} and say what is in it. " * 3
    yield TurnStarted(turn, Message(MessageId(f"u{number}"), Role.USER, (TextPart(text),)))
    yield ModelRequested(turn, 1, "scripted", "scripted", "0" * 64, number % 100, 20_000)
    asks = Message(
        MessageId(f"a{number}"),
        Role.ASSISTANT,
        (TextPart("I will read it."), ToolCallPart(call_id, "read_file", '{"path": "/project/notes.txt"}')),
    )
    yield MessageRecorded(turn, asks)
    view = ToolCallView(call_id, "read_file", "Read notes.txt", ToolKind.READ, {"path": "/project/notes.txt"})
    yield ToolCallStarted(turn, view)
    yield ToolCallFinished(turn, call_id, ToolCallStatus.COMPLETED, f"Line {number} of the file.\n" * 40)
    yield ModelRequested(turn, 2, "scripted", "scripted", "0" * 64, number % 100, 21_000)
    answer = Message(MessageId(f"b{number}"), Role.ASSISTANT, (TextPart("It holds forty lines. " * 20),))
    yield MessageRecorded(turn, answer)
    yield TurnEnded(turn, StopReason.END_TURN)


async def timed_appends(database: Database, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each append by the clock, and of the processor."""
    taken: list[float] = []
    processor: list[float] = []
    for number in range(rounds):
        event = next(turn_events(10_000_000 + number))

        def write(tx: Transaction, event: Event = event) -> None:
            append(tx, "ses_bench", event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=1)

        began, worked = time.perf_counter(), time.process_time()
        await database.write(write)
        taken.append(milliseconds(time.perf_counter() - began))
        processor.append(milliseconds(time.process_time() - worked))
    return taken, processor


def processes(home: Path, project: Path, events: int) -> list[Row]:
    """What a fresh process takes."""
    starts: list[float] = []
    lists: list[float] = []
    folders: list[float] = []
    ends: list[float] = []
    work: list[float] = []
    for _ in range(7):
        with AgentProcess(home, arguments=("--model", "offline/shell")) as agent:
            agent.initialize()
            agent.new_session(project)
            starts.append(milliseconds(agent.since_spawn))
            work.append(milliseconds(agent.cpu))
            for taken, params in ((lists, {}), (folders, {"cwd": str(project)})):
                began = time.perf_counter()
                agent.request("session/list", {**params})
                taken.append(milliseconds(time.perf_counter() - began))
            began = time.perf_counter()
        ends.append(milliseconds(time.perf_counter() - began))
    start, listed = milliseconds(START_SECONDS), milliseconds(LIST_SECONDS)
    return [
        Row(f"spawn to session/new, {events:,} events", starts, "ms", f"<= {start:.0f}", start),
        Row("processor time of that", work, "ms"),
        Row("session/list", lists, "ms", f"<= {listed:.0f}", listed),
        Row("session/list of one folder", folders, "ms", f"<= {listed:.0f}", listed),
        Row("end of the process", ends, "ms"),
    ]


if __name__ == "__main__":
    main()
