"""What the journal's tables hold that no event needs.

Owns: large payloads without an event, which a process leaves that ended between the two, and a redaction elsewhere.
Must not know: when they are to go. Events themselves are never deleted.
"""

from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries

QUERIES = load_queries("pattern_acp.journal")


def unused_blobs(tx: Transaction) -> tuple[int, int]:
    """How many large payloads belong to no event, and their bytes."""
    row = tx.one(QUERIES["unused_blobs"])
    return (0, 0) if row is None else (integer(row[0]), integer(row[1]))


def delete_unused_blobs(tx: Transaction) -> None:
    """Delete them.

    Raises:
        DatabaseError: the file cannot be written.
    """
    tx.execute(QUERIES["sweep_blobs"])


def newest_forgetting_ms(tx: Transaction) -> int:
    """When words were last taken out of events, in milliseconds since 1970; 0 for never."""
    row = tx.one(QUERIES["newest_forgetting"])
    return 0 if row is None else integer(row[0])
