"""Indexes of sqlite-vec that programs before schema version 17 made.

Owns: the tables `vector_index_N`. Must not know: what took their place (memory/vectors.py). Dropping one
needs the extension (`DatabaseFacts.vector_version`), which a migration cannot count on. SQL has no placeholders for
names, which is why statements are put together here and nowhere else; the names are those of the schema of the file.
"""

from typing import LiteralString, cast

from pattern_acp.db import columns
from pattern_acp.db.transaction import Transaction

_INDEXES: LiteralString = (
    "SELECT name FROM sqlite_schema"
    " WHERE type = 'table' AND sql LIKE '%USING vec0%' AND name GLOB 'vector_index_[0-9]*'"
)


def drop_old_indexes(tx: Transaction) -> int:
    """Drop every index of sqlite-vec, and say how many there were.

    Raises:
        DatabaseError: the extension is not loaded, and there is one.
    """
    names = [columns.text(row[0]) for row in tx.all(_INDEXES)]
    for name in names:
        tx.execute(cast("LiteralString", f'DROP TABLE "{name}"'))
    return len(names)
