"""What turns recalled and were told of, in the journal: counted anew when the index is made again, and forgotten."""

from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import Database, Transaction, open_database, read_file
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId, TurnId
from pattern_acp.journal.events import MemoryRecalled, SessionCreated
from pattern_acp.journal.reader import read_everywhere, verify_stream
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append
from pattern_acp.memory.indexing import least_needed, name_of, times_recalled
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.write_validation import Pair, store_repeats, untold_repeats
from pattern_acp.recovery.rebuild import rebuild_into
from pattern_acp.recovery.segment_export import TABLES, SegmentExporter
from pattern_acp.tools.registry import parameter_names
from tests.support.constellation import FakeClock

CLOCK = FakeClock()
IDS = RandomIds()
OWNER = MemoryScope("tester", "/project", SessionId("s1"))
TEA, ZEPPELIN, PORT = "Likes green tea.", "Owns a zeppelin in Delft.", "The database port is 5433."


def memory_in(database: Database) -> ConstellationMemory:
    return ConstellationMemory(database, OWNER, clock=CLOCK, ids=IDS, peer=IDS.peer(), writer=PERSON)


async def entry_of(memory: ConstellationMemory, query: str) -> int:
    (hit,) = await memory.search(query, 1)
    return hit.entry


async def recall(database: Database, memory: ConstellationMemory, *queries: str) -> None:
    memory.turn_id = TurnId("turn_1")
    memory.recalled([await entry_of(memory, query) for query in queries])
    await database.write(lambda tx: memory.store_recalls(tx, at_ms=CLOCK.now_ms()))


async def block_id(memory: ConstellationMemory) -> str:
    return next(block.block_id for block in await memory.blocks() if block.label == "human")


def counted(tx: Transaction, block: str) -> dict[str, int]:
    return {one.text: one.times for one in least_needed(tx, block, 9)}


def recorded(tx: Transaction) -> list[MemoryRecalled]:
    return [e.event for e in read_everywhere(tx, MemoryRecalled) if isinstance(e.event, MemoryRecalled)]


def begin(tx: Transaction) -> None:
    event = SessionCreated("/project", (), "tester", "identity", "offline/offline", "ask")
    seq = append(tx, "s1", event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=CLOCK.now_ms()).seq
    new = NewSession(SessionId("s1"), "/project", (), "tester", "identity", "offline/offline", "ask")
    create_session(tx, new, seq=seq, at_ms=CLOCK.now_ms())


async def fill(path: Path) -> tuple[str, str]:
    """A block of which passages were recalled and two told as repeats; its id, and that of an archival entry."""
    async with open_database(path, clock=CLOCK) as database:
        await database.write(begin)
        memory = memory_in(database)
        await memory.commit(MemoryEdit("human", "append", f"{TEA}\n{ZEPPELIN}"), None)
        await memory.commit(MemoryEdit("archive", "append", PORT), None)
        await recall(database, memory, "tea", "tea", "port")
        await recall(database, memory, "tea", "zeppelin")
        pair = Pair(await entry_of(memory, "tea"), await entry_of(memory, "zeppelin"), 0.97)
        await database.write(lambda tx: store_repeats(tx, [pair]))
        memory.repeats.telling(await database.read(memory.repeats.untold))
        await database.write(lambda tx: memory.store_recalls(tx, at_ms=CLOCK.now_ms()))
        (hit,) = await memory.search("port", 1)
        return await block_id(memory), hit.source.rpartition(" ")[2]


def test_counts_and_what_was_told_survive_a_rebuild(tmp_path: Path):
    path, fresh = tmp_path / "home" / "c.db", tmp_path / "fresh.db"
    block, entry = anyio.run(fill, path)
    SegmentExporter(path, TABLES).export()
    report = rebuild_into(path, fresh, number=0, now_ms=CLOCK.now_ms())
    assert report.problems == ()

    def look(tx: Transaction) -> tuple[object, ...]:
        pairs = tx.all("SELECT CAST(likeness AS TEXT), told FROM repeats")
        rows = tx.all("SELECT times, last_ms, last_seq FROM recalls ORDER BY times, last_seq")
        return counted(tx, block), times_recalled(tx, [entry]), pairs, rows, untold_repeats(tx, ["tester"])

    assert read_file(fresh, look) == read_file(path, look)
    assert read_file(fresh, lambda tx: counted(tx, block)) == {TEA: 3, ZEPPELIN: 1}
    assert read_file(fresh, lambda tx: times_recalled(tx, [entry])) == {entry: 1}
    assert read_file(fresh, lambda tx: untold_repeats(tx, ["tester"])) == ()


async def test_a_turn_that_recalls_facts_has_one_event_without_their_words(tmp_path: Path):
    async with open_database(tmp_path / "c.db", clock=CLOCK) as database:
        memory = memory_in(database)
        await memory.commit(MemoryEdit("human", "append", TEA), None)
        await recall(database, memory)
        assert await database.read(recorded) == []
        await recall(database, memory, "tea", "tea")
        (event,) = await database.read(recorded)
        (one,) = event.recalled
        assert (event.turn_id, event.told, one.times) == ("turn_1", (), 2)
        assert (one.passage.source_id, one.passage.digest) == name_of(await block_id(memory), TEA)
        memory.recalled([424_242])
        await database.write(lambda tx: memory.store_recalls(tx, at_ms=CLOCK.now_ms()))
        assert len(await database.read(recorded)) == 1


@pytest.mark.parametrize(
    ("label", "passage", "left"),
    [
        ("human", "zeppelin", {TEA, PORT}),
        ("human", None, {PORT}),
        ("archive", "The database port", {TEA, ZEPPELIN}),
        ("project", "nowhere", {TEA, ZEPPELIN, PORT}),
    ],
)
async def test_forgetting_takes_the_hashes_of_passages_too(
    tmp_path: Path, label: str, passage: str | None, left: set[str]
):
    path = tmp_path / "c.db"
    block, entry = await fill(path)
    async with open_database(path, clock=CLOCK) as database:
        memory = memory_in(database)
        await memory.commit(MemoryEdit("project", "append", "It is nowhere."), None)
        scope = HistoryScope(OWNER.owners, "s1", Actor.HUMAN, Origin.PERSON, IDS.peer())
        await MemoryForgetting(database, scope, clock=CLOCK, parameters=parameter_names).forget(label, passage)
        known = {name_of(entry if text == PORT else block, text) for text in left}
        found = {
            (passage.source_id, passage.digest)
            for event in await database.read(recorded)
            for passage in (
                *(one.passage for one in event.recalled),
                *(passage for told in event.told for passage in (told.one, told.other)),
            )
        }
        assert found == known
        assert (await database.read(lambda tx: verify_stream(tx, "s1"))).ok
