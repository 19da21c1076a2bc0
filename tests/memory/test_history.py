"""Logs, versions, comparisons, blame and changes that come from history, in a real constellation."""

import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import LiteralString

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import BlockCommitted, BlockDeleted, BlockHealed, BlockRestored
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Block, BlockKey, BlockSpec, Permission, Scope
from pattern_acp.memory.diffs import merge_texts
from pattern_acp.memory.edits import Append, BlockEdit, Operation, Replace, Rewrite
from pattern_acp.memory.errors import (
    BlockCorruptError,
    BlockMissingError,
    LabelTakenError,
    PermissionDeniedError,
    UndoConflictError,
    UnusableEditError,
    VersionError,
)
from pattern_acp.memory.history import (
    WORKER_WRITES,
    StoredHistory,
    list_writes,
    read_history,
    run_on_history,
    text_of_version,
)
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.store import load_block
from pattern_acp.memory.undo import plan_merge, plan_redo, plan_rollback, plan_undo
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.history import record_creation, record_edit

KEY = BlockKey(Scope.PERSONA, "tester", "notes")
OWNERS = ((Scope.PERSONA, "tester"), (Scope.PROJECT, "/project"))
PERSON = HistoryScope(OWNERS, CONSTELLATION_STREAM, Actor.HUMAN, Origin.PERSON, peer=99)
AGENT = HistoryScope(OWNERS, CONSTELLATION_STREAM, Actor.PERSONA, Origin.MODEL, peer=98)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        await opened.database.write(create)
        yield opened


def create(tx: Transaction, text: str = "one", permission: Permission = Permission.READ_WRITE) -> None:
    record_creation(tx, BlockSpec(KEY, "For tests.", text, permission=permission), "block_1")


async def write(constellation: Constellation, *edits: BlockEdit) -> None:
    for change in edits:
        await constellation.database.write(partial(record_edit, key=KEY, edit=change))


def history(constellation: Constellation) -> MemoryHistory:
    return MemoryHistory(constellation.database, OWNERS)


def reverts(constellation: Constellation, scope: HistoryScope = PERSON) -> MemoryReverts:
    return MemoryReverts(constellation.database, scope, clock=constellation.clock)


async def text_of(constellation: Constellation) -> str:
    return (await constellation.database.read(lambda tx: load_block(tx, KEY))).text


async def test_the_log_tells_each_write_with_what_it_did(constellation: Constellation):
    await constellation.database.write(
        lambda tx: record_edit(tx, KEY, Append("two\nthree"), at_ms=5, reason="They said so.")
    )
    await write(constellation, Replace("two", "2"))
    newest, second, first = await history(constellation).log("notes")
    assert (first.number, first.operation, first.size, first.lines_added) == (1, "create", 3, 1)
    assert (second.number, second.at_ms, second.reason) == (2, 5, "They said so.")
    assert (second.actor, second.origin, second.stream) == (Actor.PERSONA, Origin.MODEL, CONSTELLATION_STREAM)
    assert (second.lines_added, second.lines_removed) == (2, 0)
    assert (newest.operation, newest.size, newest.lines_added, newest.lines_removed) == ("replace", 11, 1, 1)


async def test_a_write_names_the_event_that_recorded_it(constellation: Constellation):
    await write(constellation, Append("two"))
    (newest, _) = await history(constellation).log("notes")
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    (event,) = [one.event for one in recorded if one.seq == newest.seq]
    assert isinstance(event, BlockCommitted)
    assert event.operation == "append"


async def test_the_log_is_read_page_by_page(constellation: Constellation):
    await write(constellation, *(Append(f"line {number}") for number in range(5)))
    memory = history(constellation)
    assert [one.number for one in await memory.log("notes", limit=2)] == [6, 5]
    assert [one.number for one in await memory.log("notes", before=5, limit=2)] == [4, 3]


async def test_any_version_can_be_seen(constellation: Constellation):
    await write(constellation, Append("two"), Rewrite("all new"))
    memory = history(constellation)
    assert [(await memory.show("notes", number)).text for number in (1, 2, 3)] == ["one", "one\ntwo", "all new"]
    assert (await memory.show("notes")).write.number == 3


async def test_versions_of_before_many_rebases_can_be_seen(constellation: Constellation):
    await write(constellation, *(Append(f"line {number}") for number in range(80)))
    shown = await history(constellation).show("notes", 41)
    assert shown.text.endswith("line 39")


@pytest.mark.parametrize("number", [0, 3, 99])
async def test_a_version_that_is_not_there_is_an_error(constellation: Constellation, number: int):
    await write(constellation, Append("two"))
    with pytest.raises(VersionError, match="versions are 1 to 2"):
        await history(constellation).show("notes", number)


async def test_two_versions_are_compared(constellation: Constellation):
    await write(constellation, Append("two"), Append("three"))
    versions = await history(constellation).compare("notes", 1, 2)
    assert (versions.before, versions.after) == ("one", "one\ntwo")
    assert (await history(constellation).compare("notes", 2)).new == 3


async def test_blame_gives_the_writes_of_lines_and_of_characters(constellation: Constellation):
    await write(constellation, Append("two"))
    blamed = await history(constellation).blame("notes")
    assert [(line.text, blamed.writes[line.number].operation) for line in blamed.lines] == [
        ("one", "create"),
        ("two", "append"),
    ]
    spans = await history(constellation).blame_range("notes", 2, 5)
    assert [(span.text, span.write.number) for span in spans] == [("e", 1), ("\nt", 2)]


async def test_an_undo_is_a_journaled_write_with_actor_and_reason(constellation: Constellation):
    await write(constellation, Append("two"), Append("three"))
    change = await reverts(constellation).change("notes", partial(plan_undo, number=2), "It was wrong.")
    assert (change.before, change.after) == ("one\ntwo\nthree", "one\nthree")
    assert (change.operation, change.number, change.target) == (Operation.UNDO, 4, 2)
    (newest, *_) = await history(constellation).log("notes")
    assert (newest.actor, newest.origin, newest.reason, newest.target) == (
        Actor.HUMAN,
        Origin.PERSON,
        "It was wrong.",
        2,
    )
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    event = recorded[-1].event
    assert isinstance(event, BlockCommitted)
    assert (event.operation, event.target, event.reason) == ("undo", 2, "It was wrong.")


async def test_undo_works_across_a_rebase_and_after_opening_again(constellation: Constellation):
    await write(constellation, *(Append(f"line {number}") for number in range(70)))
    await reverts(constellation).change("notes", partial(plan_undo, number=3))
    text = await text_of(constellation)
    assert "line 1\n" not in text
    assert text.startswith("one\nline 0\nline 2\n")
    await reverts(constellation).change("notes", plan_redo)
    assert "line 1\n" in await text_of(constellation)


async def test_a_preview_shows_the_change_and_writes_nothing(constellation: Constellation):
    await write(constellation, Append("two"))
    change = await reverts(constellation).change("notes", plan_undo, store=False)
    assert change.after == "one"
    assert await text_of(constellation) == "one\ntwo"


async def test_a_conflict_leaves_everything_as_it_was(constellation: Constellation):
    await write(constellation, Append("two"), Replace("two", "2"))
    before = await history(constellation).log("notes")
    with pytest.raises(UndoConflictError):
        await reverts(constellation).change("notes", partial(plan_undo, number=2))
    assert await history(constellation).log("notes") == before


async def test_a_rollback_is_a_new_change_that_can_be_undone(constellation: Constellation):
    await write(constellation, Append("two"))
    await reverts(constellation).change("notes", partial(plan_rollback, number=1))
    assert await text_of(constellation) == "one"
    await reverts(constellation).change("notes", plan_undo)
    assert await text_of(constellation) == "one\ntwo"


async def test_an_edit_of_an_older_version_is_merged(constellation: Constellation):
    await write(constellation, Append("two"))
    await write(constellation, Append("meanwhile"))
    change = await reverts(constellation).change("notes", partial(plan_merge, opened=2, text="one\n2"))
    assert change.after == "one\n2\nmeanwhile"
    assert change.operation is Operation.EDIT


async def test_two_undos_at_once_both_happen(constellation: Constellation):
    await write(constellation, Append("two"), Append("three"), Append("four"))
    async with anyio.create_task_group() as tasks:
        for number in (2, 3):
            tasks.start_soon(partial(reverts(constellation).change, "notes", partial(plan_undo, number=number)))
    assert await text_of(constellation) == "one\nfour"


async def test_the_agent_may_not_undo_in_a_block_that_only_the_person_writes():
    async with temporary_constellation() as constellation:
        await constellation.database.write(partial(create, permission=Permission.READ_ONLY))
        await reverts(constellation).change("notes", partial(plan_merge, opened=1, text="two"))
        with pytest.raises(PermissionDeniedError, match="read_only"):
            await reverts(constellation, AGENT).change("notes", plan_undo)


async def test_a_deleted_block_is_gone_from_lists_and_search_and_comes_back_whole(constellation: Constellation):
    await write(constellation, Append("two"))
    await reverts(constellation).delete("notes", "Not needed.")
    assert await history(constellation).blocks() == ()
    assert [block.key.label for block in await history(constellation).deleted()] == ["notes"]
    entries = await constellation.database.read(lambda tx: tx.all("SELECT * FROM search_entries"))
    assert entries == []
    await reverts(constellation).restore("notes")
    assert await text_of(constellation) == "one\ntwo"
    assert [one.operation for one in await history(constellation).log("notes")] == [
        "restore",
        "delete",
        "append",
        "create",
    ]
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    assert [type(one.event) for one in recorded[-2:]] == [BlockDeleted, BlockRestored]
    assert (await constellation.database.read(lambda tx: verify_stream(tx, CONSTELLATION_STREAM))).ok


async def test_a_restored_block_can_be_written_blamed_and_undone(constellation: Constellation):
    await write(constellation, Append("two"))
    await reverts(constellation).delete("notes")
    await reverts(constellation).restore("notes")
    await write(constellation, *(Append(f"line {number}") for number in range(40)))
    assert (await history(constellation).show("notes", 3)).text == "one\ntwo"
    await reverts(constellation).change("notes", partial(plan_undo, number=2))
    assert (await text_of(constellation)).startswith("one\nline 0")
    blamed = await history(constellation).blame("notes")
    assert [line.number for line in blamed.lines[:2]] == [1, 5]


async def test_a_label_can_be_made_again_and_then_the_older_block_waits(constellation: Constellation):
    await reverts(constellation).delete("notes")
    spec = BlockSpec(KEY, "Again.", "anew")
    await constellation.database.write(lambda tx: record_creation(tx, spec, "block_2"))
    with pytest.raises(LabelTakenError, match="delete that one"):
        await reverts(constellation).restore("notes")
    await reverts(constellation).delete("notes")
    await reverts(constellation).restore("notes")
    assert await text_of(constellation) == "anew"


@pytest.mark.parametrize("head", [0, 1, 9])
async def test_a_damaged_block_can_be_deleted(constellation: Constellation, head: int):
    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE blocks SET base = x'00', text_hash = 'x', head_update = ?", (head,))
        tx.execute("UPDATE block_updates SET data = x'00'")
        tx.execute("DELETE FROM block_archives")

    await constellation.database.write(damage)
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await history(constellation).show("notes")
    await reverts(constellation).delete("notes")
    assert await history(constellation).blocks() == ()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE blocks SET text = text || 'x'",
        "UPDATE blocks SET base = x'0102'",
        "UPDATE blocks SET text_hash = 'x'",
        "UPDATE blocks SET base = x'0102', text = 'x'",
        "UPDATE blocks SET head_update = 1",
        "UPDATE blocks SET head_update = 12",
    ],
)
async def test_a_block_with_sound_parts_is_mended_and_that_is_recorded(
    constellation: Constellation, damage: LiteralString
):
    await write(constellation, Append("two"))
    await constellation.database.write(lambda tx: tx.execute(damage))
    assert await reverts(constellation).heal() == ("notes",)
    assert await reverts(constellation).heal() == ()
    assert await text_of(constellation) == "one\ntwo"
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    event = recorded[-1].event
    assert isinstance(event, BlockHealed)
    assert event.label == "notes"
    await write(constellation, Append("three"))
    assert (await history(constellation).show("notes", 2)).text == "one\ntwo"


async def test_what_cannot_be_mended_is_left_as_it_is(constellation: Constellation):
    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE blocks SET base = x'00', text_hash = 'x'")
        tx.execute("UPDATE block_updates SET data = x'00'")
        tx.execute("DELETE FROM block_archives")

    await constellation.database.write(damage)
    assert await reverts(constellation).heal() == ()
    assert await history(constellation).blocks() == ()
    (sentence,) = await history(constellation).damaged()
    assert "'notes'" in sentence
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await history(constellation).show("notes")


async def test_a_history_without_a_write_is_read_as_far_as_it_goes_and_its_text_can_be_edited(
    constellation: Constellation,
):
    await write(constellation, Append("two"), Append("three"))
    await constellation.database.write(lambda tx: tx.execute("DELETE FROM block_updates WHERE number = 2"))
    assert (await history(constellation).show("notes", 1)).text == "one"
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await history(constellation).show("notes", 2)
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await reverts(constellation).change("notes", plan_undo)
    await reverts(constellation).change("notes", partial(plan_merge, opened=3, text="anew"))
    assert await text_of(constellation) == "anew"


async def test_a_block_whose_newest_write_is_missing_is_listed_shown_and_edited(constellation: Constellation):
    await write(constellation, Append("two"))
    await constellation.database.write(lambda tx: tx.execute("DELETE FROM block_updates WHERE number = 2"))
    (listed,) = await history(constellation).blocks()
    assert (listed.block.text, listed.write.number, listed.write.operation) == ("one\ntwo", 2, "missing")
    (sentence,) = await history(constellation).damaged()
    assert "an update is missing" in sentence
    assert (await history(constellation).show("notes")).text == "one\ntwo"
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await history(constellation).blame("notes")
    await reverts(constellation).change("notes", partial(plan_merge, opened=2, text="anew"))
    assert await text_of(constellation) == "anew"


@pytest.mark.parametrize("head", [2, 12])
async def test_versions_are_had_while_the_row_counts_another_number_of_writes(constellation: Constellation, head: int):
    await write(constellation, Append("two"), Append("three"))
    await constellation.database.write(lambda tx: tx.execute("UPDATE blocks SET head_update = ?", (head,)))
    shown = await history(constellation).show("notes")
    assert (shown.write.number, shown.text) == (3, "one\ntwo\nthree")
    assert (await history(constellation).compare("notes", 2)).new == 3
    assert [line.number for line in (await history(constellation).blame("notes")).lines] == [1, 2, 3]
    await reverts(constellation).change("notes", plan_undo)
    assert await text_of(constellation) == "one\ntwo"


async def test_a_version_is_had_from_the_archive_when_an_update_is_damaged(constellation: Constellation):
    await write(constellation, *(Append(f"line {number}") for number in range(40)))

    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE block_updates SET data = x'0102' WHERE number = 5")

    await constellation.database.write(damage)
    assert (await history(constellation).show("notes", 3)).text == "one\nline 0\nline 1"


async def test_history_that_is_damaged_for_good_is_an_error_that_names_the_block(constellation: Constellation):
    await write(constellation, Append("two"), Append("three"))

    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE block_updates SET data = x'0102' WHERE number = 2")
        tx.execute("UPDATE block_archives SET snapshot = x'0102'")

    await constellation.database.write(damage)
    with pytest.raises(BlockCorruptError, match="'notes'"):
        await history(constellation).show("notes", 2)


async def test_an_unknown_label_names_those_that_there_are(constellation: Constellation):
    with pytest.raises(BlockMissingError, match="The blocks are: notes"):
        await history(constellation).log("nots")


async def test_a_scope_before_the_label_chooses_between_two_blocks_of_one_label(constellation: Constellation):
    spec = BlockSpec(BlockKey(Scope.PROJECT, "/project", "notes"), "Of the project.", "of the project")
    await constellation.database.write(lambda tx: record_creation(tx, spec, "block_2"))
    assert (await history(constellation).show("notes")).text == "one"
    assert (await history(constellation).show("project/notes")).text == "of the project"


# A long history is worked on in a process of its own.


async def long_block(constellation: Constellation) -> Block:
    """The block as if it had more writes than are worked on in this process."""
    await write(constellation, Append("two"))

    def fill(tx: Transaction) -> None:
        tx.execute(
            "WITH RECURSIVE n (number) AS (SELECT 3 UNION ALL SELECT number + 1 FROM n WHERE number < :last)"
            " INSERT INTO block_updates"
            " SELECT block_id, n.number, x'', frontiers_after, frontiers_after, peer, actor, origin, 'restore', reason,"
            " at_ms, last_seq, NULL, size, 0, 0 FROM block_updates, n WHERE block_updates.number = 2",
            {"last": WORKER_WRITES + 1},
        )
        tx.execute("UPDATE blocks SET head_update = :last", {"last": WORKER_WRITES + 1})

    await constellation.database.write(fill)
    return await constellation.database.read(lambda tx: load_block(tx, KEY))


def process_of(history: StoredHistory) -> int:
    del history
    return os.getpid()


def refuse(history: StoredHistory) -> None:
    raise VersionError(history.label, "it is only a test.")


async def test_a_long_history_is_read_in_another_process(constellation: Constellation):
    short = await constellation.database.read(lambda tx: load_block(tx, KEY))
    long = await long_block(constellation)
    with anyio.fail_after(60):
        assert await run_on_history(constellation.database, short, process_of) == os.getpid()
        assert await run_on_history(constellation.database, long, process_of) != os.getpid()


async def test_an_error_of_the_other_process_is_the_error_here(constellation: Constellation):
    long = await long_block(constellation)
    with anyio.fail_after(60), pytest.raises(VersionError, match="only a test") as caught:
        await run_on_history(constellation.database, long, refuse)
    assert caught.value.label == "notes"


async def test_a_long_history_is_shown_blamed_and_undone(constellation: Constellation):
    await long_block(constellation)
    with anyio.fail_after(60):
        assert (await history(constellation).show("notes", 1)).text == "one"
        blamed = await history(constellation).blame("notes")
        assert [line.number for line in blamed.lines] == [1, 2]
        change = await reverts(constellation).change("notes", partial(plan_undo, number=2))
        assert change.after == "one"


# Any order of everything equals a plain model.


class Model:
    """What a block is, in plain Python: the texts of all versions, and which writes count."""

    def __init__(self, text: str) -> None:
        self.texts = [text]
        self.done: list[int] = []
        self.undone: list[int] = []

    @property
    def text(self) -> str:
        return self.texts[-1]

    def write(self, text: str) -> None:
        self.texts.append(text)
        self.done.append(len(self.texts))

    def revert(self, number: int, after: str, *, forward: bool) -> None:
        """What is known of an undo or redo of a write: on its own result it leads back to where it came from."""
        ends = self.texts[number - 2], self.texts[number - 1]
        start, end = ends if forward else reversed(ends)
        if self.text == start:
            assert after == end
        self.texts.append(after)


WORDS = st.sampled_from(["alpha", "beta", "épsilon", "🙂"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), WORDS),
        st.tuples(st.just("rewrite"), st.lists(WORDS, max_size=4).map("\n".join)),
        st.tuples(st.just("merge"), st.lists(WORDS, max_size=4).map("\n".join)),
        st.tuples(st.sampled_from(["undo", "redo", "delete"]), st.just("")),
        st.tuples(st.just("rollback"), st.integers(1, 30).map(str)),
    ),
    max_size=45,
)


async def take(constellation: Constellation, model: Model, kind: str, value: str) -> None:
    """One step in both."""
    memory = reverts(constellation)
    if kind == "append":
        await write(constellation, Append(value))
        model.write(model.text + ("" if model.text[-1:] in {"", "\n"} else "\n") + value)
    elif kind == "rewrite":
        await write(constellation, Rewrite(value))
        model.write(value)
    elif kind == "merge":
        # Every step reads what is stored, so an edit of the version before the last is a concurrent one.
        opened = max(1, len(model.texts) - 1)
        expected = merge_texts(model.texts[opened - 1], model.text, value).text
        await memory.change("notes", partial(plan_merge, opened=opened, text=value))
        model.write(expected)
    elif kind == "rollback":
        await memory.change("notes", partial(plan_rollback, number=int(value)))
        model.write(model.texts[int(value) - 1])
    elif kind == "delete":
        await memory.delete("notes")
        await memory.restore("notes")
        model.texts += [model.text, model.text]
    elif kind == "undo":
        change = await memory.change("notes", plan_undo)
        number = max(model.done)
        model.done.remove(number)
        model.undone.append(number)
        model.revert(number, change.after, forward=False)
    elif kind == "redo":
        change = await memory.change("notes", plan_redo)
        number = model.undone.pop()
        model.done.append(number)
        model.revert(number, change.after, forward=True)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_any_order_of_writes_merges_undo_redo_rollback_and_delete_equals_a_model(steps: list[tuple[str, str]]):
    async def run() -> None:
        async with temporary_constellation() as constellation:
            await constellation.database.write(create)
            model = Model("one")
            for kind, value in steps:
                # Nothing to undo, the text is gone, no such version: nothing may have changed.
                with suppress(UnusableEditError, UndoConflictError, VersionError):
                    await take(constellation, model, kind, value)
                assert await text_of(constellation) == model.text
            await compare_histories(constellation, model)

    anyio.run(run)


async def compare_histories(constellation: Constellation, model: Model) -> None:
    def read(tx: Transaction) -> tuple[StoredHistory, int]:
        block = load_block(tx, KEY)
        return read_history(tx, block), len(list_writes(tx, block, limit=1_000))

    stored, count = await constellation.database.read(read)
    assert count == len(model.texts)
    assert [text_of_version(stored, number) for number in range(1, stored.head + 1)] == model.texts
