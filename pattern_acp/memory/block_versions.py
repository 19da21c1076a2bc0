"""How far the history of each block has come, for checkpoints.

Owns: reading it in one transaction. Must not know: checkpoints.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db.columns import data, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.sharing import visible_rows

_QUERIES = load_queries("pattern_acp.memory")


class BlockPoint(Struct, frozen=True):
    """A block in sight, the number of its newest write, and Loro's frontiers of that state."""

    block_id: str
    label: str
    version: int
    frontiers: bytes


def block_points(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[BlockPoint, ...]:
    """Where every block stands that these owners see; texts are not looked at, so damage is in nobody's way."""
    seen = visible_rows(tx, owners)
    rows = tx.all(_QUERIES["blocks_frontiers"], {"ids": json.dumps([one.block.id for one in seen])})
    frontiers = {text(row[0]): data(row[1]) for row in rows}
    return tuple(
        BlockPoint(one.block.id, one.label, one.block.head_update, frontiers.get(one.block.id, b"")) for one in seen
    )
