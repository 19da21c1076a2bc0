"""Blocks of other schemas in a real constellation: consolidation, history, damage, bad writes."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.block_loader import load_history
from pattern_acp.memory.blocks import Block, BlockKey, BlockSpec, Scope
from pattern_acp.memory.edits import (
    AddItem,
    AnyEdit,
    Append,
    Authoring,
    MoveItem,
    RemoveItem,
    Rewrite,
    SetField,
    Within,
)
from pattern_acp.memory.errors import BlockCorruptError, ContentRefusedError, LimitExceededError, UnusableEditError
from pattern_acp.memory.schemas.types import (
    TEXT,
    CompositeSchema,
    FieldKind,
    FieldSpec,
    ListSchema,
    LogSchema,
    MapSchema,
    SectionSpec,
    TreeSchema,
)
from pattern_acp.memory.store import (
    REBASE_UPDATES,
    WriteRecord,
    load_block,
    propose,
    propose_creation,
    store_change,
)
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.memory import append_memory_event

KEY = BlockKey(Scope.PROJECT, "/repo", "block")
FACTS = MapSchema((FieldSpec("name"), FieldSpec("count", FieldKind.COUNTER), FieldSpec("seen", read_only=True)))
ALL = CompositeSchema(
    (
        SectionSpec("text", TEXT),
        SectionSpec("list", ListSchema()),
        SectionSpec("log", LogSchema(shown=3)),
        SectionSpec("tree", TreeSchema()),
        SectionSpec("facts", FACTS),
    )
)
WORDS = st.sampled_from(["alpha", "beta", "gamma", "δ 1"])
EDITS: st.SearchStrategy[AnyEdit] = st.one_of(
    WORDS.map(lambda word: Within("text", Append(word))),
    WORDS.map(lambda word: Within("list", AddItem(word))),
    st.integers(1, 4).map(lambda at: Within("list", RemoveItem(f"#{at}"))),
    st.integers(1, 4).map(lambda at: Within("list", MoveItem(f"#{at}", ""))),
    WORDS.map(lambda word: Within("log", Append(word))),
    WORDS.map(lambda word: Within("tree", AddItem(word))),
    WORDS.map(lambda word: Within("tree", AddItem(word, "#1"))),
    WORDS.map(lambda word: Within("facts.name", SetField(word))),
    st.integers(-3, 3).map(lambda amount: Within("facts.count", AddItem(str(amount)))),
)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def create(tx: Transaction, spec: BlockSpec | None = None) -> None:
    change = propose_creation(spec or BlockSpec(KEY, "Everything.", schema=ALL), BlockId("block_1"), peer=1)
    seq = append_memory_event(tx, change, at_ms=1)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", 1))


def edit(tx: Transaction, asked: AnyEdit, *, peer: int = 1) -> None:
    change = propose(tx, KEY, asked, peer=peer, author=Authoring(1_800_000_000, "ada"))
    seq = append_memory_event(tx, change, at_ms=1)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", 1))


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(edits=st.lists(st.tuples(EDITS, st.sampled_from([1, 2])), min_size=REBASE_UPDATES, max_size=45))
def test_any_edits_by_two_processes_are_read_back_from_base_archive_and_log(edits: list[tuple[AnyEdit, int]]):
    async def run() -> None:
        async with temporary_constellation() as constellation:
            await constellation.database.write(work)

    def work(tx: Transaction) -> None:
        create(tx)
        for asked, peer in edits:
            try:
                edit(tx, asked, peer=peer)
            except (ContentRefusedError, UnusableEditError):
                continue
        block = load_block(tx, KEY)
        assert load_history(tx, block).text == block.text
        for damage in ("UPDATE blocks SET base = x'00'", "UPDATE blocks SET text = 'wrong'"):
            tx.execute(damage)
            assert load_block(tx, KEY).text == block.text

    anyio.run(run)


async def test_a_bad_write_changes_nothing_and_says_which_field_and_why(constellation: Constellation):
    def work(tx: Transaction) -> Block:
        create(tx)
        edit(tx, Within("facts.name", SetField("Ada")))
        before = load_block(tx, KEY)
        for asked, field, problem in (
            (Within("facts.count", AddItem("many")), "facts.count", "must be a number"),
            (Within("facts.seen", SetField("x")), "facts.seen", "is read-only"),
            (Within("nowhere", Append("x")), "", "the sections are text, list, log, tree, facts"),
            (Rewrite("## facts\nage: 3"), "", "names none of the fields"),
        ):
            with pytest.raises(ContentRefusedError, match=problem) as caught:
                edit(tx, asked)
            assert caught.value.field == field
            assert load_block(tx, KEY) == before
        return before

    await constellation.database.write(work)


async def test_the_limit_holds_for_what_a_content_reads_as(constellation: Constellation):
    def work(tx: Transaction) -> None:
        create(tx, BlockSpec(KEY, "A list.", limit=10, schema=ListSchema()))
        edit(tx, AddItem("12345"))
        with pytest.raises(LimitExceededError, match="7 of at most 10 characters"):
            edit(tx, AddItem("67890"))

    await constellation.database.write(work)


async def test_a_schema_of_a_newer_version_is_an_error_that_names_the_block(constellation: Constellation):
    def work(tx: Transaction) -> None:
        create(tx)
        tx.execute('UPDATE blocks SET schema = \'{"kind":"graph"}\'')
        with pytest.raises(BlockCorruptError, match="'block'"):
            load_block(tx, KEY)

    await constellation.database.write(work)
