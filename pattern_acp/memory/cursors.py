"""What was written since someone last looked.

Owns: the writes of a block after a number, and the rows of `cursors`: up to which event a persona was told of what went
on in a project, and when it was last at work there. Must not know: how any of it is told. Every row carries the number
of the event that moved it (rule R1).
"""

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor

_QUERIES = load_queries("pattern_acp.memory")

MOST_WRITES = 50
"""Writes of one block that are looked at; who wrote earlier ones is not told."""


@dataclass(frozen=True, slots=True)
class LaterWrite:
    """One write: its number in the block, when, by whom, why, and the stream (session) whose journal holds it."""

    number: int
    at_ms: int
    actor: Actor
    reason: str
    stream: str


def writes_since(tx: Transaction, block_id: str, after: int) -> tuple[LaterWrite, ...]:
    """The newest writes of a block above the number `after`, oldest first."""
    rows = tx.all(_QUERIES["writes_since"], {"block_id": block_id, "after": after, "limit": MOST_WRITES})
    return tuple(
        LaterWrite(
            columns.integer(row[0]),
            columns.integer(row[1]),
            Actor(columns.text(row[2])),
            columns.text(row[3]),
            columns.text(row[4]),
        )
        for row in reversed(rows)
    )
