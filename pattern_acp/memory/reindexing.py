"""Making the search index of a memory that was rebuilt without one.

Owns: what of blocks and of the archive is indexed when nothing is. Must not know: where the rows came from.
"""

import json
import logging

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.block_loader import whole_block
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.recall import index_archival

_QUERIES = load_queries("pattern_acp.memory")
_LOGGER = logging.getLogger(__name__)


def index_memory(tx: Transaction) -> None:
    """Make every block and archival entry findable, in an index that holds none of them.

    A block of which nothing is sound stays out.

    Raises:
        DatabaseError: the file cannot be written.
    """
    owners = [[row[0], row[1]] for row in tx.all(_QUERIES["block_owners"])]
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        try:
            block = whole_block(tx, row)
        except BlockCorruptError as error:
            _LOGGER.warning("A memory block cannot be searched. %s", error.sentence)
            continue
        changed = tx.one(_QUERIES["seq_of_block"], {"block_id": block.id})
        if changed is not None:
            index_block(tx, block, at_ms=block.updated_ms, seq=columns.integer(changed[0]))
    for entry_id, owner, text, at_ms, seq, superseded in tx.all(_QUERIES["every_archival"]):
        source, last = columns.text(entry_id), columns.integer(seq)
        index_archival(
            tx,
            entry_id=source,
            owner=columns.text(owner),
            text=columns.text(text),
            at_ms=columns.integer(at_ms),
            seq=last,
        )
        if superseded:
            tx.execute(_QUERIES["supersede_entries"], {"source": source, "seq": last})


def count_blocks(tx: Transaction) -> int:
    """How many blocks there are that were not deleted.

    Raises:
        DatabaseError: the file cannot be read.
    """
    row = tx.one(_QUERIES["count_blocks"])
    return 0 if row is None else columns.integer(row[0])
