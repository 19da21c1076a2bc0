"""No column of memory can be changed, nor rows of another copy be put in, without a check that says so."""

from collections.abc import AsyncGenerator, Iterator
from functools import partial
from pathlib import Path
from typing import LiteralString, cast

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.db.connection import Database, SqlValue, Transaction, change_file, open_database, read_file
from pattern_acp.db.errors import ConstraintError
from pattern_acp.db.table_rows import clear_table, columns_of, put_rows
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, RandomIds, SessionId
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.integrity import damaged_blocks, damaged_snapshots
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.memory.service.scope import PERSON, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.undo import plan_merge, plan_undo
from pattern_acp.recovery.checks import Finding, Health, check_rows
from pattern_acp.tools.registry import parameter_names
from tests.support.constellation import Constellation, FakeClock, temporary_constellation

OWNERS = ((Scope.PERSONA, "tester"), (Scope.PROJECT, "/project"))
SCOPE = HistoryScope(OWNERS, CONSTELLATION_STREAM, Actor.HUMAN, Origin.PERSON, peer=99)
OWNER = MemoryScope("tester", "/project", SessionId("s1"))

TABLES = ("blocks", "block_updates", "block_archives")
ARCHIVE = ("archival_entries", "bound_entries")

NO_PROVENANCE: dict[tuple[str, str], str] = {}
"""Columns that nobody could be deceived with, and why. There are none: each says who, what, when or what it came to."""


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        await fill(opened.database, opened.clock)
        yield opened


async def fill(database: Database, clock: Clock, said: str = "drinks tea") -> None:
    """Blocks that were written, merged with a conflict, undone, set up, deleted, restored, forgotten and discarded."""
    ids = RandomIds()
    memory = ConstellationMemory(database, OWNER, clock=clock, ids=ids, peer=7, writer=PERSON)
    reverts = MemoryReverts(database, SCOPE, clock=clock)
    forgetting = MemoryForgetting(database, SCOPE, clock=clock, parameters=parameter_names)
    for text in (said, "works at night", "code 90317 of the vault"):
        await memory.commit(MemoryEdit("human", "append", text, reason=f"They said: {text}."), None)
    await reverts.change("human", plan_undo)
    await reverts.change("human", partial(plan_undo, number=5))
    for theirs, number in (("likes green tea", 6), ("likes black tea", 6)):
        await reverts.change("human", partial(plan_merge, opened=number, text=f"{theirs}\nworks at night"))
    await memory.commit(MemoryEdit("project", "append", "Build with ninja."), None)
    await memory.commit(MemoryEdit("project", "append", "The vault word is zebrafish."), None)
    await forgetting.forget("project", "the vault word is zebrafish")
    await memory.commit(MemoryEdit("project", "append", "Test with pytest."), None)
    await MemorySetup(database, OWNER, clock=clock).configure("project", "limit", "5000")
    await MemorySetup(database, OWNER, clock=clock).configure("project", "description", "What holds here.")
    await reverts.delete("project", "a test")
    await memory.blocks()
    await reverts.restore("project", "a test")
    trap = MemoryEdit("archive", "append", "", kind="trap", paths=("src/*.py",), severity="high", until="2027-12-31")
    for edit in (
        MemoryEdit("archive", "append", " Deploys freeze.\n", reason="Said so.", check="date"),
        MemoryEdit("archive", "replace", "Deploys freeze in May.", old_text="Deploys freeze.", reason="Newer."),
        MemoryEdit("archive", "verify", "", old_text="Deploys freeze in May."),
        replace(trap, text="The zebrafish pool hangs."),
        replace(trap, text="The pool hangs when closed late."),
        MemoryEdit("archive", "resolve", "", old_text="The pool hangs when closed late.", reason="Mended."),
    ):
        await memory.commit(edit, None)
    await memory.commit(MemoryEdit("persona", "append", "Is brief."), None)
    await reverts.delete("persona")
    await memory.commit(MemoryEdit("persona", "append", "Is briefer."), None)
    await forgetting.forget("persona")
    await memory.blocks()


def found(tx: Transaction) -> bool:
    """Whether `doctor --verify` says that something of memory is wrong."""
    return (
        any(mismatches(tx)) or any(archive_mismatches(tx)) or any(damaged_snapshots(tx)) or any(damaged_blocks(tx)[1:])
    )


def others(value: SqlValue, column: list[SqlValue]) -> Iterator[SqlValue]:
    """Values that somebody may put in the place of one: near it, nothing, and those of other rows."""
    yield from [one for one in dict.fromkeys(column) if one != value][:2]
    match value:
        case int():
            yield from (value + 1, value - 1, 0)
        case str():
            yield from (f"{value}x", value[1:], "")
        case bytes():
            yield from (value[:-1], value[:-1] + bytes([value[-1] ^ 1]) if value else b"x", b"")
        case _:
            yield from (1, 0)


def is_empty(value: SqlValue) -> bool:
    """Whether these are the bytes of a document without any change: all of those are one."""
    if not isinstance(value, bytes):
        return False
    try:
        return BlockDocument.load("empty", [value], peer=1).frontiers == EMPTY_FRONTIERS
    except BlockCorruptError:
        return False


class RolledBackError(Exception):
    """Ends a transaction whose changes are not wanted."""


async def is_found(database: Database, table: str, key: dict[str, SqlValue], name: str, value: SqlValue) -> bool:
    outcome: list[bool] = []

    def change(tx: Transaction) -> None:
        where = " AND ".join(f"{one} = :key_{one}" for one in key)
        asked = {"value": value, **{f"key_{one}": each for one, each in key.items()}}
        tx.execute("DROP TRIGGER archival_entries_are_not_rewritten")
        sql = cast("LiteralString", f"UPDATE {table} SET {name} = :value WHERE {where}")  # noqa: S608  names of columns
        assert tx.execute(sql, asked) == 1
        outcome.append(found(tx))
        raise RolledBackError

    try:
        await database.write(change)
    except RolledBackError:
        return outcome[0]
    except ConstraintError:
        return True  # the file itself refuses it
    raise AssertionError("the transaction is always rolled back")


KEYS = {
    "archival_entries": ("id",),
    "bound_entries": ("entry",),
    "blocks": ("id",),
    "block_updates": ("block_id", "number"),
    "block_archives": ("block_id",),
}


@pytest.mark.slow
@pytest.mark.timeout(
    900
)  # thousands of checks of all memory, which take ten seconds on a machine that does nothing else
@pytest.mark.parametrize("table", [*TABLES, *ARCHIVE])
async def test_no_column_of_any_row_can_be_changed_unseen(constellation: Constellation, table: str):
    database = constellation.database
    assert not await database.read(found)
    unseen: list[object] = []
    names = await database.read(lambda tx: columns_of(tx, table))
    sql = cast("LiteralString", f"SELECT * FROM {table}")  # noqa: S608  names of tables
    rows = await database.read(lambda tx: tx.all(sql))
    for at, name in enumerate(names):
        if (table, name) in NO_PROVENANCE:
            continue
        for row in rows:
            key = {one: row[names.index(one)] for one in KEYS[table]}
            for value in dict.fromkeys(others(row[at], [each[at] for each in rows])):
                is_same = value == row[at] or (is_empty(value) and is_empty(row[at]))
                if not is_same and not await is_found(database, table, key, name, value):
                    unseen.append((table, name, row[at], value, row))
    assert unseen == []


def bad(tx: Transaction) -> list[Finding]:
    """What `doctor --verify` says is wrong with memory."""
    return [one for one in check_rows(tx) if one.name == "Verified memory" and one.health is not Health.OK]


async def verified(database: Database) -> dict[str, tuple[str, ...]]:
    return {one.label: one.problems for one in await MemoryHistory(database, OWNERS).verify()}


async def test_a_forged_author_reason_and_time_are_named_by_both_checks(constellation: Constellation):
    database = constellation.database
    assert not any((await verified(database)).values())

    def forge(tx: Transaction) -> None:
        forged = "SET actor = 'persona', origin = 'model', reason = 'forged', at_ms = 1"
        tx.execute(f"UPDATE block_updates {forged} WHERE number = 3 AND reason LIKE '%night.'")

    await database.write(forge)
    (problem,) = (await verified(database))["human"]
    assert problem.startswith("actor, origin, at_ms, reason of write 3 is not what event")
    (broken,) = await database.read(bad)
    assert (broken.health, broken.detail) == (Health.BROKEN, f"human: {problem}")


async def grow(path: Path, clock: Clock, said: str) -> None:
    async with open_database(path, clock=clock) as database:
        memory = ConstellationMemory(database, OWNER, clock=clock, ids=RandomIds(), peer=8, writer=PERSON)
        await memory.commit(MemoryEdit("human", "append", said), None)


@pytest.mark.parametrize("tables", [TABLES, ("blocks",), ("block_updates", "block_archives")])
def test_rows_of_another_copy_that_agree_with_each_other_are_found(tmp_path: Path, tables: tuple[str, ...]):
    clock, ours, theirs = FakeClock(), tmp_path / "ours.db", tmp_path / "theirs.db"
    anyio.run(grow, ours, clock, "drinks tea")
    theirs.write_bytes(ours.read_bytes())
    anyio.run(grow, ours, clock, "lives in Rome")
    anyio.run(grow, theirs, clock, "lives in Bern")
    kept = {
        table: read_file(theirs, lambda tx, table=table: tx.all(f"SELECT * FROM {table}"))  # noqa: S608
        for table in TABLES
    }

    def swap(tx: Transaction) -> None:
        tx.execute("PRAGMA defer_foreign_keys = ON")
        for table in tables:
            names = columns_of(tx, table)
            clear_table(tx, table)
            put_rows(tx, table, names, kept[table])

    assert read_file(ours, bad) == []
    change_file(ours, swap)
    broken = read_file(ours, bad)[0]
    assert broken.health is Health.BROKEN
    assert "human: " in broken.detail


async def test_a_damaged_base_and_that_of_another_block_are_named(constellation: Constellation):
    database = constellation.database
    for damage in ("x'00'", "(SELECT base FROM blocks WHERE label = 'project' AND deleted = 0)"):
        sql = f"UPDATE blocks SET base = {damage} WHERE label = 'human'"  # noqa: S608
        await database.write(lambda tx, sql=sql: tx.execute(sql))
        (problem,) = (await verified(database))["human"]
        assert problem.startswith("its base ")
        (note,) = await database.read(bad)
        assert note.health is Health.NOTE
        assert "human" in note.detail


async def test_a_write_without_an_event_and_an_event_without_a_write_are_named(constellation: Constellation):
    database = constellation.database

    def drop(tx: Transaction) -> None:
        tx.execute("DELETE FROM block_updates WHERE number = 8")

    await database.write(drop)
    assert any("the write of event" in one for one in (await verified(database))["human"])


async def test_an_archived_fact_that_is_gone_without_a_forgetting_is_named(tmp_path: Path):
    clock = FakeClock()
    async with open_database(tmp_path / "constellation.db", clock=clock) as database:
        memory = ConstellationMemory(database, OWNER, clock=clock, ids=RandomIds(), peer=8, writer=PERSON)
        for fact in ("Deploys freeze in May.", "The staging server is slow."):
            await memory.commit(MemoryEdit("archive", "append", fact), None)
        assert not await database.read(lambda tx: tuple(archive_mismatches(tx)))

        await database.write(lambda tx: tx.execute("DELETE FROM archival_entries WHERE text LIKE 'Deploys%'"))
        (wrong,) = await database.read(lambda tx: tuple(archive_mismatches(tx)))
        assert wrong.problem.endswith("is gone")
        assert wrong.label == "archive"
