"""Which words of a passage a query has too."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.recall import TOKENIZER, MatchHighlighter, insert_passage
from pattern_acp.memory.search_terms import match_expression
from tests.support.constellation import temporary_constellation

NOW = 1_800_000_000_000
MARKED = re.compile("\x02([^\x03]*)\x03")

PIECES = ["don", "t", "don't", "Don\u2019t", "run", "running", "Läufe", "laufe", "getUserId", "a", "_", "日本", "🙂"]
TERMS = ["don't", "t'run", "t", "runs", "läufe", "user", "日本", "don't don't", "'", ""]

texts = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | st.text(max_size=20)
terms = st.lists(st.sampled_from(TERMS), max_size=4)


async def test_words_in_any_form_and_in_parts_of_identifiers_are_told_once():
    async with temporary_constellation() as opened:
        found = await opened.database.read(
            lambda tx: MatchHighlighter(tx, ("port", "test", "don't")).words(
                "Tests of readPort don't, TESTS", "read Port"
            )
        )
    assert found == ("tests", "don't", "port")


async def test_the_tokenizer_is_that_of_the_index():
    statement = "SELECT sql FROM sqlite_schema WHERE name = 'search_fts'"
    async with temporary_constellation() as opened:
        (row,) = await opened.database.read(lambda tx: tx.all(statement))
    assert f"tokenize = '{' '.join(TOKENIZER)}'" in columns.text(row[0])


@settings(max_examples=25, deadline=None)
@given(said=st.lists(texts, min_size=1, max_size=12), asked=terms)
async def test_the_words_are_those_that_fts5_would_mark(said: list[str], asked: list[str]):
    said = [re.sub("[\x00\x02\x03\ud800-\udfff]", "", text) for text in said]

    def run(tx: Transaction) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        seq = append(tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq
        for number, text in enumerate(said):
            insert_passage(tx, "user", "s1", "me", str(number), text, NOW, seq)
        statement = (
            "SELECT e.text, e.words,"
            " highlight(search_fts, 0, char(2), char(3)), highlight(search_fts, 1, char(2), char(3))"
            " FROM search_fts JOIN search_entries AS e ON e.id = search_fts.rowid WHERE search_fts MATCH ?"
        )
        rows = tx.all(statement, (match_expression(tuple(asked)),)) if asked else []
        marker = MatchHighlighter(tx, asked)
        marked: list[tuple[str, ...]] = []
        for row in rows:
            words = [word.lower() for column in row[2:] for word in MARKED.findall(columns.text(column))]
            marked.append(tuple(dict.fromkeys(words)))
        return marked, [marker.words(columns.text(row[0]), columns.text(row[1])) for row in rows]

    async with temporary_constellation() as opened:
        marked, told = await opened.database.write(run)
    assert told == marked
