"""Texts become vectors beside everything else, and search goes on when they do not."""

from collections.abc import AsyncGenerator, Sequence

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.embeddings import (
    DIMENSIONS,
    EmbedderError,
    EmbeddingModel,
    HashedNgrams,
    TextUse,
    Vector,
    hashed_vector,
)
from pattern_acp.memory.indexer import (
    BATCH,
    CATCH_UP,
    FRESH,
    FRESH_SECONDS,
    IDLE_SECONDS,
    RETRY_SECONDS,
    Indexer,
    pause_after,
)
from pattern_acp.memory.recall import SearchResult, index_message, search
from pattern_acp.memory.search_terms import Filters
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.passing_time import passing

NOW = 1_800_000_000_000


class SlowEmbedder:
    """Hashed vectors by an embedder that is not immediate, fails while `problem` is set, and tells of each text."""

    model = EmbeddingModel("slow", DIMENSIONS, floor=0.3, trust=1.0)
    is_immediate = False

    def __init__(self) -> None:
        self.problem = ""
        self.asked: list[tuple[str, TextUse]] = []
        self.done = anyio.Event()

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""
        if self.problem:
            raise EmbedderError(self.problem)

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        await anyio.lowlevel.checkpoint()
        if self.problem:
            raise EmbedderError(self.problem)
        self.asked += [(text, use) for text in texts]
        self.done.set()
        return tuple(hashed_vector(text) for text in texts)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def say(tx: Transaction, *texts: str) -> None:
    seq = append(tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq
    for number, text in enumerate(texts):
        index_message(
            tx,
            session_id=f"s{number}",
            owner="me",
            kind="user",
            message_id=f"m{number}",
            text=text,
            at_ms=NOW,
            seq=seq,
        )


async def look(constellation: Constellation, indexer: Indexer, query: str) -> tuple[SearchResult, ...]:
    vector = await indexer.query(query)
    return await constellation.database.read(
        lambda tx: search(tx, query, Filters(("me",)), limit=5, now_ms=NOW, vector=vector)
    )


async def test_an_immediate_embedder_finds_what_was_stored_a_moment_ago(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Authentication is by key.", "Use tabs."))
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    (found,) = await look(constellation, indexer, "authentification")
    assert found.text == "Authentication is by key."
    assert found.why.words == ()
    assert found.why.meaning is not None
    assert found.why.sentence.startswith("meaning 0.")


async def test_a_query_does_not_wait_for_texts_of_the_source_that_it_leaves_out(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Authentication is by key."))
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    assert await indexer.query("authentification", beside="s0") is not None
    assert (await indexer.state()).waiting == 1
    # Now one of another session waits too.
    await constellation.database.write(lambda tx: say(tx, "Use keys.", "Use tabs."))
    assert await indexer.query("authentification", beside="s0") is not None
    assert (await indexer.state()).waiting == 0


async def test_what_is_recalled_for_a_prompt_does_not_wait_for_what_other_sessions_say(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Use keys.", "Authentication is by key."))
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    await indexer.state()
    writes = constellation.database.writes
    vector, found = await indexer.ask(
        "authentication",
        lambda tx, vector: search(tx, "authentication", Filters(("me",)), limit=5, now_ms=NOW, vector=vector),
        hurried=True,
        beside="s0",
    )
    assert vector is not None
    assert [one.text for one in found] == ["Authentication is by key."]
    assert (constellation.database.writes, (await indexer.state()).waiting) == (writes, 2)


async def test_a_question_about_a_speaker_is_embedded_without_the_name(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, *(f"Marta: Note {number}." for number in range(20))))
    embedder = SlowEmbedder()
    await Indexer(constellation.database, embedder, constellation.clock).query("What did Marta inherit in Graz?")
    assert [text.split() for text, _ in embedder.asked] == [["What", "did", "inherit", "in", "Graz?"]]


async def test_a_search_for_what_a_speaker_said_goes_by_the_vector_without_the_name(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, *(f"Marta: Note {number}." for number in range(20))))
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    vector, looked = await indexer.ask("What did Marta inherit in Graz?", lambda tx, vector: vector)
    plain = await indexer.query("What did inherit in Graz?")
    assert vector is not None
    assert looked is vector
    assert plain is not None
    assert vector.vector == plain.vector


async def test_a_slow_embedder_is_not_waited_for(constellation: Constellation):
    others = [f"text {number}" for number in range(FRESH)]
    await constellation.database.write(lambda tx: say(tx, "Authentication is by key.", "Use tabs.", *others))
    embedder = SlowEmbedder()
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    assert await look(constellation, indexer, "authentification") == ()
    assert [text for text, _ in embedder.asked] == ["authentification"]
    (found,) = await look(constellation, indexer, "tabs")
    assert found.why.words == ("tabs",)
    assert await indexer.catch_up(20) == 2 + FRESH
    assert [one.text for one in await look(constellation, indexer, "authentification")] == ["Authentication is by key."]


async def test_the_background_task_embeds_what_is_stored(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Use tabs."))
    embedder = SlowEmbedder()
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.run)
        with anyio.fail_after(30):
            await embedder.done.wait()
            while (await indexer.state()).waiting:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert embedder.asked == [("Use tabs.", TextUse.STORED)]


def test_the_background_task_takes_no_portion_after_the_other_of_what_is_said_meanwhile():
    assert pause_after(BATCH) < 1.0
    assert {pause_after(BATCH - 1), pause_after(1), pause_after(0)} == {IDLE_SECONDS}


async def test_a_failing_embedder_leaves_words_and_is_asked_again_after_a_while(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Use tabs."))
    embedder = SlowEmbedder()
    embedder.problem = "The server is not running; start it."
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    (found,) = await look(constellation, indexer, "tabs")
    assert found.why.meaning is None
    assert (await indexer.state()).problem == "The server is not running; start it."
    embedder.problem = ""
    assert await indexer.query("tabs") is None
    constellation.clock.advance(int(RETRY_SECONDS * 1000))
    assert await indexer.query("tabs") is not None
    assert (await indexer.state()).problem == ""


async def test_an_embedder_that_was_being_prepared_is_asked_as_soon_as_it_is(constellation: Constellation):
    embedder = SlowEmbedder()
    embedder.problem = "The embedder is being prepared."
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    assert await indexer.query("tabs") is None
    embedder.problem = ""
    await indexer.prepare()
    assert (await indexer.state()).problem == ""
    assert await indexer.query("tabs") is not None


async def test_the_background_task_survives_a_failing_embedder(constellation: Constellation):
    await constellation.database.write(lambda tx: say(tx, "Use tabs."))
    embedder = SlowEmbedder()
    embedder.problem = "The server is not running; start it."
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexer.run)
        with anyio.fail_after(30):
            while not (await indexer.state()).problem:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_a_search_embeds_a_bounded_number_of_texts(constellation: Constellation):
    texts = [f"text {number}" for number in range(CATCH_UP + 100)]
    await constellation.database.write(lambda tx: say(tx, *texts))
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    await indexer.query("text")
    assert (await indexer.state()).waiting == 100


async def test_changing_the_embedder_keeps_search_right_meanwhile(constellation: Constellation):
    others = [f"text {number}" for number in range(FRESH)]
    await constellation.database.write(lambda tx: say(tx, "Authentication is by key.", "Use tabs.", *others))
    before = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    await before.catch_up(100)
    after = Indexer(constellation.database, SlowEmbedder(), constellation.clock)
    (words,) = await look(constellation, after, "tabs")
    assert words.why.meaning is None
    assert [one.text for one in await look(constellation, before, "authentification")] == ["Authentication is by key."]
    await after.catch_up(100)
    (both,) = await look(constellation, after, "tabs")
    assert both.why.meaning is not None


async def test_a_query_that_says_nothing_has_no_vector(constellation: Constellation):
    indexer = Indexer(constellation.database, HashedNgrams(), constellation.clock)
    assert await indexer.query("?!") is None


async def test_what_was_stored_a_moment_ago_is_found_by_meaning_before_the_background_came_to_it(
    constellation: Constellation,
):
    embedder = SlowEmbedder()
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    await constellation.database.write(lambda tx: say(tx, "the deployment runs on zeppelins"))
    await indexer.query("deploymnt")
    assert embedder.asked == [("the deployment runs on zeppelins", TextUse.STORED), ("deploymnt", TextUse.QUERY)]


async def test_a_query_does_not_wait_for_a_large_backlog(constellation: Constellation):
    embedder = SlowEmbedder()
    indexer = Indexer(constellation.database, embedder, constellation.clock)
    await constellation.database.write(lambda tx: say(tx, *(f"text {number}" for number in range(FRESH + 1))))
    await indexer.query("text")
    assert embedder.asked == [("text", TextUse.QUERY)]


async def test_a_query_does_not_wait_for_an_embedder_that_hangs_over_what_is_fresh(constellation: Constellation):
    hangs = anyio.Event()

    class Hanging(SlowEmbedder):
        async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
            if use is TextUse.STORED:
                hangs.set()
                await anyio.sleep_forever()
            return await super().embed(texts, use)

    indexer = Indexer(constellation.database, Hanging(), constellation.clock)
    await constellation.database.write(lambda tx: say(tx, "Use tabs."))
    async with passing(FRESH_SECONDS, hangs.wait):
        assert await indexer.query("tabs") is not None
