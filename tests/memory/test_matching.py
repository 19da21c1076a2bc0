"""Which passages a query's words choose, however common they are."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.matching import USUAL, Effort, Occurring, Visible, best_by_words, occurring
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.search_terms import Filters, match_any_of, match_expression
from pattern_acp.memory.vectors import EXACT_ENTRIES, Extent
from tests.support.constellation import Constellation, temporary_constellation

NOW = 1_800_000_000_000
MINE = Filters(("tester",))
MANY = Visible(MINE, Extent(EXACT_ENTRIES + 1))
FEW = Visible(MINE, Extent(10))
SMALL = Effort(counted=50, scored=4, chosen=4, most_chosen=0, scanned=12, newest=3)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


@dataclass
class Told:
    """Texts in the index, of one owner unless told otherwise."""

    tx: Transaction

    def __post_init__(self) -> None:
        event = append(self.tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW)
        self.seq, self.number = event.seq, 0

    def say(self, *texts: str, owner: str = "tester") -> None:
        for text in texts:
            self.number += 1
            index_message(
                self.tx,
                session_id="s1",
                owner=owner,
                kind="user",
                message_id=str(self.number),
                text=text,
                at_ms=NOW,
                seq=self.seq,
            )

    def found(self, *words: str, visible: Visible = MANY, count: int = 3, effort: Effort = SMALL) -> list[str]:
        occurring_words = occurring(self.tx, words, effort)
        rows = best_by_words(self.tx, occurring_words, visible, count, effort)
        return [columns.text(row[3]) for row in rows]


async def test_words_are_told_apart_by_how_rare_they_are_and_those_that_are_nowhere_go(constellation: Constellation):
    def run(tx: Transaction) -> Occurring:
        Told(tx).say("port", "port test", "port test", "port port")
        return occurring(tx, ("port", "absent", "tests"), Effort(counted=3))

    words = await constellation.database.write(run)
    assert words.counts == (("tests", 2), ("port", 3))
    assert words.split(2) == (["tests"], ["port"])
    assert words.split(1) == ([], ["tests", "port"])


@pytest.mark.parametrize("visible", [MANY, FEW])
async def test_a_rare_word_leads_however_often_the_common_ones_occur(constellation: Constellation, visible: Visible):
    def run(tx: Transaction) -> list[str]:
        told = Told(tx)
        told.say("the port is kestrel", *["port port port"] * 20)
        return told.found("port", "kestrel", visible=visible)

    found = await constellation.database.write(run)
    assert found[0] == "1"
    assert len(found) == 3, "common words fill the page"


async def test_among_passages_with_a_rare_word_the_common_ones_count_too(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        told = Told(tx)
        told.say("kestrel alpha beta gamma", "kestrel port beta gamma", "kestrel alpha beta delta")
        told.say(*["port delta"] * 8, *["alpha beta"] * 40)
        return told.found("port", "kestrel", count=1)

    assert await constellation.database.write(run) == ["2"]


async def test_of_many_passages_an_eighth_is_chosen_up_to_a_number(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[str], list[str]]:
        told = Told(tx)
        told.say("port kestrel kestrel kestrel", *["kestrel port"] * 5, *["port"] * 20, *["else"] * 26)
        fewer = Effort(counted=50, scored=4, chosen=4, most_chosen=5, scanned=100, newest=3)
        few = told.found("kestrel", "port", count=1, effort=fewer)
        return few, told.found("kestrel", "port", count=1, effort=replace(fewer, most_chosen=6))

    few, many = await constellation.database.write(run)
    assert many == ["1"], "an eighth of 52 passages is 6, all those with the rare word"
    assert few != many, "5 is too few for them, so only the newest with both words are scored"


async def test_a_word_of_nearly_half_of_all_passages_is_not_scored_beside_rare_ones(constellation: Constellation):
    def run(tx: Transaction) -> tuple[list[str], list[str]]:
        told = Told(tx)
        told.say(
            "kestrel beta gamma delta", "kestrel port", "heron test", *["port"] * 20, *["test"] * 12, *["else"] * 7
        )
        chosen = Effort(counted=50, scored=4, chosen=2, most_chosen=0, scanned=100, newest=3)
        enough = occurring(tx, ("kestrel", "heron", "port", "test")).telling(42)
        return [word for word, _ in enough.counts], told.found("kestrel", "port", count=2, effort=chosen)

    scored, found = await constellation.database.write(run)
    assert scored == ["heron", "kestrel", "test"]
    assert found == ["2", "1"], "by the rare word alone, so the shorter one leads"


async def test_with_only_common_words_those_passages_lead_that_have_all_of_them(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        told = Told(tx)
        told.say("port and test together")
        told.say(*["the port", "a test"] * 10)
        return told.found("port", "test")

    found = await constellation.database.write(run)
    assert found[0] == "1"
    assert set(found[1:]) <= {"19", "20", "21"}, "then the newest ones with any"


async def test_others_passages_never_take_the_place_of_visible_ones(constellation: Constellation):
    def run(tx: Transaction) -> list[list[str]]:
        told = Told(tx)
        told.say("port one", "port two", "kestrel port")
        told.say(*["kestrel port"] * 30, owner="someone else")
        return [told.found("port", "kestrel", visible=visible) for visible in (MANY, FEW)]

    for found in await constellation.database.write(run):
        assert found[0] == "3"
        assert set(found) <= {"1", "2", "3"}


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6), min_size=1, max_size=40),
    words=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4, unique=True),
)
async def test_with_effort_enough_nothing_changes_and_with_little_only_matching_passages_come(
    texts: list[list[str]], words: list[str]
):
    def run(tx: Transaction) -> tuple[list[str], list[str], list[str]]:
        told = Told(tx)
        told.say(*(" ".join(f"{word}{word}" for word in text) for text in texts))
        asked = [word * 2 for word in words]
        whole = told.found(*asked, count=50, effort=USUAL)
        return whole, told.found(*asked, count=50, visible=FEW, effort=USUAL), told.found(*asked, count=3)

    async with temporary_constellation() as opened:
        whole, exact, narrowed = await opened.database.write(run)
    having = {str(number) for number, text in enumerate(texts, start=1) if set(text) & set(words)}
    assert set(whole) == set(exact) == having
    assert set(narrowed) <= having
    assert len(narrowed) == min(3, len(having)) or len(texts) > SMALL.newest


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8), min_size=1, max_size=40),
    words=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True),
    needed=st.integers(1, 5),
)
async def test_passages_chosen_by_some_words_have_the_scores_that_all_words_give(
    texts: list[list[str]], words: list[str], needed: int
):
    asked = tuple(word * 2 for word in words)
    scored = "SELECT rowid, bm25(search_fts, 1.0, 0.6) FROM search_fts WHERE search_fts MATCH ?"

    def run(tx: Transaction) -> tuple[list[Row], list[Row]]:
        Told(tx).say(*(" ".join(word * 2 for word in text) for text in texts))
        chosen = match_any_of(asked[:needed], asked[needed:])
        return tx.all(scored, (match_expression(asked),)), tx.all(scored, (chosen,))

    async with temporary_constellation() as opened:
        whole, chosen = await opened.database.write(run)
    times = 2 if asked[needed:] else 1
    having = {number for number, text in enumerate(texts, start=1) if set(text) & set(words[:needed])}
    scores = {row[0]: score_of(row) for row in chosen}
    assert scores == pytest.approx({row[0]: score_of(row) * times for row in whole if row[0] in having})


def score_of(row: Row) -> float:
    assert isinstance(row[1], float)
    return row[1]


async def test_where_words_are_in_too_many_passages_the_rarest_choose_and_the_page_is_full(
    constellation: Constellation,
):
    def run(tx: Transaction) -> tuple[list[str], list[str]]:
        told = Told(tx)
        told.say("kestrel port", *["heron port"] * 3, *["port"] * 6)
        fewer = Effort(counted=50, scored=8, chosen=2, most_chosen=0, scanned=100, newest=3)
        return told.found("kestrel", "heron", effort=fewer), told.found("kestrel", "heron", "port", effort=fewer)

    whole, chosen = await constellation.database.write(run)
    assert whole[0] == chosen[0] == "1"
    assert len(whole) == len(chosen) == 3
    assert set(chosen) <= {"1", "2", "3", "4"}, "those with both of the common words come next"
