"""Issue 3, section 8: defects that were found in an earlier agent of this kind, and the tests that none is here.

Each defect has a test named after the right behaviour: below, or elsewhere in the tests, or the reason why it cannot
come up here. Where the defect is a missing part, the test is of the part.
"""

import ast
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.domain.errors import BlockError, DatabaseError
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.errors import BlockMissingError
from pattern_acp.memory.history import archived_document, read_history
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.scope import PERSON, PERSONA, MemoryScope, Writer
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.store import load_block
from pattern_acp.memory.undo import plan_undo
from tests.support.constellation import Constellation, temporary_constellation

TESTS = Path(__file__).parent.parent
HERE = "memory/test_defects.py"
IDS = RandomIds()
PEER = IDS.peer()
OWNERS = ((Scope.PERSONA, "tester"), (Scope.PROJECT, "/project"))

NOT_HERE = {
    5: "It is of summaries of a conversation. Memory has none: a block is told whole or by what changed; nothing of "
    "it is ever replaced by a summary.",
    6: "It is of the budget of a conversation. What memory adds to a request is bounded by the limits of blocks and by "
    "recall_tokens, and nothing of a block is left out to fit.",
    17: "It is of ids that an import makes anew. A constellation is one file that is copied whole, so every id stays.",
    18: "It is of groups of agents that answer together; here one persona answers in a session.",
    22: "It is of hashes that name their algorithm in one place and use another. Here no hash is read from elsewhere: "
    "each is made and checked by this program alone, SHA-256, as its column says.",
}
"""Defects of things that memory does not have, with the reason why they cannot come up in it."""

CHECKED = {
    1: (
        f"{HERE}::test_the_best_match_has_the_highest_score_and_comes_first",
        "memory/test_ranking.py::test_the_best_text_scores_one",
    ),
    2: (f"{HERE}::test_blocks_and_facts_are_ranked_among_messages_by_how_well_they_match",),
    3: (
        "memory/test_indexer.py::test_the_background_task_embeds_what_is_stored",
        "memory/test_indexer.py::test_an_immediate_embedder_finds_what_was_stored_a_moment_ago",
    ),
    4: (f"{HERE}::test_the_archive_and_the_updates_after_it_hold_every_edit",),
    7: ("tools/test_memory_write.py::test_a_write_that_needs_consent_says_so_and_waits_for_it",),
    8: (
        f"{HERE}::test_no_way_of_writing_passes_the_limit",
        "memory/test_edits.py::test_an_edit_over_the_limit_says_the_counts_and_cuts_nothing",
    ),
    9: ("turn/test_permissions.py::test_an_always_is_remembered_and_recorded_with_the_answer",),
    10: (f"{HERE}::test_the_same_look_up_can_be_made_again_at_once",),
    11: ("context/test_memory_catch_up.py::test_headline_decisions_and_open_threads_are_told",),
    12: (
        "policy/test_destructive.py::test_destructive_lines_ask_in_auto_with_a_sentence",
        "policy/test_destructive.py::test_everyday_lines_are_not_on_the_list",
    ),
    13: (f"{HERE}::test_an_undo_takes_back_one_write_and_every_reader_sees_it",),
    14: (f"{HERE}::test_a_block_that_is_not_there_has_its_own_error_and_is_never_empty",),
    15: ("tools/test_memory_write.py::test_entries_of_a_log_stay_findable_after_they_left_its_view",),
    16: (
        "memory/test_schemas_properties.py::test_a_log_keeps_all_and_shows_the_last",
        "memory/test_schemas_properties.py::test_a_text_that_reads_differently_is_reached_step_by_step",
    ),
    19: (
        "e2e/test_memory_processes.py::test_a_process_killed_while_it_writes_undoes_and_forgets_loses_nothing"
        "_and_keeps_nothing_forgotten",
        "e2e/test_kill.py::test_nothing_acknowledged_is_lost_when_the_process_is_killed",
    ),
    20: (f"{HERE}::test_what_came_later_is_told_by_its_number_and_not_by_the_clock",),
    21: (f"{HERE}::test_search_finds_the_same_after_the_file_was_written_anew",),
    23: ("memory/test_recall.py::test_a_search_is_narrowed_to_kinds_sessions_and_times",),
    24: (f"{HERE}::test_a_search_that_cannot_read_says_so",),
    25: ("turn/test_recorder.py::test_every_event_is_in_the_journal_before_it_is_shown",),
}
"""The tests of each other defect, by its number in the list of 25."""


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def memory_in(constellation: Constellation, session: str = "s1", writer: Writer = PERSONA) -> ConstellationMemory:
    owner = MemoryScope("tester", "/project", SessionId(session))
    database, clock = constellation.database, constellation.clock
    return ConstellationMemory(database, owner, clock=clock, ids=IDS, peer=PEER, writer=writer)


def append(text: str, label: str = "human") -> MemoryEdit:
    return MemoryEdit(label, "append", text)


async def text_of(memory: ConstellationMemory, label: str = "human") -> str:
    (text,) = [block.text for block in await memory.blocks() if block.label == label]
    return text


async def say(constellation: Constellation, text: str, number: int, session: str = "s2") -> None:
    def index(tx: Transaction) -> None:
        index_message(
            tx,
            session_id=session,
            owner="/project",
            kind="user",
            message_id=f"m{number}",
            text=text,
            at_ms=constellation.clock.now_ms(),
            seq=1,
        )

    await constellation.database.write(index)


def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_of_the_25_defects_has_a_test_that_exists_or_a_reason():
    assert sorted([*NOT_HERE, *CHECKED]) == list(range(1, 26))
    named = [one.split("::") for tests in CHECKED.values() for one in tests]
    assert [name for path, name in named if name not in names_in(path)] == []


async def test_the_best_match_has_the_highest_score_and_comes_first(constellation: Constellation):
    memory = memory_in(constellation)
    for text in ("The port is open.", "The port of the staging database is 5433.", "A database is there."):
        await memory.commit(append(text), None)
    hits = await memory.search("port of the staging database", 5)
    assert hits[0].text == "The port of the staging database is 5433."
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.score for hit in hits}) > 1


async def test_blocks_and_facts_are_ranked_among_messages_by_how_well_they_match(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(append("The staging database listens on port 5433."), None)
    for number in range(20):
        await say(constellation, f"Some database, number {number}.", number)
    hits = await memory.search("staging database port", 5)
    assert hits[0].source == "memory block human"
    assert {hit.source for hit in hits[1:]} == {"the user in session s2"}


async def test_the_archive_and_the_updates_after_it_hold_every_edit(constellation: Constellation):
    memory = memory_in(constellation)
    for number in range(70):
        await memory.commit(append(f"line {number}"), None)

    def read(tx: Transaction) -> str:
        block = load_block(tx, BlockKey(Scope.PERSONA, "tester", "human"))
        return archived_document(read_history(tx, block)).text

    assert (await constellation.database.read(read)).splitlines() == [f"line {number}" for number in range(70)]


@pytest.mark.parametrize("operation", ["append", "rewrite", "replace"])
async def test_no_way_of_writing_passes_the_limit(constellation: Constellation, operation: str):
    for memory in (memory_in(constellation), memory_in(constellation, writer=PERSON)):
        if not await text_of(memory):
            await memory.commit(append("short"), None)
        old = "short" if operation == "replace" else ""
        with pytest.raises(BlockError, match="at most 8000 characters"):
            await memory.commit(MemoryEdit("human", operation, "word " * 2_000, old), None)
        assert await text_of(memory) == "short"


async def test_the_same_look_up_can_be_made_again_at_once(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(append("The staging database listens on port 5433."), None)
    first = await memory.search("staging port", 5)
    assert first
    assert await memory.search("staging port", 5) == first


async def test_an_undo_takes_back_one_write_and_every_reader_sees_it(constellation: Constellation):
    mine, other = memory_in(constellation), memory_in(constellation, session="s2")
    for text in ("one", "two", "three"):
        await mine.commit(append(text), None)
    assert await text_of(other) == "one\ntwo\nthree"
    scope = HistoryScope(OWNERS, "s1", PERSON.actor, PERSON.origin, PEER)
    await MemoryReverts(constellation.database, scope, clock=constellation.clock).change("human", plan_undo)
    assert [await text_of(memory) for memory in (mine, other)] == ["one\ntwo"] * 2
    await other.commit(append("four"), None)
    assert await text_of(mine) == "one\ntwo\nfour"


async def test_a_block_that_is_not_there_has_its_own_error_and_is_never_empty(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.blocks()
    with pytest.raises(BlockMissingError, match="nowhere"):
        await MemoryHistory(constellation.database, OWNERS).show("nowhere")
    with pytest.raises(BlockMissingError, match="nowhere"):
        await memory.commit(append("x", "nowhere"), None)


async def test_what_came_later_is_told_by_its_number_and_not_by_the_clock(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(append("first"), None)
    constellation.clock.advance(-3_600_000)
    await memory.commit(append("second"), None)
    history = MemoryHistory(constellation.database, OWNERS)
    newest, before, *_ = await history.log("human")
    assert newest.number == before.number + 1
    assert newest.at_ms < before.at_ms
    assert (await history.show("human", before.number)).text == "first"
    assert (await history.show("human")).text == "first\nsecond"


async def test_search_finds_the_same_after_the_file_was_written_anew(constellation: Constellation):
    memory = memory_in(constellation)
    for text in ("The tea is green.", "The port is 5433.", "The hangar is high."):
        await memory.commit(append(text), None)
    await memory.commit(MemoryEdit("human", "replace", "", "The tea is green.\n"), None)
    await say(constellation, "Which hangar has the port?", 1)
    before = await memory.search("port hangar", 5)
    assert len(before) == 3
    assert await constellation.database.rewrite()
    assert await memory.search("port hangar", 5) == before


async def test_a_search_that_cannot_read_says_so(constellation: Constellation):
    memory = memory_in(constellation)
    await memory.commit(append("The port is 5433."), None)
    await constellation.database.close()
    with pytest.raises(DatabaseError):
        await memory.search("port", 5)
