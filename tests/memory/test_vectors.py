"""Vectors in a real constellation: with codes, with the functions of sqlite-vec alone, and without it."""

from array import array
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.db.columns import integer
from pattern_acp.db.connection import SqlValue, Transaction, open_database
from pattern_acp.db.migrate import load_migrations
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.embeddings import HASHED_NGRAMS, EmbeddingModel, Vector, cosine, hashed_vector, to_bytes, unit
from pattern_acp.memory.recall import index_message, remove_source
from pattern_acp.memory.search_terms import Filters
from pattern_acp.memory.vectors import (
    COMPARED,
    UNUSED_MS,
    Extent,
    Portion,
    QueryVector,
    VectorTable,
    can_code,
    code_of,
    count_visible,
    count_waiting,
    drop_codes,
    drop_stale_codes,
    extent_of,
    find_model,
    likely_nearest,
    meanings,
    mend_codes,
    nearest,
    needs_mending,
    open_model,
    store_vectors,
    waiting,
)
from tests.support.constellation import Constellation, FakeClock, temporary_constellation

NOW = 1_800_000_000_000
SMALL = EmbeddingModel("small", 8, floor=0.0, trust=1.0)
MEANS = ["codes", "functions", "python"]
"""The three ways to what is near."""

EVERYTHING = Filters(("me",))

SEVERAL = [
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

STORED: dict[str, SqlValue] = {"size": HASHED_NGRAMS.dimensions, "name": HASHED_NGRAMS.name}


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
    return replace(table, exact_entries=0 if means == "codes" else 1_000, coded_entries=0)


def embed_all(tx: Transaction, table: VectorTable, embed: Callable[[str], Vector] = hashed_vector) -> None:
    batch = waiting(tx, table, 10_000)
    assert store_vectors(tx, table, [(one, embed(one.text)) for one in batch]) == len(batch)
    while needs_mending(tx, table):
        mend_codes(tx, table, 7)


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
        # Some are hidden, some equal to others, some removed before and some after the codes were made.
        texts = [*made, *made[:7]]
        for number in range(len(texts)):
            say(tx, f"text {number}", number, owner="me" if number % 5 else "other", session=f"s{number % 9}")
        table = replace(open_model(tx, SMALL, has_extension=True, now_ms=NOW), coded_entries=0)
        embed_all(tx, table, lambda text: unit(texts[int(text.split()[1])]))
        remove_source(tx, "s7")
        embed_all(tx, table)
        remove_source(tx, "s8")
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
        return [len(near(tx, query, one, count=50)) for one in SEVERAL]

    assert await constellation.database.write(run) == [8, 4, 12, 4, 4, 4, 3, 0, 0]


async def test_what_is_visible_is_counted_up_to_a_number_whatever_is_asked_for(constellation: Constellation):
    def run(tx: Transaction) -> list[list[int]]:
        for number in range(12):
            say(tx, "the same", number, owner="me" if number % 3 else "other", session=f"s{number % 2}")
        return [[count_visible(tx, one, at_most) for at_most in range(1, 14)] for one in SEVERAL]

    counts = await constellation.database.write(run)
    for number, counted in zip([8, 4, 12, 4, 4, 4, 3, 0, 0], counts, strict=True):
        assert counted == [min(number, at_most) for at_most in range(1, 14)]


async def test_what_is_visible_is_between_the_first_and_the_last_of_it(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[Extent], list[list[int]]]:
        for number in range(12):
            say(tx, "the same", number, owner="me" if number % 3 else "other", session=f"s{number % 2}")
        rows = tx.all("SELECT id, owner, kind, source, at_ms FROM search_entries ORDER BY id")
        visible = [
            [
                integer(entry)
                for entry, owner, kind, source, at_ms in rows
                if owner in one.owners
                and kind in one.kinds
                and one.session in {"", source}
                and source != one.exclude_session
                and one.since_ms <= integer(at_ms) <= one.until_ms
            ]
            for one in SEVERAL
        ]
        return [extent_of(tx, one, 100) for one in SEVERAL], visible

    extents, visible = await constellation.database.write(run)
    for extent, entries in zip(extents, visible, strict=True):
        assert extent == Extent(len(entries), min(entries, default=0), max(entries, default=0))


async def test_where_more_is_visible_than_was_counted_it_may_be_anywhere(constellation: Constellation):
    def run(tx: Transaction) -> Extent:
        for number in range(12):
            say(tx, "the same", number, owner="me", session="s")
        return extent_of(tx, SEVERAL[0], 5)

    assert await constellation.database.write(run) == Extent(5)


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


async def test_what_another_process_embedded_meanwhile_is_not_written_again(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[int], int]:
        say(tx, "first", 1)
        table = table_for(tx, constellation, "python")
        made = [(one, unit([1.0] * 8)) for one in waiting(tx, table, 10)]
        stored = [store_vectors(tx, table, made) for _ in range(2)]
        return stored, count_waiting(tx, table, 10)

    assert await constellation.database.write(run) == ([1, 0], 0)


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


async def test_codes_that_were_dropped_are_made_again_from_the_vectors(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[int], list[int], list[int]]:
        for number in range(20):
            say(tx, f"text {number}", number)
        table = table_for(tx, constellation, "codes")
        embed_all(tx, table, lambda text: unit([float(len(text)), *map(float, range(7))]))
        query = QueryVector(table, SMALL, unit([6.0, *map(float, range(7))]))
        before = near(tx, query)
        drop_codes(tx, table.model)
        assert coded(tx) == []
        assert needs_mending(tx, table)
        without = near(tx, query)
        embed_all(tx, table)
        assert len(coded(tx)) == 20
        return before, without, near(tx, query)

    before, without, after = await constellation.database.write(run)
    assert before == without == after


async def test_few_entries_have_no_codes_and_get_them_all_once_there_are_more(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[int], list[int]]:
        table = replace(table_for(tx, constellation, "codes"), coded_entries=20)
        for number in range(20):
            say(tx, f"text {number}", number)
        embed_all(tx, table)
        mend_codes(tx, table, 100)
        few = coded(tx)
        say(tx, "one more", 20)
        embed_all(tx, table)
        return few, coded(tx)

    few, more = await constellation.database.write(run)
    assert few == []
    assert len(more) == 21


async def test_vectors_of_a_process_without_sqlite_vec_get_their_codes_later(constellation: Constellation):
    def run(tx: Transaction) -> tuple[bool, int, int]:
        say(tx, "one", 1)
        with_codes = table_for(tx, constellation, "codes")
        embed_all(tx, with_codes, lambda _: unit([1.0] * 8))
        say(tx, "two", 2)
        embed_all(tx, replace(with_codes, has_extension=False), lambda _: unit([1.0] * 8))
        behind = needs_mending(tx, with_codes)
        query = QueryVector(with_codes, SMALL, unit([1.0] * 8))
        before = len(near(tx, query))
        embed_all(tx, with_codes)
        return behind, before, len(near(tx, query))

    assert await constellation.database.write(run) == (True, 1, 2)


@pytest.mark.parametrize("how", ["mended", "forgotten"])
async def test_what_went_is_taken_out_of_the_codes(constellation: Constellation, how: str):
    def run(tx: Transaction) -> tuple[list[int], ...]:
        say(tx, "one", 1)
        say(tx, "two", 2, session="s2")
        table = table_for(tx, constellation, "codes")
        embed_all(tx, table, lambda _: unit([1.0] * 8))
        kept, before = first(tx), coded(tx)
        remove_source(tx, "s2")
        if how == "forgotten":
            assert drop_stale_codes(tx) == 1
        between = coded(tx)
        embed_all(tx, table)
        return tuple([entry - kept for entry in held] for held in (before, between, coded(tx)))

    between = [] if how == "forgotten" else [0, 1]
    assert await constellation.database.write(run) == ([0, 1], between, [0])


async def test_what_another_process_codes_and_removes_is_noticed(constellation: Constellation):
    def a_table(tx: Transaction) -> VectorTable:
        return table_for(tx, constellation, "codes")

    def query(table: VectorTable) -> QueryVector:
        return QueryVector(table, SMALL, unit([1.0] * 8))

    def add(number: int) -> Callable[[Transaction], None]:
        def run(tx: Transaction) -> None:
            say(tx, f"text {number}", number, session=f"s{number}")
            embed_all(tx, a_table(tx), lambda _: unit([1.0] * 8))

        return run

    def take_away(tx: Transaction) -> None:
        remove_source(tx, "s0")
        embed_all(tx, a_table(tx))

    table = await constellation.database.write(a_table)
    seen: list[int] = []
    for number in range(3):
        await constellation.database.write(add(number))
        seen.append(len(await constellation.database.read(lambda tx: near(tx, query(table)))))
    await constellation.database.write(take_away)
    seen.append(len(await constellation.database.read(lambda tx: near(tx, query(table)))))
    held = await constellation.database.read(lambda tx: table.codes.of_owners(tx, table.model, ["me", "me", "nobody"]))
    assert seen == [1, 2, 3, 2]
    assert [len(one.codes) for one in held] == [2]


@pytest.mark.parametrize("visible", [60, 5])
async def test_where_few_of_the_nearest_are_visible_more_are_compared(constellation: Constellation, visible: int):
    hidden = COMPARED + 40

    def run(tx: Transaction) -> tuple[list[int], list[int]]:
        seq = an_event(tx)
        for number in range(hidden + visible):
            index_message(
                tx,
                session_id="hidden" if number < hidden else "shown",
                owner="me",
                kind="user",
                message_id=f"m{number}",
                text=f"text {number}",
                at_ms=NOW,
                seq=seq,
            )
        table = table_for(tx, constellation, "codes")
        away = unit([-1.0, 1.0, -1.0, 1.0, *[1.0] * 4])
        embed_all(tx, table, lambda text: away if int(text.split()[1]) >= hidden else unit([1.0] * 8))
        query, filters = QueryVector(table, SMALL, unit([1.0] * 8)), Filters(("me",), exclude_session="hidden")
        exact = replace(query, table=replace(table, exact_entries=1_000))
        return near(tx, query, filters), near(tx, exact, filters)

    found, exactly = await constellation.database.write(run)
    assert found == exactly
    assert len(found) == min(10, visible)


async def test_the_index_that_an_older_program_made_is_dropped(constellation: Constellation):
    def run(tx: Transaction) -> list[object]:
        if not has_extension(constellation):
            pytest.skip("sqlite-vec is not installed")
        tx.execute("CREATE VIRTUAL TABLE vector_index_1 USING vec0(entry INTEGER PRIMARY KEY, code BIT[8])")
        table_for(tx, constellation, "codes")
        return [row[0] for row in tx.all("SELECT name FROM sqlite_schema WHERE name LIKE 'vector_index%'")]

    assert await constellation.database.write(run) == []


async def test_the_vectors_of_a_file_of_version_16_are_found_and_coded_after_its_upgrade(tmp_path: Path):
    path, clock, steps = tmp_path / "constellation.db", FakeClock(), load_migrations()
    texts = [f"text {number} about {'ports' if number % 3 else 'zebras'}" for number in range(40)]

    def fill(tx: Transaction) -> list[int]:
        tx.execute("INSERT INTO embedding_models (name, dimensions, used_ms) VALUES (:name, :size, 0)", STORED)
        for number, text in enumerate(texts):
            say(tx, text, number)
        for entry, text in tx.all("SELECT id, text FROM search_entries ORDER BY id"):
            vector = {"entry": entry, "vector": to_bytes(hashed_vector(str(text))), "size": STORED["size"]}
            tx.execute(
                "INSERT INTO vectors (entry, model, dimensions, content_hash, vector, indexed, last_seq)"
                " VALUES (:entry, 1, :size, '', :vector, 1, 1)",
                vector,
            )
        tx.execute("DELETE FROM embedding_queue")
        return [number for (number,) in tx.all("SELECT id FROM search_entries ORDER BY id") if isinstance(number, int)]

    async with open_database(path, clock=clock, migrations=steps[:16]) as old:
        assert old.facts.schema_version == 16
        entries = await old.write(fill)
        if old.facts.vector_version is not None:
            made = "CREATE VIRTUAL TABLE vector_index_1 USING vec0(entry INTEGER PRIMARY KEY, code BIT[8])"
            await old.write(lambda tx: tx.execute(made))

    async with open_database(path, clock=clock) as new:
        extension = new.facts.vector_version is not None

        def look(tx: Transaction) -> tuple[list[int], list[int]]:
            table = replace(open_model(tx, HASHED_NGRAMS, has_extension=extension, now_ms=NOW), coded_entries=0)
            assert waiting(tx, table, 100) == ()
            query = QueryVector(table, HASHED_NGRAMS, hashed_vector("zebras"))
            before = near(tx, query, count=5)
            embed_all(tx, table)
            assert coded(tx) == (entries if extension else [])
            return before, near(tx, replace(query, table=replace(table, exact_entries=0)), count=5)

        before, after = await new.write(look)
        assert before == after
        assert len(before) == 5
        assert {entries.index(entry) % 3 for entry in before} == {0}
        assert await new.read(lambda tx: tx.all("SELECT name FROM sqlite_schema WHERE name LIKE 'vector_index%'")) == []


def coded(tx: Transaction) -> list[int]:
    """The entries that codes are stored of."""
    entries = array("q")
    for (data,) in tx.all("SELECT entries FROM vector_codes ORDER BY portion, owner"):
        assert isinstance(data, bytes)
        entries.frombytes(data)
    return list(entries)


def test_only_whole_bytes_of_bits_are_codes():
    assert [can_code(dimensions) for dimensions in (0, 4, 8, 384, 1_024, 10_000)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


async def test_the_code_of_a_query_is_that_of_a_stored_vector(constellation: Constellation):
    if not has_extension(constellation):
        pytest.skip("sqlite-vec is not installed")
    numbers = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 0.5, -0.5]
    vectors = [array("f", (numbers[(one * place + place // 3) % 8] for place in range(24))) for one in range(200)]

    def run(tx: Transaction) -> list[object]:
        return [row[0] for one in vectors for row in tx.all("SELECT vec_quantize_binary(?)", (one.tobytes(),))]

    stored = await constellation.database.read(run)
    assert stored == [code_of(one).to_bytes(3, "little") for one in vectors]


@given(
    codes=st.lists(st.lists(st.integers(0, 255), max_size=90), max_size=3),
    code=st.integers(0, 255),
    count=st.integers(1, 120),
    apart=st.integers(90, 1 << 46),
)
def test_those_that_differ_least_are_likely_nearest_and_ties_are_not_cut(
    codes: list[list[int]], code: int, count: int, apart: int
):
    numbered = [list(enumerate(one, start=apart * number)) for number, one in enumerate(codes)]
    portions = [Portion.of(0, 8, (entry for entry, _ in one), (its_code for _, its_code in one)) for one in numbered]
    pairs = sorted(((its_code ^ code).bit_count(), entry) for one in numbered for entry, its_code in one)
    most = pairs[min(count, len(pairs)) - 1][0] if pairs else 0
    assert likely_nearest(portions, code, count) == sorted(entry for bits, entry in pairs if bits <= most)


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
