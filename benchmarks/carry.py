"""Time of an export and memory of an import (docs/reference/development/benchmarks.md).

    .venv/bin/python benchmarks/carry.py [EVENTS] [BYTES_OF_AN_EVENT]

Fills a constellation with sessions of 500 events, exports it, and imports it into an empty one in a process of its own,
whose largest resident size is printed.
"""

import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio

from pattern_acp.carry.arrival import Conflicts, accept, proposals
from pattern_acp.carry.car import read_archive
from pattern_acp.carry.export import Choice, export
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, SystemClock, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import MessageRecorded, SessionCreated, TurnEnded, TurnStarted
from pattern_acp.journal.sessions import NewSession, create_session, note_prompt, touch
from pattern_acp.journal.writer import append
from pattern_acp.memory.secrets import SecretMask

AT_MS = 1_800_000_000_000
OF_SESSION = 500
WORDS = [f"word{number:x}" for number in range(4_000)]


def fill(tx: Transaction, number: int, count: int, size: int, chance: random.Random) -> None:
    """Add a session of so many events, three a turn."""
    session = SessionId(f"ses_{number:08x}")
    created = SessionCreated("/work/app", (), "default", "0" * 64, "offline/offline", "ask", thought_level="off")
    seq = append(tx, session, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=AT_MS).seq
    create_session(
        tx, NewSession(session, "/work/app", (), "default", "0" * 64, "offline/offline", "ask"), seq=seq, at_ms=AT_MS
    )
    for turn in range((count - 1) // 3):
        turn_id = TurnId(f"turn_{number}_{turn}")
        # Two of three events have words, so that all have `size` bytes on average.
        said = [" ".join(chance.choices(WORDS, k=max(1, size * 3 // 16))) for _ in range(2)]
        asked = Message(MessageId(f"msg_{number}_{turn}_a"), Role.USER, (TextPart(said[0]),))
        told = Message(MessageId(f"msg_{number}_{turn}_b"), Role.ASSISTANT, (TextPart(said[1]),))
        for event, actor in (
            (TurnStarted(turn_id, asked), Actor.HUMAN),
            (MessageRecorded(turn_id, told), Actor.PERSONA),
            (TurnEnded(turn_id, StopReason.END_TURN), Actor.SYSTEM),
        ):
            seq = append(tx, session, event, actor=actor, origin=Origin.EDITOR, at_ms=AT_MS).seq
            if isinstance(event, TurnStarted):
                note_prompt(tx, session, seq=seq, at_ms=AT_MS)
        touch(tx, session, seq=seq, at_ms=AT_MS)


async def leave(folder: Path, events: int, size: int) -> None:
    """Fill a constellation and export it."""
    chance = random.Random(7)
    async with open_database(folder / "one" / "constellation.db", clock=SystemClock()) as database:
        for number in range(-(-events // OF_SESSION)):
            await database.write(partial(fill, number=number, count=OF_SESSION, size=size, chance=chance))
        (counted,) = await database.read(lambda tx: tx.all("SELECT count(*) FROM events"))
        with (folder / "a.car").open("w+b") as into:
            began, spent = time.perf_counter(), time.process_time()
            report = await database.read(lambda tx: export(tx, into, Choice(), SecretMask(), str))
            took, processor = time.perf_counter() - began, time.process_time() - spent
            written = into.seek(0, 2)
    print(
        f"export of {report.events:,} of {counted[0]:,} events, {written / 1e6:,.0f} MB: {took:.1f} s, "
        f"processor {processor:.1f} s"
    )


def most_resident() -> int:
    """The largest resident size of this process so far, in MB; getrusage counts that of the parent, too."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


async def arrive(folder: Path) -> None:
    """Show and import the archive."""
    clock = SystemClock()
    began, spent = time.perf_counter(), time.process_time()
    async with open_database(folder / "two" / "constellation.db", clock=clock) as database:
        with (folder / "a.car").open("rb") as file:
            archive = read_archive(file)
            found = await database.read(lambda tx: proposals(tx, archive, {}))
            shown = time.perf_counter() - began
            before = most_resident()
            choices: dict[int, Conflicts] = {one.number: "both" for one in found}
            report = await database.write(lambda tx: accept(tx, archive, {}, choices, now_ms=clock.now_ms()))
    took, processor = time.perf_counter() - began, time.process_time() - spent
    print(
        f"import of {report.events:,} events, {len(found)} proposals shown after {shown:.1f} s: {took:.1f} s, "
        f"processor {processor:.1f} s; largest resident size {before} MB when shown, {most_resident()} MB"
    )


def main() -> None:
    """Measure both, each in a process of its own."""
    if sys.argv[1:2] == ["arrive"]:
        anyio.run(arrive, Path(sys.argv[2]))
        return
    events, size = (int(word) for word in (sys.argv[1:] + ["100000", "1000"][len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory(prefix="pattern-acp-carry-") as name:
        anyio.run(leave, Path(name), events, size)
        subprocess.run([sys.executable, __file__, "arrive", name], check=True)


if __name__ == "__main__":
    main()
