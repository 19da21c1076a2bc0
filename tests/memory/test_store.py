"""Blocks in a real constellation: writes, consolidation, damage."""

import logging
import re
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import LiteralString

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pattern_acp.db
from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.block_loader import load_history
from pattern_acp.memory.blocks import Block, BlockKey, BlockSpec, Scope
from pattern_acp.memory.edits import Append, BlockEdit, Operation, Replace, Rewrite
from pattern_acp.memory.errors import (
    BlockCorruptError,
    BlockMissingError,
    LimitExceededError,
    StaleProposalError,
    UnusableEditError,
)
from pattern_acp.memory.integrity import damaged_blocks, damaged_snapshots
from pattern_acp.memory.store import (
    REBASE_UPDATES,
    ProposedChange,
    WriteRecord,
    changed_block,
    list_blocks,
    load_block,
    missing_blocks,
    propose,
    propose_creation,
    store_change,
)
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.memory import append_memory_event

KEY = BlockKey(Scope.PERSONA, "tester", "human")
SPEC = BlockSpec(KEY, "Who the person is.", "Ada\n", limit=2_000)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def store(tx: Transaction, change: ProposedChange, *, at_ms: int = 1) -> None:
    seq = append_memory_event(tx, change, at_ms=at_ms)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", at_ms))


def create(tx: Transaction, spec: BlockSpec = SPEC) -> None:
    store(tx, propose_creation(spec, BlockId(f"block_{spec.key.owner}_{spec.key.label}"), peer=11))


def edit(tx: Transaction, change: BlockEdit, *, peer: int = 11) -> ProposedChange:
    proposed = propose(tx, KEY, change, peer=peer)
    store(tx, proposed)
    return proposed


def block_row(tx: Transaction) -> tuple[int, int]:
    row = tx.one("SELECT base_update, head_update FROM blocks WHERE label = 'human'")
    assert row is not None
    base, head = row
    assert isinstance(base, int)
    assert isinstance(head, int)
    return base, head


def archived(tx: Transaction) -> int:
    row = tx.one("SELECT upto FROM block_archives")
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


async def test_a_created_block_is_loaded_as_it_was_made(constellation: Constellation):
    await constellation.database.write(create)
    block = await constellation.database.read(lambda tx: load_block(tx, KEY))
    assert block == Block(BlockId("block_tester_human"), KEY, SPEC.description, 2_000, "Ada\n", 1, 1)


async def test_a_block_that_is_not_there_is_an_error_with_its_label(constellation: Constellation):
    with pytest.raises(BlockMissingError, match="'human'"):
        await constellation.database.read(lambda tx: load_block(tx, KEY))


async def test_blocks_are_listed_by_owner_and_others_stay_out(constellation: Constellation):
    def fill(tx: Transaction) -> tuple[Block, ...]:
        for scope, owner, label in (
            (Scope.PROJECT, "/repo", "project"),
            (Scope.PERSONA, "tester", "persona"),
            (Scope.PERSONA, "other", "persona"),
            (Scope.PERSONA, "/repo", "persona"),
        ):
            create(tx, BlockSpec(BlockKey(scope, owner, label), "Something."))
        return list_blocks(tx, [(Scope.PERSONA, "tester"), (Scope.PROJECT, "/repo")])

    blocks = await constellation.database.write(fill)
    assert [block.key.label for block in blocks] == ["persona", "project"]


async def test_only_blocks_that_do_not_exist_are_missing(constellation: Constellation):
    other = BlockSpec(BlockKey(Scope.PERSONA, "tester", "persona"), "Who you are.")
    await constellation.database.write(create)
    assert await constellation.database.read(lambda tx: missing_blocks(tx, [SPEC, other])) == (other,)


async def test_a_label_is_unique_in_its_scope_and_owner(constellation: Constellation):
    await constellation.database.write(create)
    duplicate = propose_creation(SPEC, BlockId("block_2"), peer=1)
    with pytest.raises(ConstraintError):
        await constellation.database.write(lambda tx: store(tx, duplicate))


async def test_every_operation_is_stored_with_who_did_it_and_why(constellation: Constellation):
    def write(tx: Transaction) -> None:
        create(tx)
        edit(tx, Append("likes tea"))
        edit(tx, Replace("tea", "coffee"), peer=12)
        edit(tx, Rewrite("Ada Lovelace"))

    await constellation.database.write(write)
    rows = await constellation.database.read(
        lambda tx: tx.all("SELECT number, operation, peer, actor, origin, reason, last_seq FROM block_updates")
    )
    assert rows == [
        (1, "create", "11", "persona", "model", "a test", 1),
        (2, "append", "11", "persona", "model", "a test", 2),
        (3, "replace", "12", "persona", "model", "a test", 3),
        (4, "rewrite", "11", "persona", "model", "a test", 4),
    ]
    block = await constellation.database.read(lambda tx: load_block(tx, KEY))
    assert (block.text, block.head_update) == ("Ada Lovelace", 4)


async def test_a_change_names_the_text_and_the_version_before_and_after(constellation: Constellation):
    def write(tx: Transaction) -> tuple[ProposedChange, ProposedChange]:
        create(tx)
        return edit(tx, Append("one")), edit(tx, Append("two"))

    first, second = await constellation.database.write(write)
    assert first.after_hash == second.before_hash
    assert first.frontiers_after == second.frontiers_before
    assert (second.block.text, second.text) == ("Ada\none", "Ada\none\ntwo")
    assert changed_block(second, 9).text == second.text


async def test_a_proposal_writes_nothing(constellation: Constellation):
    await constellation.database.write(create)
    await constellation.database.read(lambda tx: propose(tx, KEY, Append("x"), peer=3))
    assert (await constellation.database.read(lambda tx: load_block(tx, KEY))).text == "Ada\n"


async def test_a_write_without_its_event_cannot_commit(constellation: Constellation):
    creation = propose_creation(SPEC, BlockId("block_1"), peer=1)
    record = WriteRecord(999, Actor.PERSONA, Origin.MODEL, "", 1)
    with pytest.raises(ConstraintError):
        await constellation.database.write(lambda tx: store_change(tx, creation, record))
    assert await constellation.database.read(lambda tx: missing_blocks(tx, [SPEC])) == (SPEC,)


async def test_a_proposal_that_was_overtaken_is_refused(constellation: Constellation):
    await constellation.database.write(create)
    stale = await constellation.database.read(lambda tx: propose(tx, KEY, Append("late"), peer=3))
    await constellation.database.write(lambda tx: edit(tx, Append("early")))
    with pytest.raises(StaleProposalError):
        await constellation.database.write(lambda tx: store(tx, stale))


async def test_a_refused_edit_changes_nothing(constellation: Constellation):
    await constellation.database.write(create)
    with pytest.raises(LimitExceededError, match="4 of at most 2000"):
        await constellation.database.write(lambda tx: edit(tx, Append("x" * 2_000)))
    assert (await constellation.database.read(lambda tx: load_block(tx, KEY))).head_update == 1


async def test_a_base_is_made_anew_when_updates_are_many_and_history_stays(constellation: Constellation):
    await constellation.database.write(create)
    for number in range(2 * REBASE_UPDATES + 1):
        await constellation.database.write(lambda tx, number=number: edit(tx, Append(f"line {number}")))
    base, head = await constellation.database.read(block_row)
    assert (base, head) == (2 * REBASE_UPDATES + 2, 2 * REBASE_UPDATES + 2)
    assert await constellation.database.read(archived) == 2 * REBASE_UPDATES + 1

    def first_version(tx: Transaction) -> str:
        row = tx.one("SELECT frontiers_after FROM block_updates WHERE number = 1")
        assert row is not None
        assert isinstance(row[0], bytes)
        return load_history(tx, load_block(tx, KEY)).text_at(row[0])

    assert await constellation.database.read(first_version) == "Ada\n"


async def test_a_base_is_made_anew_when_updates_are_large(constellation: Constellation):
    spec = BlockSpec(KEY, "Long.", "", limit=32_000)
    await constellation.database.write(lambda tx: create(tx, spec))
    noise = "".join(chr(0x4E00 + number % 20_000) for number in range(20_000))
    await constellation.database.write(lambda tx: edit(tx, Rewrite(noise)))
    assert await constellation.database.read(block_row) == (2, 2)


async def test_a_wrong_text_is_read_from_the_document_and_mended_by_the_next_write(
    constellation: Constellation, caplog: pytest.LogCaptureFixture
):
    await constellation.database.write(create)
    await constellation.database.write(lambda tx: tx.execute("UPDATE blocks SET text = 'Eve'"))
    with caplog.at_level(logging.WARNING):
        assert (await constellation.database.read(lambda tx: load_block(tx, KEY))).text == "Ada\n"
    assert "damaged" in caplog.text
    await constellation.database.write(lambda tx: edit(tx, Append("tea")))
    rows = await constellation.database.read(lambda tx: tx.all("SELECT text FROM blocks"))
    assert rows == [("Ada\ntea",)]


@pytest.mark.parametrize(
    "damage",
    [
        ["UPDATE blocks SET base = x'00'"],
        ["UPDATE block_updates SET data = x'00' WHERE number > 1"],
        ["DELETE FROM block_updates WHERE number = 3"],
        ["UPDATE blocks SET frontiers = x'00'"],
        ["UPDATE blocks SET base = x'00'", "DELETE FROM block_archives"],
        ["UPDATE block_archives SET snapshot = x'00'"],
        ["UPDATE blocks SET head_update = 1"],
        ["UPDATE blocks SET head_update = 0", "DELETE FROM block_archives"],
        ["UPDATE blocks SET head_update = 9"],
        ["UPDATE blocks SET head_update = 2", "UPDATE blocks SET base = x'00'"],
    ],
)
async def test_one_damaged_part_costs_nothing(constellation: Constellation, damage: list[LiteralString]):
    def write(tx: Transaction) -> None:
        create(tx)
        edit(tx, Append("one"))
        edit(tx, Append("two"))
        # Both sources hold everything, so that each damage leaves one whole.
        full = load_history(tx, load_block(tx, KEY)).full_snapshot()
        tx.execute("UPDATE block_archives SET snapshot = ?, upto = 3", (full,))

    await constellation.database.write(write)
    for statement in damage:
        await constellation.database.write(partial(Transaction.execute, sql=statement))
    await constellation.database.write(lambda tx: edit(tx, Append("three")))
    assert (await constellation.database.read(lambda tx: load_block(tx, KEY))).text == "Ada\none\ntwo\nthree"


async def test_a_block_beyond_repair_is_an_error_and_never_empty(constellation: Constellation):
    def ruin(tx: Transaction) -> None:
        create(tx)
        tx.execute("UPDATE blocks SET base = x'00', text = ''")
        tx.execute("UPDATE block_archives SET snapshot = x'00'")
        tx.execute("UPDATE block_updates SET data = x'00'")

    await constellation.database.write(ruin)
    with pytest.raises(BlockCorruptError, match="'human'"):
        await constellation.database.read(lambda tx: load_block(tx, KEY))
    with pytest.raises(BlockCorruptError, match="'human'"):
        await constellation.database.read(lambda tx: propose(tx, KEY, Append("x"), peer=1))


@pytest.mark.parametrize("column", ["tier", "permission"])
async def test_a_word_that_there_is_not_in_a_row_is_one_sentence(constellation: Constellation, column: str):
    def ruin(tx: Transaction) -> None:
        create(tx)
        tx.execute("UPDATE blocks SET tier = 'x'" if column == "tier" else "UPDATE blocks SET permission = 'x'")

    await constellation.database.write(ruin)
    with pytest.raises(BlockCorruptError, match=f"'human' is damaged \\(its {column} is 'x'\\)"):
        await constellation.database.read(lambda tx: load_block(tx, KEY))
    count, mendable, lost = await constellation.database.read(damaged_blocks)
    assert (count, mendable) == (1, ())
    assert len(lost) == 1
    assert "'human'" in lost[0]
    snapshots = await constellation.database.read(lambda tx: list(damaged_snapshots(tx)))
    assert snapshots == []


async def test_a_damaged_history_does_not_stop_writing(constellation: Constellation, caplog: pytest.LogCaptureFixture):
    def write_on_damaged_history(tx: Transaction) -> str:
        create(tx)
        for number in range(REBASE_UPDATES):
            edit(tx, Append(f"line {number}"))
        tx.execute("UPDATE block_archives SET snapshot = x'00'")
        tx.execute("UPDATE block_updates SET data = x'00' WHERE number = 5")
        for number in range(REBASE_UPDATES):
            edit(tx, Append(f"more {number}"))
        return load_block(tx, KEY).text

    with caplog.at_level(logging.WARNING):
        text = await constellation.database.write(write_on_damaged_history)
    assert text.endswith(f"line {REBASE_UPDATES - 1}\n" + "\n".join(f"more {n}" for n in range(REBASE_UPDATES)))
    assert "history of memory block block_tester_human is damaged" in caplog.text
    assert await constellation.database.read(block_row) == (2 * REBASE_UPDATES + 1, 2 * REBASE_UPDATES + 1)


async def test_a_large_base_is_made_anew_only_when_updates_behind_it_are_many(constellation: Constellation):
    # Characters that hardly repeat, so that the stored text stays large.
    large = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(20_000))
    await constellation.database.write(lambda tx: create(tx, BlockSpec(KEY, "Much.", large, limit=32_000)))
    bases: list[int] = []
    for number in range(REBASE_UPDATES + 2):
        await constellation.database.write(lambda tx, number=number: edit(tx, Append(f"line {number}")))
        bases.append((await constellation.database.read(block_row))[0])
    assert bases == [1] * (REBASE_UPDATES - 1) + [REBASE_UPDATES + 1] * 3
    assert await constellation.database.read(archived) == REBASE_UPDATES + 1
    block = await constellation.database.read(lambda tx: load_block(tx, KEY))
    assert block.text.endswith(f"line {REBASE_UPDATES + 1}")


LINES = st.lists(st.sampled_from(["alpha", "beta", "ζ", "", "👩‍🚀"]), max_size=6).map("\n".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(LINES.map(Append) | LINES.map(Rewrite), st.integers(2, 4)), max_size=40))
def test_random_writes_of_several_processes_equal_a_plain_string(edits: list[tuple[Append | Rewrite, int]]):
    async def run() -> None:
        with anyio.fail_after(20):
            async with temporary_constellation() as constellation:
                text = await constellation.database.write(write_all)
                block = await constellation.database.read(lambda tx: load_block(tx, KEY))
                assert block.text == text
                assert await constellation.database.read(lambda tx: load_history(tx, block).text) == text

    def write_all(tx: Transaction) -> str:
        create(tx)
        text = SPEC.text
        for change, peer in edits:
            if isinstance(change, Rewrite):
                expected = change.text
            else:
                expected = text + ("" if not text or text.endswith("\n") else "\n") + change.text
            try:
                edit(tx, change, peer=peer)
            except (LimitExceededError, UnusableEditError):
                continue
            text = expected
        return text

    anyio.run(run)


def test_operations_have_the_names_that_the_schema_lists():
    schema = (Path(pattern_acp.db.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    listed = schema.partition("operation TEXT NOT NULL,")[2].partition("reason TEXT")[0]
    assert [operation.value for operation in Operation] == re.findall(r"[a-z]+", listed)
