"""Search over blocks and messages in a real constellation."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import Block, BlockKey, Scope
from pattern_acp.memory.embeddings import HASHED_NGRAMS, EmbeddingModel, hashed_vector
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.recall import (
    MessageKind,
    SearchResult,
    Why,
    index_message,
    is_guess,
    remove_source,
    search,
    without_speakers,
)
from pattern_acp.memory.search_terms import EXCERPT, Filters, block_passages
from pattern_acp.memory.vectors import QueryVector, VectorTable
from tests.support.constellation import Constellation, temporary_constellation

NOW = 1_800_000_000_000
DAY = 24 * 3_600_000


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def an_event(tx: Transaction) -> int:
    return append(tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq


def block(text: str, owner: str = "tester") -> Block:
    return Block(BlockId(f"block_{owner}"), BlockKey(Scope.PERSONA, owner, "notes"), "Notes.", 8_000, text, NOW, 1)


def say(
    tx: Transaction,
    text: str,
    *,
    message_id: str,
    session_id: str = "s1",
    kind: MessageKind = "user",
    owner: str = "tester",
    at_ms: int = NOW,
) -> None:
    index_message(
        tx,
        session_id=session_id,
        owner=owner,
        kind=kind,
        message_id=message_id,
        text=text,
        at_ms=at_ms,
        seq=an_event(tx),
    )


def look(tx: Transaction, query: str, *owners: str, limit: int = 5, exclude: str | None = None) -> list[SearchResult]:
    filters = Filters(owners or ("tester",), exclude_session=exclude or "")
    found = search(tx, query, filters, limit=limit, now_ms=NOW)
    return list(found)


def texts(found: list[SearchResult]) -> list[str]:
    return [one.text for one in found]


async def test_a_paragraph_of_a_block_is_found_with_its_place(constellation: Constellation):
    def run(tx: Transaction) -> list[SearchResult]:
        index_block(tx, block("Tests run with pytest.\nThe port is 8080."), at_ms=NOW - DAY, seq=an_event(tx))
        return look(tx, "which port?")

    (found,) = await constellation.database.write(run)
    assert (found.kind, found.source, found.item, found.text) == ("block", "block_tester", "2", "The port is 8080.")
    assert found.at_ms == NOW - DAY
    assert (found.why.words, found.why.text, found.why.meaning) == (("port",), 1.0, None)


async def test_paragraphs_that_stay_keep_their_time_and_removed_ones_are_not_found(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[SearchResult], list[SearchResult]]:
        index_block(tx, block("port 8080\nhost alpha"), at_ms=NOW - DAY, seq=an_event(tx))
        index_block(tx, block("A new line.\nport 8080"), at_ms=NOW, seq=an_event(tx))
        return look(tx, "port"), look(tx, "alpha")

    (port,), alpha = await constellation.database.write(run)
    assert (port.item, port.at_ms) == ("2", NOW - DAY)
    assert alpha == []


def indexed(tx: Transaction, source: str = "block_tester") -> list[tuple[object, object]]:
    rows = tx.all("SELECT item, text FROM search_entries WHERE source = ?", (source,))
    return sorted((row[0], row[1]) for row in rows if isinstance(row[0], str))


LINES = st.lists(st.sampled_from(["One fact.", "Two facts.", "- item", "  goes on", ""]), max_size=6)


async def test_the_index_after_many_changes_is_that_of_the_last_text(constellation: Constellation):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=5))
    def check(versions: list[tuple[list[str], list[str]]]) -> None:
        def run(tx: Transaction) -> None:
            seq, before = an_event(tx), ""
            remove_source(tx, "block_tester")
            for kept, new in versions:
                text = "\n".join((*kept, "The same in all.", *new))
                index_block(tx, block(text), at_ms=NOW, seq=seq, before=before)
                before = text
            assert indexed(tx) == sorted((str(n), text) for n, text in enumerate(block_passages(before), start=1))

        anyio.from_thread.run(constellation.database.write, run)

    await anyio.to_thread.run_sync(check)


async def test_an_index_that_holds_another_text_is_brought_up_whole(constellation: Constellation):
    def run(tx: Transaction) -> list[tuple[object, object]]:
        index_block(tx, block("Wrong.\nOld."), at_ms=NOW, seq=an_event(tx))
        index_block(tx, block("One.\nTwo.\nThree."), at_ms=NOW, seq=an_event(tx), before="One.\nTwo.\nNo.")
        return indexed(tx)

    assert await constellation.database.write(run) == [("1", "One."), ("2", "Two."), ("3", "Three.")]


async def test_an_appended_line_reads_only_the_end_of_the_index(constellation: Constellation):
    def run(tx: Transaction) -> list[tuple[object, object]]:
        index_block(tx, block("One.\nTwo.\nThree."), at_ms=NOW, seq=an_event(tx))
        # What stands before the change is not compared, and so is not mended either.
        tx.execute("DELETE FROM search_entries WHERE item = '1'")
        tx.execute(
            "INSERT INTO search_entries SELECT 99, kind, source, owner, '1', 'Odd.', words, at_ms, last_seq "
            "FROM search_entries WHERE item = '2'"
        )
        index_block(tx, block("One.\nTwo.\nThree.\nFour."), at_ms=NOW, seq=an_event(tx), before="One.\nTwo.\nThree.")
        return indexed(tx)

    assert await constellation.database.write(run) == [("1", "Odd."), ("2", "Two."), ("3", "Three."), ("4", "Four.")]


async def test_the_same_paragraph_twice_is_indexed_twice_and_removed_once(constellation: Constellation):
    def run(tx: Transaction) -> list[SearchResult]:
        index_block(tx, block("port 1.\nport 1.\nport 1."), at_ms=NOW, seq=an_event(tx))
        index_block(tx, block("port 1.\nport 1."), at_ms=NOW, seq=an_event(tx))
        return look(tx, "port")

    assert [found.item for found in await constellation.database.write(run)] in (["1", "2"], ["2", "1"])


async def test_only_texts_of_the_given_owners_are_found(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[str], list[str]]:
        say(tx, "canary of mine", message_id="m1", owner="tester")
        say(tx, "canary of theirs", message_id="m2", owner="other", session_id="s2")
        index_block(tx, block("canary block of theirs", "other"), at_ms=NOW, seq=an_event(tx))
        return texts(look(tx, "canary", "tester")), texts(look(tx, "canary", "tester", "/nowhere"))

    assert await constellation.database.write(run) == (["canary of mine"], ["canary of mine"])


async def test_a_neighbour_of_another_owner_is_not_shown(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        say(tx, "the canary", message_id="m1", owner="tester")
        say(tx, "a secret", message_id="m2", owner="other")
        return texts(look(tx, "canary", "tester"))

    assert await constellation.database.write(run) == ["the canary"]


async def test_the_excluded_session_is_left_out_but_blocks_are_not(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        say(tx, "port in this session", message_id="m1")
        say(tx, "port in another", message_id="m1", session_id="s2")
        index_block(tx, block("port in a block"), at_ms=NOW, seq=an_event(tx))
        return sorted(texts(look(tx, "port", exclude="s1")))

    assert await constellation.database.write(run) == ["port in a block", "port in another"]


async def test_the_answer_beside_the_question_is_found(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        say(tx, "Which port does the database use?", message_id="m1")
        say(tx, "It is 5433.", message_id="m2", kind="assistant")
        say(tx, "Unrelated words.", message_id="m3", session_id="s2")
        return texts(look(tx, "database port"))

    assert await constellation.database.write(run) == ["Which port does the database use?", "It is 5433."]


def talk(tx: Transaction, *said: str, first_at_ms: int = NOW) -> None:
    """Index turns that follow each other in a session of their own, an hour apart."""
    for number, text in enumerate(said):
        at_ms = first_at_ms + number * 3_600_000
        say(tx, text, message_id=f"{said[0]}-{number}", session_id=said[0], at_ms=at_ms)


async def test_a_speakers_short_turns_do_not_hide_the_turn_that_answers(constellation: Constellation):
    def run(tx: Transaction) -> str:
        for number in range(20):
            talk(tx, f"Marta: Beautiful {number}.")
        talk(tx, "Marta: The greenhouse behind our house was sold to a family from Graz, with all of its tools in it.")
        return look(tx, "Who bought Marta's greenhouse?")[0].text

    assert "a family from Graz" in await constellation.database.write(run)


async def test_the_vector_of_a_question_leaves_out_the_names_of_speakers_and_no_others(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        for number in range(20):
            talk(tx, f"Marta: Beautiful {number}.", "Graz is where the greenhouse went.")
        questions = ("Who bought Marta's greenhouse?", "What about Marta?", "Where is Graz?")
        return [" ".join(without_speakers(tx, one).split()) for one in questions]

    told = await constellation.database.write(run)
    assert told == ["Who bought greenhouse?", "What about Marta?", "Where is Graz?"]


async def test_only_the_name_of_a_speaker_still_finds_turns(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        for number in range(20):
            talk(tx, f"Marta: Beautiful {number}.")
        return texts(look(tx, "What about Marta?", limit=2))

    assert len(await constellation.database.write(run)) == 2


@pytest.mark.parametrize(
    ("text", "days_later", "query"),
    [
        ("I ran the half marathon on Saturday!", 5, "What happened on 7 October 2023?"),
        ("Next month all of us go camping in the dunes.", -20, "What was planned in October 2023?"),
    ],
)
async def test_a_day_is_found_in_what_was_said_days_before_or_after(
    constellation: Constellation, text: str, days_later: int, query: str
):
    day = 1_696_672_800_000  # 7 October 2023, a Saturday, 10:00 UTC

    def run(tx: Transaction) -> list[str]:
        talk(tx, text, first_at_ms=day + days_later * DAY)
        talk(tx, "What a quiet day at the lake.", first_at_ms=day + 60 * DAY)
        return texts(look(tx, query))

    assert await constellation.database.write(run) == [text]


async def test_what_was_said_many_times_in_the_same_words_does_not_fill_the_results(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        for number in range(8):
            say(tx, "Please run the kiln tests again now.", message_id=f"m{number}", session_id=f"s{number}")
        talk(tx, "The controller of the kiln fails its tests because the thermostat reports whole degrees only.")
        return texts(look(tx, "kiln tests", limit=2))

    assert "whole degrees" in (await constellation.database.write(run))[1]


async def test_identifiers_are_found_whole_and_by_their_parts(constellation: Constellation):
    def run(tx: Transaction) -> list[list[str]]:
        say(tx, "call getUserId first", message_id="m1")
        say(tx, "set MAX_RETRY_COUNT", message_id="m2", session_id="s2")
        return [texts(look(tx, query)) for query in ("getUserId", "user id", "retry", "MAX_RETRY_COUNT", "getuserid")]

    user, retry = "call getUserId first", "set MAX_RETRY_COUNT"
    assert await constellation.database.write(run) == [[user], [user], [retry], [retry], [user]]


async def test_other_forms_of_a_word_and_accents_are_found(constellation: Constellation):
    def run(tx: Transaction) -> list[int]:
        say(tx, "We deployed the café service.", message_id="m1")
        return [len(look(tx, query)) for query in ("deploying", "cafe", "CAFÉ", "nothing")]

    assert await constellation.database.write(run) == [1, 1, 1, 0]


async def test_a_message_indexed_again_is_replaced_and_a_removed_session_is_gone(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[str], list[str], int, list[str]]:
        say(tx, "half a mess", message_id="m1")
        say(tx, "a whole message", message_id="m1")
        half, whole = texts(look(tx, "mess")), texts(look(tx, "whole"))
        return half, whole, remove_source(tx, "s1"), texts(look(tx, "whole"))

    assert await constellation.database.write(run) == ([], ["a whole message"], 1, [])


async def test_a_long_message_gives_one_short_excerpt_around_the_hit(constellation: Constellation):
    def run(tx: Transaction) -> list[SearchResult]:
        say(tx, "filler words. " * 3_000 + "needle here. " + "needle again. " * 300, message_id="m1")
        return look(tx, "needle")

    (found,) = await constellation.database.write(run)
    assert "needle" in found.text
    assert len(found.text) <= EXCERPT


async def test_no_more_than_the_limit_is_given(constellation: Constellation):
    def run(tx: Transaction) -> list[int]:
        for number in range(9):
            say(tx, f"port {number}", message_id=f"m{number}")
        return [len(look(tx, "port", limit=limit)) for limit in (0, 1, 4, 50)]

    assert await constellation.database.write(run) == [0, 1, 4, 9]


async def test_text_that_utf8_cannot_hold_is_indexed_nevertheless(constellation: Constellation):
    def run(tx: Transaction) -> list[SearchResult]:
        say(tx, "half \ud83d emoji \x00 and nul", message_id="m1")
        return look(tx, "emoji \ud83d")

    assert len(await constellation.database.write(run)) == 1


ORDINARY = [
    "don't",
    "c++",
    "--flag",
    "a:b",
    "(",
    '"',
    "a AND",
    "NEAR(",
    "*",
    "^x",
    "x OR OR",
    "{a b}",
    "-",
    "\x00",
    "'",
    "²",
    "ⅷ",
]


@settings(max_examples=10, deadline=None)
@given(queries=st.lists(st.text(max_size=80) | st.sampled_from(ORDINARY), min_size=1, max_size=40))
def test_any_input_is_a_safe_query(queries: list[str]):
    async def run() -> None:
        with anyio.fail_after(20):
            async with temporary_constellation() as constellation:
                await constellation.database.write(search_all)

    def search_all(tx: Transaction) -> None:
        say(tx, "don't use c++ with --flag a:b ( x", message_id="m1")
        for query in [*queries, *ORDINARY]:
            look(tx, query)
            say(tx, query, message_id="m2", session_id="s2")

    anyio.run(run)


async def test_every_result_says_why_it_was_found(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        say(tx, "Which ports does the database use?", message_id="m1")
        say(tx, "It is 5433.", message_id="m2", kind="assistant", at_ms=NOW - 300 * DAY)
        return [one.why.sentence for one in look(tx, "database port")]

    assert await constellation.database.write(run) == ["words: ports, database; recent", "beside a match"]


async def test_a_search_is_narrowed_to_kinds_sessions_and_times(constellation: Constellation):
    def run(tx: Transaction) -> list[list[str]]:
        say(tx, "port one", message_id="m1", at_ms=NOW - 2 * DAY)
        say(tx, "port two", message_id="m2", session_id="s2", kind="assistant", at_ms=NOW - DAY)
        index_block(tx, block("port three"), at_ms=NOW, seq=an_event(tx))
        filters = (
            Filters(("tester",), kinds=("user", "assistant")),
            Filters(("tester",), kinds=("block",)),
            Filters(("tester",), session="s2"),
            Filters(("tester",), since_ms=NOW - DAY, until_ms=NOW - DAY),
            Filters(("tester",), kinds=()),
        )
        return [sorted(texts(list(search(tx, "port", one, limit=9, now_ms=NOW)))) for one in filters]

    assert await constellation.database.write(run) == [
        ["port one", "port two"],
        ["port three"],
        ["port two"],
        ["port two"],
        [],
    ]


async def test_neighbours_are_narrowed_too(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        say(tx, "Which port?", message_id="m1")
        say(tx, "It is 5433.", message_id="m2", kind="assistant")
        return texts(list(search(tx, "port", Filters(("tester",), kinds=("user",)), limit=9, now_ms=NOW)))

    assert await constellation.database.write(run) == ["Which port?"]


async def test_many_invisible_matches_do_not_hide_the_visible_one(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        for number in range(450):
            say(tx, "port port port", message_id=f"m{number}", owner="other", session_id="s2")
        say(tx, "a long text in which the port is named once among other words", message_id="mine")
        return texts(look(tx, "port"))

    assert len(await constellation.database.write(run)) == 1


def seen(words: int, meaning: float | None) -> SearchResult:
    why = Why(tuple(f"word{number}" for number in range(words)), 1.0, meaning, 0.0, 0.0)
    return SearchResult("archival", "a1", "", "1", "text", NOW, 1.0, why, entry=1)


@pytest.mark.parametrize(
    ("found", "guess"),
    [
        ([seen(1, 0.1)], True),
        ([seen(1, 0.1), seen(0, 0.21)], True),
        ([seen(2, 0.1)], False),
        ([seen(1, 0.3)], False),
        ([seen(1, None)], False),
        ([seen(0, 0.1)] * 5 + [seen(0, 0.9)], True),
        ([], False),
    ],
)
def test_results_are_a_guess_when_none_of_the_first_has_much_of_the_query(found: list[SearchResult], *, guess: bool):
    vector = QueryVector(VectorTable(1, has_extension=False), HASHED_NGRAMS, hashed_vector("x"))
    assert is_guess(found, "port database staging", vector) is guess
    assert not is_guess(found, "port database staging", None)


def test_without_a_measure_of_its_embedder_nothing_is_called_a_guess():
    model = EmbeddingModel("lab/m", 2, floor=0.45, trust=1.0)
    vector = QueryVector(VectorTable(1, has_extension=False), model, hashed_vector("x"))
    assert not is_guess([seen(0, 0.1)], "port database staging", vector)
