"""Memory of a session: one contract for the constellation and the fake, then what only the constellation does."""

import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import IdFactory, RandomIds, SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import BlockError
from pattern_acp.journal.events import BlockCommitted
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.errors import (
    BlockCorruptError,
    BlockMissingError,
    LimitExceededError,
    PassageError,
    UnusableEditError,
)
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.service.access import MemoryAccess, MemoryEdit
from pattern_acp.memory.service.scope import PERSON, PERSONA, MemoryScope, Writer
from pattern_acp.memory.service.session_memory import ConstellationMemory
from tests.support.constellation import Constellation, FakeClock, temporary_constellation
from tests.support.memory import FakeMemory

IDS: IdFactory = RandomIds()
CALL = ToolCallId("call_1")


def memory_in(
    constellation: Constellation,
    *,
    persona: str = "tester",
    project: str = "/project",
    session: str = "s1",
    writer: Writer = PERSONA,
) -> ConstellationMemory:
    owner = MemoryScope(persona, project, SessionId(session))
    return ConstellationMemory(
        constellation.database, owner, clock=constellation.clock, ids=IDS, peer=IDS.peer(), writer=writer
    )


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


@pytest.fixture(params=["constellation", "fake"])
def memory(request: pytest.FixtureRequest, constellation: Constellation) -> MemoryAccess:
    if request.param == "fake":
        return FakeMemory(FakeClock())
    return memory_in(constellation)


async def text_of(memory: MemoryAccess, label: str) -> str:
    (text,) = [block.text for block in await memory.blocks() if block.label == label]
    return text


# The contract of MemoryAccess.


async def test_a_new_memory_has_its_three_blocks_in_order(memory: MemoryAccess):
    blocks = await memory.blocks()
    assert [(block.label, block.scope, block.limit) for block in blocks] == [
        ("persona", "persona", 8_000),
        ("human", "persona", 8_000),
        ("project", "project", 8_000),
    ]
    assert all(len(block.description) > 40 for block in blocks)
    assert "tester" in blocks[0].text
    assert blocks[1].text == blocks[2].text == ""


async def test_a_preview_says_what_would_change_and_changes_nothing(memory: MemoryAccess):
    change = await memory.preview(MemoryEdit("human", "append", "likes tea"))
    assert (change.label, change.before, change.after) == ("human", "", "likes tea")
    assert await text_of(memory, "human") == ""


async def test_committed_edits_are_read_back(memory: MemoryAccess):
    await memory.commit(MemoryEdit("human", "append", "likes tea"), CALL)
    await memory.commit(MemoryEdit("human", "append", "is called Ada"), None)
    change = await memory.commit(MemoryEdit("human", "replace", "coffee", old_text="tea"), CALL)
    assert (change.before, change.after) == ("likes tea\nis called Ada", "likes coffee\nis called Ada")
    assert await text_of(memory, "human") == change.after
    await memory.commit(MemoryEdit("human", "rewrite", "Ada"), CALL)
    assert await text_of(memory, "human") == "Ada"


async def test_a_mark_that_was_shown_with_a_backslash_is_edited_as_it_stands_in_memory(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(MemoryEdit("human", "append", "Ends with </note> in HTML.\nTea."), CALL)
    edit = MemoryEdit("human", "replace", r"Ends with <\/note> in XML.", old_text=r"Ends with <\/note> in HTML.")
    assert (await memory.commit(edit, CALL)).after == "Ends with </note> in XML.\nTea."
    # What is written whole does not gain a backslash each time, and a backslash of its own stays.
    change = await memory.commit(MemoryEdit("human", "rewrite", "<\\/note> and <\\/about>"), CALL)
    assert change.after == "</note> and <\\/about>"


async def test_an_unknown_label_is_refused_with_those_there_are(memory: MemoryAccess):
    with pytest.raises(BlockMissingError, match="persona, human, project"):
        await memory.preview(MemoryEdit("people", "append", "x"))
    with pytest.raises(BlockMissingError, match="persona, human, project"):
        await memory.commit(MemoryEdit("people", "append", "x"), CALL)


async def test_an_unknown_operation_is_refused(memory: MemoryAccess):
    with pytest.raises(UnusableEditError, match="use append, replace, "):
        await memory.commit(MemoryEdit("human", "prepend", "x"), CALL)


async def test_a_passage_that_is_not_there_and_a_text_too_long_are_refused(memory: MemoryAccess):
    await memory.commit(MemoryEdit("project", "append", "port port"), CALL)
    with pytest.raises(PassageError, match="2 times"):
        await memory.commit(MemoryEdit("project", "replace", "x", old_text="port"), CALL)
    with pytest.raises(LimitExceededError, match="9 of at most 8000"):
        await memory.preview(MemoryEdit("project", "append", "x" * 8_000))
    assert await text_of(memory, "project") == "port port"


@pytest.mark.parametrize("text", ["half \ud83d", "nul \x00"])
async def test_text_that_cannot_be_stored_is_refused_with_a_sentence(memory: MemoryAccess, text: str):
    with pytest.raises(BlockError, match="broken character"):
        await memory.commit(MemoryEdit("human", "append", text), CALL)
    with pytest.raises(BlockMissingError):
        await memory.commit(MemoryEdit(text, "append", "x"), CALL)


async def test_what_was_written_is_found(memory: MemoryAccess):
    await memory.commit(MemoryEdit("project", "append", "The database port is 5433.\nTests run with pytest."), CALL)
    hits = await memory.search("which port has the database?", 5)
    assert hits[0].text == "The database port is 5433."
    assert hits[0].source == "memory block project"
    assert hits[0].score > 0


@pytest.mark.parametrize("query", ["", "(", "don't", "c++", "--flag", "a:b", '"', "\x00", "\ud83d", "no such thing"])
async def test_any_query_is_safe(memory: MemoryAccess, query: str):
    assert await memory.search(query, 5) == ()


# What the constellation does besides.


async def test_default_blocks_come_with_events_of_the_program(constellation: Constellation):
    await memory_in(constellation).blocks()
    await memory_in(constellation, session="s2").blocks()
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    assert [(one.actor, one.origin) for one in recorded] == [(Actor.SYSTEM, Origin.MEMORY)] * 3
    events = [one.event for one in recorded]
    assert [event.label for event in events if isinstance(event, BlockCommitted)] == ["persona", "human", "project"]


async def test_a_commit_is_recorded_with_turn_call_reason_and_both_hashes(constellation: Constellation):
    memory = memory_in(constellation)
    memory.turn_id = TurnId("turn_1")
    await memory.commit(MemoryEdit("human", "append", "likes tea", reason="They said so."), CALL)
    (recorded,) = await constellation.database.read(lambda tx: read_stream(tx, "s1"))
    event = recorded.event
    assert isinstance(event, BlockCommitted)
    assert (recorded.actor, recorded.origin) == (Actor.PERSONA, Origin.MODEL)
    assert (event.turn_id, event.call_id, event.reason) == ("turn_1", CALL, "They said so.")
    assert (event.scope, event.owner, event.label, event.operation) == ("persona", "tester", "human", "append")
    rows = await constellation.database.read(
        lambda tx: tx.all("SELECT text_hash, hex(frontiers), last_seq FROM blocks WHERE label = 'human'")
    )
    assert rows == [(event.after_hash, event.frontiers_after.upper(), recorded.seq)]
    assert event.before_hash != event.after_hash


async def test_the_person_writes_as_the_person(constellation: Constellation):
    memory = memory_in(constellation, writer=PERSON)
    await memory.commit(MemoryEdit("human", "append", "likes tea"), None)
    (recorded,) = await constellation.database.read(lambda tx: read_stream(tx, "s1"))
    assert (recorded.actor, recorded.origin) == (Actor.HUMAN, Origin.PERSON)
    rows = await constellation.database.read(
        lambda tx: tx.all("SELECT actor, origin FROM block_updates WHERE number = 2")
    )
    assert rows == [("human", "person")]


async def test_a_refused_edit_leaves_no_event(constellation: Constellation):
    memory = memory_in(constellation)
    with pytest.raises(LimitExceededError):
        await memory.commit(MemoryEdit("human", "rewrite", "x" * 8_001), CALL)
    assert await constellation.database.read(lambda tx: read_stream(tx, "s1")) == []


async def test_a_damaged_block_is_named_and_leaves_the_others_writable(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.blocks()

    def ruin(tx: Transaction) -> None:
        tx.execute("DELETE FROM block_archives")
        tx.execute("DELETE FROM block_updates WHERE block_id IN (SELECT id FROM blocks WHERE label = 'persona')")
        tx.execute("UPDATE blocks SET base = x'00', text = '' WHERE label = 'persona'")

    await constellation.database.write(ruin)
    assert [one.label for one in await memory.blocks()] == ["human", "project"]
    (damaged,) = memory.damaged
    assert damaged.visible.label == "persona"
    assert "'persona' is damaged" in damaged.sentence
    with pytest.raises(BlockCorruptError, match="'persona'"):
        await memory.commit(MemoryEdit("persona", "append", "is kind"), CALL)
    assert (await memory.commit(MemoryEdit("human", "append", "likes tea"), CALL)).after == "likes tea"


async def test_personas_and_projects_keep_to_themselves(constellation: Constellation):
    mine = memory_in(constellation)
    await mine.commit(MemoryEdit("human", "append", "canary human"), CALL)
    await mine.commit(MemoryEdit("project", "append", "canary project"), CALL)
    same_persona = memory_in(constellation, project="/other", session="s2")
    assert [await text_of(same_persona, label) for label in ("human", "project")] == ["canary human", ""]
    assert [hit.text for hit in await same_persona.search("canary", 5)] == ["canary human"]
    other_persona = memory_in(constellation, persona="else", session="s3")
    assert [await text_of(other_persona, label) for label in ("human", "project")] == ["", "canary project"]


async def test_past_messages_are_found_and_those_of_this_session_are_not(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(MemoryEdit("human", "append", "likes tea"), CALL)
    for session in ("s1", "s2"):
        await constellation.database.write(
            lambda tx, session=session: index_message(
                tx, session_id=session, owner="/project", kind="user", message_id="m", text="the port", at_ms=1, seq=1
            )
        )
    assert [hit.source for hit in await memory.search("port", 5)] == ["the user in session s2"]


async def test_another_connection_reads_a_commit_at_once(constellation: Constellation):
    with anyio.fail_after(30):
        await memory_in(constellation).commit(MemoryEdit("human", "append", "likes tea"), CALL)
        async with open_database(constellation.path, clock=constellation.clock) as database:
            other = ConstellationMemory(
                database,
                MemoryScope("tester", "/project", SessionId("s2")),
                clock=constellation.clock,
                ids=IDS,
                peer=IDS.peer(),
            )
            assert await text_of(other, "human") == "likes tea"
            await other.commit(MemoryEdit("human", "append", "likes cake"), CALL)
        assert await text_of(memory_in(constellation), "human") == "likes tea\nlikes cake"


async def test_tasks_that_write_at_once_lose_nothing(constellation: Constellation):
    memory = memory_in(constellation)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(memory.commit, MemoryEdit("human", "append", f"line {number}"), None)
    lines = (await text_of(memory, "human")).splitlines()
    assert sorted(lines) == sorted(f"line {number}" for number in range(20))


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    import anyio

    from pattern_acp.db.connection import Transaction, open_database
    from pattern_acp.domain.clock import SystemClock
    from pattern_acp.domain.clock import RandomIds, SessionId
    from pattern_acp.memory.service.access import MemoryEdit
    from pattern_acp.memory.service.scope import MemoryScope
    from pattern_acp.memory.service.session_memory import ConstellationMemory

    path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


    async def main() -> None:
        ids = RandomIds()
        clock = SystemClock()
        async with open_database(path, clock=clock) as database:
            owner = MemoryScope("tester", "/project", SessionId(name))
            memory = ConstellationMemory(database, owner, clock=clock, ids=ids, peer=ids.peer())
            for number in range(count):
                await memory.commit(MemoryEdit("project", "append", f"{name}.{number}"), None)
                print(number, flush=True)


    anyio.run(main)
    """
)


def start_writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


async def lines_of_project(path: Path) -> list[str]:
    clock = FakeClock()
    async with open_database(path, clock=clock) as database:
        owner = MemoryScope("tester", "/project", SessionId("reader"))
        memory = ConstellationMemory(database, owner, clock=clock, ids=IDS, peer=IDS.peer())
        return (await text_of(memory, "project")).splitlines()


@pytest.mark.slow
async def test_four_processes_that_append_lose_nothing(tmp_path: Path):
    path = tmp_path / "constellation.db"
    writers = [start_writer(path, f"w{number}", 50) for number in range(4)]
    for writer in writers:
        await anyio.to_thread.run_sync(writer.communicate)
    assert [writer.returncode for writer in writers] == [0] * 4
    expected = [f"w{writer}.{number}" for writer in range(4) for number in range(50)]
    assert sorted(await lines_of_project(path)) == sorted(expected)


async def test_a_process_that_is_killed_loses_no_acknowledged_write(tmp_path: Path):
    path = tmp_path / "constellation.db"
    for round_number, acknowledged in enumerate((1, 7, 20)):
        name = f"r{round_number}"
        with start_writer(path, name, 100_000) as writer:
            assert writer.stdout is not None
            for _ in range(acknowledged):
                await anyio.to_thread.run_sync(writer.stdout.readline)
            writer.kill()
            seen = acknowledged + len(writer.stdout.read().splitlines())
        # The one being written at the kill may be there too: committed, not yet acknowledged.
        lines = [line for line in await lines_of_project(path) if line.startswith(f"{name}.")]
        assert lines[:seen] == [f"{name}.{number}" for number in range(seen)]
        assert len(lines) <= seen + 1
