"""What every turn asks the database takes as long in a long session, and with many facts, as in a new one."""

import re
from typing import LiteralString

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from tests.support.constellation import temporary_constellation

JOURNAL, MEMORY = load_queries("pattern_acp.journal"), load_queries("pattern_acp.memory")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        (JOURNAL["newest_redaction"], "SEARCH redactions"),
        (MEMORY["untold_repeats"], "SCAN r"),
    ],
    ids=["forgotten words", "repeated facts"],
)
async def test_what_there_is_little_of_is_gone_through_first(query: LiteralString, first: str):
    values = dict.fromkeys(re.findall(r":(\w+)", query), "[]")

    def plan(tx: Transaction) -> str:
        return str(tx.all(f"EXPLAIN QUERY PLAN {query}", values)[0][3])

    async with temporary_constellation() as constellation:
        assert (await constellation.database.read(plan)).startswith(first)
