"""How far the history of each block has come, for checkpoints.

Owns: reading it in one transaction. Must not know: checkpoints.
"""

from collections.abc import Sequence

from pattern_acp.db.columns import data
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.sharing import visible_rows

_QUERIES = load_queries("pattern_acp.memory")


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """A block in sight, the number of its newest write, and Loro's frontiers of that state."""

    block_id: str
    label: str
    version: int
    frontiers: bytes


def block_points(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[BlockPoint, ...]:
    """Where every block stands that these owners see; texts are not looked at, so damage is in nobody's way."""
    points: list[BlockPoint] = []
    for seen in visible_rows(tx, owners):
        row = tx.one(_QUERIES["block_frontiers"], {"id": seen.block.id})
        frontiers = b"" if row is None else data(row[0])
        points.append(BlockPoint(seen.block.id, seen.label, seen.block.head_update, frontiers))
    return tuple(points)
