"""Vectors in a real constellation: with sqlite-vec's index, with its functions alone, and without it."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db import vector as index
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.embeddings import EmbeddingModel, Vector, cosine, unit
from pattern_acp.memory.filters import Filters
from pattern_acp.memory.hashing import HASHED_NGRAMS, hashed_vector
from pattern_acp.memory.recall import index_message, remove_source
from pattern_acp.memory.vectors import (
    UNUSED_MS,
    QueryVector,
    VectorTable,
    count_visible,
    count_waiting,
    drop_indexes,
    find_model,
    meanings,
    mend_index,
    nearest,
    needs_mending,
    open_model,
    store_vectors,
    waiting,
)
from pattern_acp.testing.constellation import Constellation, temporary_constellation

NOW = 1_800_000_000_000
SMALL = EmbeddingModel("small", 8, floor=0.0, trust=1.0)
MEANS = ["index", "functions", "python"]
"""The three ways to what is near."""

EVERYTHING = Filters(("me",))


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def an_event(tx: Transaction) -> int:
    return append(tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq


def say(tx: Transaction, text: str, number: int, *, owner: str = "me", session: str = "s1") -> None:
    index_message(
        tx,
        session_id=session,
        owner=owner,
        kind="user" if number % 2 else "assistant",
        message_id=f"m{number}",
        text=text,
        at_ms=NOW + number,
        seq=an_event(tx),
    )


def has_extension(constellation: Constellation) -> bool:
    return constellation.database.facts.vector_version is not None


def table_for(tx: Transaction, constellation: Constellation, means: str, model: EmbeddingModel = SMALL) -> VectorTable:
    if means != "python" and not has_extension(constellation):
        pytest.skip("sqlite-vec is not installed")
    table = open_model(tx, model, has_extension=means != "python", now_ms=NOW)
    return replace(table, exact_entries=0 if means == "index" else 1_000)


def embed_all(tx: Transaction, table: VectorTable, embed: Callable[[str], Vector] = hashed_vector) -> None:
    batch = waiting(tx, table, 10_000)
    assert store_vectors(tx, table, [(one, embed(one.text)) for one in batch]) == len(batch)
    while needs_mending(tx, table):
        mend_index(tx, table, 7)


def near(tx: Transaction, query: QueryVector, filters: Filters = EVERYTHING, count: int = 10) -> list[int]:
    visible = count_visible(tx, filters, 1_001)
    return [entry for entry, _ in nearest(tx, query, filters, visible=visible, count=count)]


vectors_of_eight = st.lists(
    st.lists(st.integers(-9, 9), min_size=8, max_size=8), min_size=1, max_size=60, unique_by=tuple
)


@settings(max_examples=15, deadline=None)
@given(made=vectors_of_eight, asked=st.lists(st.integers(-9, 9), min_size=8, max_size=8))
def test_every_means_gives_the_same_order(made: list[list[int]], asked: list[int]):
    def compare(tx: Transaction) -> None:
        for number in range(len(made)):
            say(tx, f"text {number}", number)
        table = open_model(tx, SMALL, has_extension=True, now_ms=NOW)
        embed_all(tx, table, lambda text: unit(made[int(text.split()[1])]))
        query = unit(asked)
        orders = [
            near(tx, QueryVector(one, SMALL, query), count=100)
            for one in (
                replace(table, exact_entries=0),
                replace(table, exact_entries=1_000),
                replace(table, has_extension=False),
            )
        ]
        alike = meanings(tx, QueryVector(table, SMALL, query), orders[2])
        scores = [[round(alike[entry], 5) for entry in order] for order in orders]
        assert scores[0] == scores[1] == scores[2]
        assert {frozenset(order) for order in orders} == {frozenset(orders[2])}

    async def run() -> None:
        with anyio.fail_after(20):
            async with temporary_constellation() as constellation:
                if has_extension(constellation):
                    await constellation.database.write(compare)

    anyio.run(run)


@pytest.mark.parametrize("means", MEANS)
async def test_the_text_that_was_asked_for_is_nearest(constellation: Constellation, means: str):
    texts = ["The port is 5433.", "Use tabs in Makefiles.", "Deploys freeze in December.", "She works in Ljubljana."]

    def run(tx: Transaction) -> list[int]:
        for number, text in enumerate(texts):
            say(tx, text, number)
        table = table_for(tx, constellation, means, HASHED_NGRAMS)
        embed_all(tx, table)
        return [near(tx, QueryVector(table, HASHED_NGRAMS, hashed_vector(text)))[0] - first(tx) for text in texts]

    assert await constellation.database.write(run) == [0, 1, 2, 3]


def first(tx: Transaction) -> int:
    row = tx.one("SELECT min(id) FROM search_entries")
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


@pytest.mark.parametrize("means", MEANS)
async def test_a_text_without_words_is_like_nothing_and_hides_nothing(constellation: Constellation, means: str):
    def run(tx: Transaction) -> tuple[list[float], list[int]]:
        for number, text in enumerate(["\N{THUMBS UP SIGN}", "Deploys freeze in December."]):
            say(tx, text, number)
        table = table_for(tx, constellation, means, HASHED_NGRAMS)
        embed_all(tx, table)
        asked = QueryVector(table, HASHED_NGRAMS, hashed_vector("when do deploys freeze?"))
        alike = meanings(tx, asked, [first(tx), first(tx) + 1])
        without_words = QueryVector(table, HASHED_NGRAMS, hashed_vector("?!"))
        nothing = meanings(tx, without_words, [first(tx), first(tx) + 1])
        return [round(likeness) for likeness in alike.values()] + list(nothing.values()), near(tx, asked)

    alike, order = await constellation.database.write(run)
    assert alike == [0, 1, 0, 0]
    assert order[0] == max(order)


@pytest.mark.parametrize("means", MEANS)
async def test_only_what_is_visible_is_near(constellation: Constellation, means: str):
    def run(tx: Transaction) -> list[int]:
        for number in range(12):
            say(tx, "the same", number, owner="me" if number % 3 else "other", session=f"s{number % 2}")
        table = table_for(tx, constellation, means)
        embed_all(tx, table, lambda _: unit([1.0] * 8))
        query = QueryVector(table, SMALL, unit([1.0] * 8))
        filters = [
            EVERYTHING,
            Filters(("other",)),
            Filters(("me", "other")),
            Filters(("me",), exclude_session="s0"),
            Filters(("me",), session="s0"),
            Filters(("me",), kinds=("user",)),
            Filters(("me",), since_ms=NOW + 5, until_ms=NOW + 8),
            Filters(()),
            Filters(("nobody",)),
        ]
        return [len(near(tx, query, one, count=50)) for one in filters]

    assert await constellation.database.write(run) == [8, 4, 12, 4, 4, 4, 3, 0, 0]


@pytest.mark.parametrize("means", MEANS)
async def test_what_was_removed_is_not_near_and_a_reused_number_is_the_new_text(
    constellation: Constellation, means: str
):
    def run(tx: Transaction) -> tuple[int, int, float]:
        say(tx, "old", 1, session="gone")
        table = table_for(tx, constellation, means)
        embed_all(tx, table, lambda _: unit([1.0, *[0.0] * 7]))
        remove_source(tx, "gone")
        query = QueryVector(table, SMALL, unit([1.0, *[0.0] * 7]))
        before = len(near(tx, query))
        say(tx, "new", 2)
        waits = len(near(tx, query))
        embed_all(tx, table, lambda _: unit([0.5, 0.5, *[0.0] * 6]))
        (entry,) = near(tx, query)
        return before, waits, round(meanings(tx, query, [entry])[entry], 3)

    assert await constellation.database.write(run) == (0, 0, 0.707)


async def test_a_new_model_waits_for_everything_and_leaves_the_old_vectors_alone(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[int], int, int]:
        for number in range(5):
            say(tx, f"text {number}", number)
        old = table_for(tx, constellation, "python")
        embed_all(tx, old, lambda _: unit([1.0] * 8))
        new = table_for(tx, constellation, "python", replace(SMALL, name="newer"))
        waits = [count_waiting(tx, table, 100) for table in (old, new)]
        query = unit([1.0] * 8)
        return waits, len(near(tx, QueryVector(new, SMALL, query))), len(near(tx, QueryVector(old, SMALL, query)))

    assert await constellation.database.write(run) == ([0, 5], 0, 5)


async def test_a_text_that_changed_while_it_was_embedded_waits_again(constellation: Constellation):
    def run(tx: Transaction) -> tuple[int, int]:
        say(tx, "first", 1)
        table = table_for(tx, constellation, "python")
        batch = waiting(tx, table, 10)
        say(tx, "second", 1)
        stored = store_vectors(tx, table, [(one, unit([1.0] * 8)) for one in batch])
        return stored, count_waiting(tx, table, 10)

    assert await constellation.database.write(run) == (0, 1)


async def test_a_server_that_gives_other_vectors_now_makes_everything_wait(constellation: Constellation):
    def run(tx: Transaction) -> tuple[int, list[int]]:
        say(tx, "one", 1)
        say(tx, "two", 2)
        table = table_for(tx, constellation, "python", EmbeddingModel("lab/m", 0, 0.0, 1.0))
        embed_all(tx, table, lambda _: unit([1.0] * 8))
        say(tx, "three", 3)
        store_vectors(tx, table, [(one, unit([1.0] * 16)) for one in waiting(tx, table, 10)])
        found = near(tx, QueryVector(table, SMALL, unit([1.0] * 16)))
        return count_waiting(tx, table, 10), [len(found), len(near(tx, QueryVector(table, SMALL, unit([1.0] * 8))))]

    waits, found = await constellation.database.write(run)
    assert waits == 2
    assert found[0] == 1


async def test_models_that_nobody_uses_go_with_their_vectors(constellation: Constellation):
    def run(tx: Transaction) -> tuple[bool, int]:
        say(tx, "one", 1)
        table = open_model(tx, SMALL, has_extension=has_extension(constellation), now_ms=NOW)
        embed_all(tx, table, lambda _: unit([1.0] * 8))
        open_model(tx, replace(SMALL, name="b"), has_extension=has_extension(constellation), now_ms=NOW + UNUSED_MS + 1)
        rows = tx.all("SELECT 1 FROM vectors UNION ALL SELECT 1 FROM index_leftovers")
        return find_model(tx, "small", has_extension=False) is None, len(rows)

    assert await constellation.database.write(run) == (True, 0)


async def test_an_index_that_was_dropped_is_made_again_from_the_vectors(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[int], list[int], list[int]]:
        for number in range(20):
            say(tx, f"text {number}", number)
        table = table_for(tx, constellation, "index")
        embed_all(tx, table, lambda text: unit([float(len(text)), *map(float, range(7))]))
        query = QueryVector(table, SMALL, unit([6.0, *map(float, range(7))]))
        before = near(tx, query)
        assert drop_indexes(tx) == 1
        assert not index.has_index(tx, table.model)
        without = near(tx, query)
        embed_all(tx, table)
        return before, without, near(tx, query)

    before, without, after = await constellation.database.write(run)
    assert before == without == after


async def test_vectors_of_a_process_without_sqlite_vec_reach_the_index_later(constellation: Constellation):
    def run(tx: Transaction) -> tuple[bool, int, int]:
        say(tx, "one", 1)
        with_index = table_for(tx, constellation, "index")
        embed_all(tx, with_index, lambda _: unit([1.0] * 8))
        say(tx, "two", 2)
        embed_all(tx, replace(with_index, has_extension=False), lambda _: unit([1.0] * 8))
        behind = needs_mending(tx, with_index)
        query = QueryVector(with_index, SMALL, unit([1.0] * 8))
        before = len(near(tx, query))
        embed_all(tx, with_index)
        return behind, before, len(near(tx, query))

    assert await constellation.database.write(run) == (True, 1, 2)


async def test_what_went_is_taken_out_of_the_index(constellation: Constellation):
    def run(tx: Transaction) -> list[list[int]]:
        say(tx, "one", 1)
        say(tx, "two", 2, session="s2")
        table = table_for(tx, constellation, "index")
        embed_all(tx, table, lambda _: unit([1.0] * 8))
        held = [index.nearest(tx, table.model, "me", unit([1.0] * 8).tobytes())]
        remove_source(tx, "s2")
        embed_all(tx, table)
        return [*held, index.nearest(tx, table.model, "me", unit([1.0] * 8).tobytes())]

    before, after = await constellation.database.write(run)
    assert (len(before), len(after)) == (2, 1)


def test_only_whole_bytes_of_bits_can_be_indexed():
    assert [index.can_index(dimensions) for dimensions in (0, 4, 8, 384, 1_024, 10_000)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


async def test_meaning_is_the_cosine_whatever_computes_it(constellation: Constellation):
    def run(tx: Transaction) -> list[dict[int, float]]:
        for number in range(6):
            say(tx, f"text {number} about ports", number)
        table = table_for(tx, constellation, "functions", HASHED_NGRAMS)
        embed_all(tx, table)
        query = QueryVector(table, HASHED_NGRAMS, hashed_vector("ports of text 3"))
        entries = near(tx, query)
        with_python = replace(query, table=replace(table, has_extension=False))
        return [meanings(tx, query, entries), meanings(tx, with_python, entries)]

    by_function, by_python = await constellation.database.write(run)
    assert by_function == pytest.approx(by_python, abs=1e-5)
    assert max(by_python.values()) > cosine(hashed_vector("ports"), hashed_vector("tabs"))
