"""Ranking of a few texts by BM25, in a full-text index that lives for one question.

Owns: the index and its words. Must not know: what the texts are. A few hundred texts are indexed in milliseconds, and
an index that is made of what there is now can neither be stale nor name what is gone.
"""

from collections.abc import Mapping, Sequence

import apsw
from msgspec import Struct

from pattern_acp.db.raw import connect


class RankedText(Struct, frozen=True):
    """A text that was found: the key that it was handed in with, and a passage of its longest field."""

    key: str
    passage: str


def rank_texts(
    texts: Mapping[str, Sequence[str]], weights: Sequence[float], expression: str, limit: int
) -> tuple[RankedText, ...]:
    """Return the best of `texts` for an FTS5 expression, best first.

    Args:
        texts: Fields of each text by its key; a passage is shown of the last.
        weights: The weight of each field.
        expression: The query, every term quoted (`memory.search_terms.match_expression`).
        limit: Most results.
    """
    connection = connect(":memory:", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        columns = [f"f{number}" for number in range(len(weights))]
        connection.execute(
            f"CREATE VIRTUAL TABLE texts USING fts5(key UNINDEXED, {', '.join(columns)}, tokenize='porter unicode61')"
        )
        marks = ", ".join("?" * (len(weights) + 1))
        for key, fields in texts.items():
            connection.execute(f"INSERT INTO texts VALUES ({marks})", (key, *fields))  # noqa: S608  marks alone
        numbers = ", ".join(str(float(weight)) for weight in weights)
        rows = connection.execute(
            f"SELECT key, snippet(texts, {len(weights)}, '', '', '…', 24) FROM texts WHERE texts MATCH ?"  # noqa: S608
            f" ORDER BY bm25(texts, 0.0, {numbers}), key LIMIT ?",
            (expression, limit),
        ).fetchall()
    finally:
        connection.close()
    return tuple(RankedText(str(row[0]), " ".join(str(row[1]).split())) for row in rows)
